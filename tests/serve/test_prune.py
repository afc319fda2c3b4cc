"""Old records are deleted, and the rest verifies and replays as before."""

from __future__ import annotations

import time

import pytest
from tests.serve.trails import feed, label

from caveat.serve import Engine, open_store
from caveat.serve import trail as trail_module
from caveat.serve.audit import content
from caveat.serve.audit.prune import last_before, plan_cut
from caveat.serve.audit.replay import replay_trail
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.verify import verify_trail
from caveat.serve.problems import Problem
from caveat.serve.trail import Trail


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    place = str(tmp_path / "audit.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres").new()
    opened = open_store(place)
    yield opened
    opened.close()


@pytest.fixture
def days(logit_guard, monkeypatch):
    """Writes so many days of traffic to a store; the trail and the ids of each day."""

    def write(store, dates, *, keep_inputs=False):
        trail, ids = Trail(logit_guard, store), {}
        for i, date in enumerate(dates):
            monkeypatch.setattr(trail_module, "now", lambda date=date: f"2026-11-{date:02}T12:00:00.000Z")
            ids[date] = feed(trail, logit_guard, [1, 20, 3], seed=i, shift=0.05 * i, keep_inputs=keep_inputs)
            label(trail, ids[date], seed=i)
        trail.fold()
        return trail, ids

    return write


def test_a_pruned_chain_verifies_and_replays_to_the_same_evidence(store, logit_guard, days):
    trail, ids = days(store, [1, 2, 3, 4])
    before = replay_trail(logit_guard, store)
    for date in (2, 4):  # pruned, and pruned again
        trail.prune(plan_cut(logit_guard, store, f"2026-11-{date:02}"))
        result, checked = replay_trail(logit_guard, store), verify_trail(store)
        assert result.sound
        assert checked.sound, checked.reason
        assert (checked.pruned_verdicts, checked.verdicts) == (24 * (date - 1), 24 * (5 - date))
        assert dict(result.log10_e) == dict(before.log10_e)
        assert (result.labels, result.errors) == (before.labels, before.errors)
    assert [record.entry.kind for record in store.records()][-2:] == ["prune", "prune"]
    assert store.count_labels() == 8
    trail.fold()
    again = Trail(logit_guard, store)  # a restart from the base state
    assert again.folding.facts() == trail.folding.facts()
    with pytest.raises(Problem, match="no longer kept") as gone:
        again.append_labels({ids[1][1]: 0})
    assert gone.value.status == 404
    assert again.append_labels({ids[4][1]: 0})["recorded"] == 1
    assert plan_cut(logit_guard, store, "2026-11-04") is None


def test_a_newer_record_in_front_keeps_the_older_ones_behind_it(store, logit_guard, days):
    days(store, [2, 9, 1])  # the clock went back after the second day
    cut = plan_cut(logit_guard, store, "2026-11-05")
    assert cut.rows == 24
    assert last_before(store, "2026-11-05") == cut.until


def test_everything_can_be_pruned(store, logit_guard, days):
    trail, _ = days(store, [1, 2])
    trail.prune(plan_cut(logit_guard, store, "2027"))
    assert verify_trail(store).sound
    trail.fold()
    assert Trail(logit_guard, store).folding.facts() == trail.folding.facts()
    feed(trail, logit_guard, [4], seed=9)
    assert verify_trail(store).sound
    assert replay_trail(logit_guard, store).sound


def test_inputs_alone_are_deleted(store, logit_guard, days):
    trail, _ = days(store, [1, 2, 3], keep_inputs=True)
    trail.forget_inputs(last_before(store, "2026-11-03"))
    checked = verify_trail(store)
    assert checked.sound, checked.reason
    assert (checked.inputs, checked.inputs_deleted, checked.verdicts, checked.labels) == (3, 6, 72, 24)
    result = replay_trail(logit_guard, store)
    assert result.sound
    assert result.from_inputs == 24


def test_the_file_shrinks(tmp_path, logit_guard, days):
    store = SqliteStore(tmp_path / "audit.sqlite")
    trail, _ = days(store, [1])
    feed(trail, logit_guard, [500] * 40, seed=3, keep_inputs=True)
    trail.fold()
    store._run("PRAGMA wal_checkpoint(TRUNCATE)")
    full = store.path.stat().st_size
    trail.forget_inputs(trail.seq)
    lighter = store.path.stat().st_size
    trail.prune(plan_cut(logit_guard, store, "2027"))
    pruned = store.path.stat().st_size
    store.close()
    assert full > 1_000_000
    assert lighter < 0.95 * full
    assert pruned < 0.2 * lighter


def test_a_service_deletes_what_is_older_than_it_keeps(tmp_path, logit_guard, days, monkeypatch):
    store = SqliteStore(tmp_path / "audit.sqlite")
    days(store, [1, 2])
    monkeypatch.setattr(trail_module, "now", content.now)
    rows = store.last().entry.first_row
    engine = Engine(logit_guard, store, keep_days=1.0)
    end = time.monotonic() + 20
    reader = store.reader()
    while time.monotonic() < end and "anchor_row" not in reader.header():
        time.sleep(0.02)
    engine.close()
    checked, result = verify_trail(reader), replay_trail(logit_guard, reader)
    reader.close()
    assert checked.sound, checked.reason
    assert checked.pruned_verdicts == rows == 48
    assert result.sound
    assert not engine.failure
