"""A trail goes on after a restart as if it had never stopped, and refuses what is not its own."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.serve.conftest import draw
from tests.serve.trails import change, feed, followed, label

from caveat import Guard, Outputs
from caveat.errors import InputError, StoreError
from caveat.serve import folding as folding_module
from caveat.serve import trail as trail_module
from caveat.serve.audit.content import encode_verdicts
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.store import Damaged
from caveat.serve.audit.verify import verify_trail
from caveat.serve.folding import Folding
from caveat.serve.problems import Problem
from caveat.serve.trail import Trail


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path / "audit.sqlite")
    yield opened
    opened.close()


def test_batches_folds_and_restarts_change_nothing(store, tmp_path, logit_guard, monkeypatch):
    monkeypatch.setattr(trail_module, "_SNAPSHOT_ROWS", 50)
    other = SqliteStore(tmp_path / "other.sqlite")
    whole, parts = Trail(logit_guard, store), Trail(logit_guard, other)
    for seed in range(6):
        sizes = [1, 64, 3, 17, 1]
        for trail in (whole, parts):
            ids = feed(trail, logit_guard, sizes, seed=seed, shift=0.05 * seed, fold=trail is parts)
            label(trail, ids, seed=seed)
        if seed % 2:
            parts = Trail(logit_guard, other)  # as after a kill: nothing was said to the old one
    whole.fold()
    parts.fold()
    assert followed(whole) == followed(parts)
    assert parts.verified_from > 1  # it went on from a snapshot
    for each in (store, other):
        replay = replay_trail(logit_guard, each)
        assert replay.sound, replay.first_difference
        assert dict(replay.log10_e) == whole.watch.log10_e
        assert (replay.labels, replay.errors) == (whole.watch.risk.n, whole.watch.risk.errors)
    other.close()


def test_verdicts_that_were_just_written_are_not_read_again(store, tmp_path, logit_guard, monkeypatch):
    other = SqliteStore(tmp_path / "other.sqlite")
    wrote, read = Trail(logit_guard, store), Trail(logit_guard, other)
    for seed in range(4):
        for trail in (wrote, read):
            feed(trail, logit_guard, [1, 64, 3, 30], seed=seed, shift=0.1 * seed, fold=False, say=trail is wrote)
    read.fold()
    with monkeypatch.context() as patch:
        patch.setattr(folding_module, "merged_verdicts", None)  # a call fails
        wrote.fold(most=70)
        assert wrote.unfolded
        wrote.fold()
    assert not wrote._verdicts
    assert followed(wrote) == followed(read)
    wrote.note("start")
    feed(wrote, logit_guard, [5], seed=9, fold=False, say=True)
    feed(wrote, logit_guard, [5, 2], seed=10, fold=False)  # not said: the bodies are read
    for seed, sizes in ((9, [5]), (10, [5, 2])):
        feed(read, logit_guard, sizes, seed=seed)
    wrote.fold()
    assert wrote.watch.log10_e == read.watch.log10_e
    assert wrote.live.to_dict(now=0.0)["last"][0]["p_value"] == read.live.to_dict(now=0.0)["last"][0]["p_value"]
    other.close()


def test_verdicts_of_a_write_that_failed_are_forgotten(store, logit_guard, monkeypatch):
    trail = Trail(logit_guard, store)
    with monkeypatch.context() as patch:
        patch.setattr(store, "append", lambda *_: (_ for _ in ()).throw(StoreError("full")))
        with pytest.raises(StoreError, match="full"):
            feed(trail, logit_guard, [7], seed=1, say=True)
    assert not trail._verdicts
    feed(trail, logit_guard, [5, 2], seed=2, say=True)  # takes the numbers of the records that were not written
    assert replay_trail(logit_guard, store).sound
    assert trail.folding.rows == 7


def test_a_state_that_this_version_cannot_read_costs_time_only(store, logit_guard, monkeypatch):
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [5, 5], seed=1)
    trail.snapshot()
    trail.fold()

    def unreadable(folding, state):
        raise Damaged("a kept state cannot be read (KeyError)")

    monkeypatch.setattr(Folding, "restore", unreadable)
    again = Trail(logit_guard, store)
    assert again.verified_from == 1
    assert again.folding.facts() == trail.folding.facts()


@pytest.mark.parametrize("state", ["substr(state, 1, 100)", "replace(state, '\"rows\": 10', '\"rows\": 12')"])
def test_a_state_that_is_not_the_one_that_was_kept_is_refused_at_the_start(store, logit_guard, state):
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [5, 5], seed=1)
    trail.snapshot()
    change(store.path, f"UPDATE snapshots SET state = CAST({state} AS BLOB)")
    with pytest.raises(InputError, match="not the one that was kept"):
        Trail(logit_guard, store)


def test_a_chain_that_was_cut_at_its_end_is_refused(store, logit_guard):
    trail = Trail(logit_guard, store)
    feed(trail, logit_guard, [5, 5], seed=1)
    trail.snapshot()
    change(store.path, "DELETE FROM records WHERE seq = 2")
    with pytest.raises(InputError, match="missing"):
        Trail(logit_guard, store)


def test_a_changed_record_is_refused_at_the_start(store, logit_guard):
    feed(Trail(logit_guard, store), logit_guard, [5, 5], seed=1)
    change(store.path, "UPDATE records SET at = '2020' WHERE seq = 2")
    with pytest.raises(InputError, match="damaged at record 2"):
        Trail(logit_guard, store)


def test_another_guard_or_alpha_is_refused(store, logit_guard, feature_guard):
    Trail(logit_guard, store)
    with pytest.raises(InputError, match="belongs to the guard"):
        Trail(feature_guard, store)
    with pytest.raises(InputError, match="alpha"):
        Trail(logit_guard, store, alpha=0.05)


def test_labels_are_taken_once_and_conflicts_are_named(store, logit_guard):
    trail = Trail(logit_guard, store)
    ids = feed(trail, logit_guard, [4, 2], seed=1)
    assert trail.append_labels({ids[0]: 1, ids[5]: 2}) == {"recorded": 2, "repeated": 0}
    assert trail.append_labels({ids[0]: 1, ids[1]: 0}) == {"recorded": 1, "repeated": 1}
    seq = trail.seq
    with pytest.raises(Problem, match="has the label 2") as conflict:
        trail.append_labels({ids[2]: 0, ids[5]: 1})
    assert conflict.value.status == 409
    for key in (f"{trail.chain}-6", f"{trail.chain}-", f"{trail.chain}--1", "00000000-0", ids[0] + "٣", "x" * 1000):
        with pytest.raises(Problem, match="not the id") as unknown:
            trail.append_labels({ids[2]: 0, key: 1})
        assert unknown.value.status == 404
    with pytest.raises(Problem, match="class 0 to 2") as foreign:
        trail.append_labels({ids[2]: 3})
    assert foreign.value.status == 422
    assert trail.seq == seq  # all or nothing
    assert store.count_labels() == 3


def test_wrong_and_covered_by_hand(store, logit_guard):
    trail = Trail(logit_guard, store)
    outputs = Outputs(logits=[[9.0, 0.0, 0.0], [1.0, 1.0, 1.0], [90.0, 90.0, 90.0]])
    verdicts = logit_guard(outputs)
    trail.append_verdicts([(3, encode_verdicts(verdicts), None)])
    trail.append_labels({f"{trail.chain}-{row}": 0 for row in range(3)})
    judged = json.loads(store.last().entry.body)
    accepted = verdicts.kind == "accept"
    assert judged["wrong"] == [bool(p != 0) if a else None for p, a in zip(verdicts.predictions, accepted, strict=True)]
    assert judged["covered"] == [0 in labels for labels in verdicts.label_lists()]


def test_labels_in_the_order_of_the_answers_follow_from_the_records(store, tmp_path, logit_guard, monkeypatch):
    """Batches, folds and restarts change nothing; errors that are reported first do not ring."""
    monkeypatch.setattr(trail_module, "_SNAPSHOT_ROWS", 50)
    other = SqliteStore(tmp_path / "other.sqlite")
    rng = np.random.default_rng(0)
    whole, parts = (Trail(logit_guard, each, label_wait=40) for each in (store, other))
    for seed in range(6):
        truth = rng.integers(3, size=86)
        for trail in (whole, parts):
            ids = feed(trail, logit_guard, [1, 64, 3, 17, 1], seed=seed, fold=trail is parts)
            row = int(ids[0].rpartition("-")[2])
            verdicts = [body for record in trail.store.records() if record.entry.first_row >= row
                        for body in [json.loads(record.entry.body)] if record.entry.kind == "verdicts"]  # fmt: skip
            answers = [answer for body in verdicts for answer in body["prediction"]]
            wrong = [i for i in range(86) if truth[i] != answers[i]]
            trail.append_labels({ids[i]: int(truth[i]) for i in wrong[:40]})  # errors first, and nothing else
        if seed % 2:
            parts = Trail(logit_guard, other, label_wait=40)
    whole.fold()
    parts.fold()
    assert followed(whole) == followed(parts)
    risk = whole.watch.risk
    assert risk.selective
    assert 0 < risk.missing < risk.n
    error = whole.live.to_dict(now=0.0)["live"]["error"]
    assert (error["missing"], error["labels"]) == (risk.missing, risk.n - risk.missing)
    assert "Holds whichever labels come" in error["assumption"]
    assert [error["lower"], error["upper"]] == pytest.approx(risk.interval)
    result = replay_trail(logit_guard, store)
    assert result.sound, result.first_difference
    assert (result.labels, result.errors) == (risk.n - risk.missing, risk.errors)
    with pytest.raises(InputError, match="--label-wait 40"):
        Trail(logit_guard, store)
    other.close()


def test_a_clock_that_goes_back_breaks_nothing(store, logit_guard, monkeypatch):
    trail = Trail(logit_guard, store)
    for at in ("2026-11-18T10:00:00.000Z", "2026-11-18T08:59:59.999Z", "2026-11-18T10:00:01.000Z"):
        monkeypatch.setattr(trail_module, "now", lambda at=at: at)
        feed(trail, logit_guard, [3, 2], seed=1)
    assert verify_trail(store).sound
    assert replay_trail(logit_guard, store).sound
    assert Trail(logit_guard, store).rows == 15


def test_a_batch_of_100_000_rows_is_one_record(store, logit_guard):
    trail = Trail(logit_guard, store)
    ids = feed(trail, logit_guard, [100_000], seed=1)
    assert len(ids) == 100_000
    assert trail.seq == 2  # and that of the state
    assert store.snapshots() == [1]  # kept by the rows since the last one
    trail.append_labels({ids[-1]: 0, ids[0]: 1})
    assert Trail(logit_guard, store).rows == 100_000


def test_infinite_scores_are_recorded_and_replayed(store):
    rng = np.random.default_rng(0)
    guard = Guard("mahalanobis", sets=None).fit(Outputs(features=rng.normal(size=(300, 2)), labels=[0, 1, 2] * 100))
    guard.calibrate(Outputs(features=rng.normal(size=(300, 2))), date="2026-11-18")
    trail = Trail(guard, store)
    verdicts = guard.decide(score=np.array([np.inf, 1.0, -np.inf]))
    trail.append_verdicts([(3, encode_verdicts(verdicts), None)])
    trail.fold()
    trail.snapshot()
    trail.fold()
    assert replay_trail(guard, store).sound
    assert Trail(guard, store).folding.facts() == trail.folding.facts()


class Flaky:
    """A store that fails once, before or after the write is done."""

    def __init__(self, store):
        self._store, self.fails = store, ""

    def __getattr__(self, name):
        return getattr(self._store, name)

    def append(self, records, labels):
        fails, self.fails = self.fails, ""
        if fails == "before":
            raise StoreError("full")
        self._store.append(records, labels)
        if fails == "after":
            raise StoreError("the answer was lost")


@pytest.mark.parametrize("when", ["before", "after"])
def test_after_a_failed_write_the_head_is_read_again(store, logit_guard, when):
    flaky = Flaky(store)
    trail = Trail(logit_guard, flaky)
    first = feed(trail, logit_guard, [3], seed=1)
    flaky.fails = when
    with pytest.raises(StoreError):
        feed(trail, logit_guard, [2], seed=2)
    later = feed(trail, logit_guard, [4], seed=3)
    trail.append_labels(dict.fromkeys(first + later, 0))
    trail.fold()
    rows = 7 if when == "before" else 9  # recorded, though it could not be answered
    assert trail.rows == rows
    assert [int(key.rpartition("-")[2]) for key in later] == list(range(rows - 4, rows))
    assert verify_trail(store).verdicts == rows
    replay = replay_trail(logit_guard, store)
    assert replay.sound
    assert dict(replay.log10_e) == trail.watch.log10_e


def test_rows_of_nobody_are_not_counted_as_labels(store, feature_guard):
    trail = Trail(feature_guard, store)  # no sets, no predictions
    trail.append_verdicts([(2, encode_verdicts(feature_guard(Outputs(features=draw(2, seed=1).features))), None)])
    trail.append_labels({f"{trail.chain}-0": 7})
    judged = json.loads(store.last().entry.body)
    assert (judged["wrong"], judged["covered"]) == ([None], [None])
    trail.fold()
