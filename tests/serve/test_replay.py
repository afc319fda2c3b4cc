"""A replay gives the verdicts and the martingale of the records again, and names what was recorded otherwise."""

from __future__ import annotations

import dataclasses
import math

import orjson
import pytest
from tests.serve.conftest import draw, serving
from tests.serve.trails import change, feed, forge, label

from caveat import Outputs
from caveat.errors import InputError
from caveat.serve.audit.content import canonical, encode_verdicts
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.store import Damaged
from caveat.serve.audit.verify import verify_trail
from caveat.serve.engine import packed
from caveat.serve.trail import Trail


@pytest.fixture
def store(tmp_path, logit_guard):
    """Two requests with inputs (records 1, 2), two without (3, 4), labels (5), a state after them (6), one more (7)."""
    opened = SqliteStore(tmp_path / "audit.sqlite")
    trail = Trail(logit_guard, opened)
    ids = feed(trail, logit_guard, [3, 64], seed=1, keep_inputs=True) + feed(trail, logit_guard, [1, 9], seed=2)
    label(trail, ids, seed=3)
    trail.fold()
    trail.snapshot()
    feed(trail, logit_guard, [5], seed=4, shift=1.0)
    yield opened
    opened.close()


def test_a_replay_follows_the_watch_of_the_guard_itself(store, logit_guard):
    result = replay_trail(logit_guard, store)
    watch = logit_guard.watch(alpha=0.01)
    parts = [(1, 3, 0.0, 0), (1, 64, 0.0, 1), (2, 1, 0.0, 0), (2, 9, 0.0, 1), (4, 5, 1.0, 0)]  # as the fixture feeds
    for seed, n, shift, i in parts:
        watch.update(logit_guard(Outputs(logits=draw(n, seed=seed * 1000 + i, shift=shift).logits)))
    assert result.sound
    assert dict(result.log10_e) == watch.log10_e
    assert (result.rows, result.from_inputs, result.states, result.differing) == (82, 67, 1, 0)
    assert result.head == store.last().digest.hex()


@pytest.mark.parametrize("column", ["kind", "p_value", "conditional_p_value"])
def test_a_forged_verdict_is_named_though_the_chain_is_whole(store, logit_guard, column):
    def lie(entry):
        if entry.first_row != 68 or entry.kind != "verdicts":
            return entry
        body = orjson.loads(entry.body)
        body[column][4] = "outlier" if column == "kind" else math.nextafter(body[column][4], 2.0)
        return dataclasses.replace(entry, body=canonical(body))

    forge(store.path, store, lie)
    assert verify_trail(store).sound
    result = replay_trail(logit_guard, store)
    assert not result.sound
    assert result.differing == 1
    assert result.first_difference.what == column
    assert result.first_difference.id.endswith("-72")
    assert "recorded as" in str(result.first_difference)


def test_a_forged_score_differs_from_its_inputs(store, logit_guard):
    def lie(entry):
        if entry.inputs is None or entry.first_row != 3:
            return entry
        body = orjson.loads(entry.body)
        body["score"][0] = math.nextafter(body["score"][0], 99.0)
        return dataclasses.replace(entry, body=canonical(body))

    forge(store.path, store, lie)
    result = replay_trail(logit_guard, store)
    assert (result.first_difference.record, result.first_difference.what) == (2, "score")


def test_a_changed_state_is_named(store, logit_guard):
    change(store.path, "UPDATE snapshots SET state = CAST(replace(state, '\"run\": 1', '\"run\": 2') AS BLOB)")
    result = replay_trail(logit_guard, store)
    assert result.differing == 0
    assert result.first_difference.what == "watch.alarms.score.run"
    assert (result.first_difference.recorded, result.first_difference.replayed) == (2, 1)
    assert "state after record 5" in str(result.first_difference)


def test_content_that_no_service_writes_is_damage(store, logit_guard):
    forge(store.path, store, lambda entry: dataclasses.replace(entry, body=b'{"kind":["accept"]}'))
    with pytest.raises(Damaged, match="no service writes"):
        replay_trail(logit_guard, store)
    assert verify_trail(store).broken_at == 5  # labels without rows
    change(store.path, "DELETE FROM snapshots")
    with pytest.raises(Damaged, match="no service writes"):
        Trail(logit_guard, store)


def test_another_guard_and_an_empty_trail_are_refused(store, feature_guard, tmp_path):
    with pytest.raises(InputError, match="belongs to the guard"):
        replay_trail(feature_guard, store)
    empty = SqliteStore(tmp_path / "empty.sqlite")
    with pytest.raises(InputError, match="empty"):
        replay_trail(feature_guard, empty)
    empty.close()


def test_raw_inputs_go_through_the_model(tmp_path, logit_guard):
    def model(arrays):
        return {"logits": arrays["pixels"] * 0.5}

    store = SqliteStore(tmp_path / "audit.sqlite")
    trail = Trail(logit_guard, store)
    pixels = {"pixels": draw(7, seed=1).logits}
    trail.append_verdicts([(7, encode_verdicts(logit_guard(Outputs(**model(pixels)))), packed(pixels))])
    result = replay_trail(logit_guard, store, model=model)
    store.close()
    assert result.sound
    assert result.from_inputs == 7


def test_live_evidence_of_a_running_service_is_that_of_a_replay(guards, logit_guard, tmp_path):
    path = tmp_path / "audit.sqlite"
    with serving(guards["logits"], path, "--keep-inputs", "--keep-days", "7") as service:
        for seed in range(12):
            rows = draw(1 + 63 * (seed % 2), seed=seed, shift=0.1 * seed).logits
            assert service.post({}, logits=rows).status_code == 200
        view = service.live(rows=390)
        store = SqliteStore(path, read_only=True)
        result = replay_trail(logit_guard, store)
        store.close()
    assert result.sound
    assert result.from_inputs == 390  # without inputs: tests/serve/test_kill.py
    assert {stream["name"]: stream["now"] for stream in view["drift"]["streams"]} == dict(result.log10_e)
