"""A service verifies the records of earlier runs while it answers, and publishes heads of what it adds."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from itertools import pairwise

import pytest
from tests.serve.conftest import draw, serving
from tests.serve.trails import change, feed, label

from caveat.errors import CaveatError, StoreError
from caveat.serve import Engine
from caveat.serve.audit import verify as verify_module
from caveat.serve.audit.sqlite import SqliteStore
from caveat.serve.audit.store import Damaged
from caveat.serve.audit.verify import verify_trail
from caveat.serve.audit.witness import Heads
from caveat.serve.problems import Problem
from caveat.serve.trail import Trail

# each before the newest state, where a restart does not look by itself
DAMAGES = [
    "UPDATE records SET body = CAST(replace(body, 'accept', 'reject') AS BLOB) WHERE seq = 3",
    "UPDATE records SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 2",
    "DELETE FROM records WHERE seq = 4",
    "UPDATE records SET digest = zeroblob(32) WHERE seq = 3",
    "UPDATE records SET inputs = NULL WHERE seq = 2",
    "UPDATE labels SET label = 2 - label WHERE label != 1",
    "DELETE FROM snapshots WHERE seq = (SELECT min(seq) FROM snapshots)",
]


@pytest.fixture
def path(tmp_path, logit_guard):
    """A trail with two states."""
    store = SqliteStore(tmp_path / "audit.sqlite")
    trail = Trail(logit_guard, store)
    ids = feed(trail, logit_guard, [1, 64, 3, 2], seed=1, keep_inputs=True)
    label(trail, ids, seed=2)
    for seed in (3, 4):
        trail.fold()
        trail.snapshot()
        feed(trail, logit_guard, [3], seed=seed)
    store.close()
    return store.path


def until(said, seconds=20):
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not said():
        assert time.monotonic() < end
        time.sleep(0.01)


def ask(engine):
    return asyncio.run(engine.verdicts(lambda: {"logits": draw(1, seed=1).logits}, lambda verdicts, ids: list(ids)))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_before_the_newest_state_ends_the_service(path, logit_guard, damage):
    change(path, damage)
    engine = Engine(logit_guard, SqliteStore(path))  # the newest records are right
    until(lambda: engine.witness.damage is not None)
    until(lambda: engine.failure)  # not ready
    with pytest.raises(Problem, match="damaged") as refused:
        ask(engine)
    assert refused.value.status == 503
    engine.close()
    store = SqliteStore(path)
    with pytest.raises(Damaged):
        Engine(logit_guard, store, verify="full")
    store.close()


def test_readiness_says_how_much_is_verified(path, guards, logit_guard, monkeypatch):
    hold, go_on = verify_module.verify_trail, threading.Event()

    def slowly(store, **options):
        go_on.wait(20)
        return hold(store, **options)

    monkeypatch.setattr("caveat.serve.audit.witness.verify_trail", slowly)
    engine = Engine(logit_guard, SqliteStore(path))
    assert engine.witness.verified == "tail"
    assert len(ask(engine)) == 1  # answers meanwhile
    go_on.set()
    until(lambda: engine.witness.verified == "all")
    engine.close()
    with serving(guards["logits"], path, "--verify", "full") as service:
        assert service.client.get("/readyz").json() == {"status": "ready", "verified": "all"}
        assert service.live()["audit"]["verified"] == "all"


def test_a_service_with_a_damaged_trail_does_not_start_with_full(path, guards):
    change(path, DAMAGES[0])
    with (
        pytest.raises(AssertionError, match="damaged at record 3"),
        serving(guards["logits"], path, "--verify", "full"),
    ):
        pass


def test_a_verification_that_cannot_be_done_is_tried_again(path, logit_guard, monkeypatch):
    monkeypatch.setattr("caveat.serve.audit.witness._RETRY_SECONDS", 0.01)
    store, tries = SqliteStore(path), []
    reader = store.reader

    def lost():
        tries.append(1)
        if len(tries) < 3:
            raise StoreError("no connection")
        return reader()

    monkeypatch.setattr(store, "reader", lost)
    engine = Engine(logit_guard, store)
    until(lambda: engine.witness.verified == "all")
    assert len(tries) == 3
    engine.close()


def test_heads_come_every_so_many_records_and_at_the_end(tmp_path, logit_guard):
    heads = []
    engine = Engine(logit_guard, SqliteStore(tmp_path / "audit.sqlite"), heads=Heads(heads.append, "list", 5))
    for _ in range(25):
        ask(engine)
        time.sleep(0.02)
    until(lambda: len(heads) > 1)
    engine.close()
    sizes = [head.records for head in heads]
    assert sizes == sorted(set(sizes))
    assert all(later - size >= 5 for size, later in pairwise(sizes[:-1]))
    store = SqliteStore(tmp_path / "audit.sqlite")
    result = verify_trail(store, heads=heads)
    assert result.sound, result.reason
    assert result.heads == len(heads)
    assert heads[-1].records == result.records  # the stop is in the last head
    store.close()


def test_a_place_that_refuses_heads_does_not_stop_the_verdicts(tmp_path, logit_guard, monkeypatch):
    monkeypatch.setattr("caveat.serve.audit.witness._RETRY_SECONDS", 0.01)
    heads, refuses = [], threading.Event()
    refuses.set()

    def place(head):
        if refuses.is_set():
            raise StoreError("the head cannot be sent (503).")
        heads.append(head)

    engine = Engine(logit_guard, SqliteStore(tmp_path / "audit.sqlite"), heads=Heads(place, "list", 1))
    until(lambda: engine.witness.failure)
    assert len(ask(engine)) == 1
    assert "503" in engine.live_view()["audit"]["heads"]["failure"]
    refuses.clear()
    until(lambda: heads)
    until(lambda: not engine.witness.failure)
    engine.close()


def test_how_often_is_checked():
    with pytest.raises(CaveatError, match="every"):
        Heads(print, "-", 0)


def test_the_configuration_stands_in_the_chain(tmp_path, logit_guard):
    store = SqliteStore(tmp_path / "audit.sqlite", durable=True)
    Engine(logit_guard, store, heads=Heads(print, "nowhere"), keep_days=30.0, keep_inputs=True).close()
    store = SqliteStore(tmp_path / "audit.sqlite", read_only=True)
    configuration = json.loads(next(store.records()).entry.body)["configuration"]
    store.close()
    assert configuration == {
        "durable": True, "head": False, "heads": {"every": 1000, "key": None, "place": "nowhere"}, "keep_days": 30.0,
        "keep_inputs": True, "rows_limit": 100_000, "verify": "background",
    }  # fmt: skip
