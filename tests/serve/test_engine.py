"""The engine: many callers at once get their own verdicts, each recorded once, and the watch follows in order."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from tests.serve.conftest import draw

from caveat import Outputs
from caveat.serve import Engine, open_store
from caveat.serve.audit.content import merged_verdicts
from caveat.serve.audit.replay import replay_trail
from caveat.serve.problems import Problem


@pytest.fixture(params=[1, 3], ids=["one worker", "three workers"])
def engine(request, logit_guard, tmp_path):
    made = Engine(logit_guard, open_store(str(tmp_path / "audit.sqlite")), workers=request.param)
    yield made
    if not made._closing.is_set():
        made.close()


def ask(engine, logits):
    """Ids and rows of one request."""
    return engine.verdicts(lambda: {"logits": logits}, lambda verdicts, ids: (list(ids), verdicts.rows()))


def test_each_caller_gets_the_verdicts_on_its_own_rows(engine, logit_guard):
    rows = draw(600, seed=5).logits
    parts = np.split(rows, np.sort(np.random.default_rng(0).choice(np.arange(1, 600), 79, replace=False)))

    async def everyone():
        return await asyncio.gather(*(ask(engine, part) for part in parts))

    answers = asyncio.run(everyone())
    for part, (_, verdicts) in zip(parts, answers, strict=True):
        assert verdicts == logit_guard(Outputs(logits=part)).rows()
    ids = [key for keys, _ in answers for key in keys]
    assert sorted(int(key.rpartition("-")[2]) for key in ids) == list(range(600))


def test_records_and_watch_are_in_the_order_of_the_row_numbers(engine, logit_guard):
    rows = draw(300, seed=6).logits

    async def everyone():
        await asyncio.gather(*(ask(engine, part) for part in np.split(rows, 100)))

    asyncio.run(everyone())
    trail = engine.trail
    engine.close()
    store = open_store(str(trail.store.path), read_only=True)
    records = [record for record in store.records() if record.entry.kind == "verdicts"]
    store.close()
    starts = [record.entry.first_row for record in records]
    assert starts == np.cumsum([0, *(record.entry.rows for record in records)])[:-1].tolist()
    watch = logit_guard.watch()
    watch.update(merged_verdicts(logit_guard, [record.entry.body for record in records]))
    assert trail.watch.log10_e == watch.log10_e  # bit for bit
    assert trail.folding.rows == 300


@pytest.mark.parametrize(("bad", "records"), [([], [21, 140]), ([np.nan], [1, *[2] * 10, 140])])
def test_small_requests_that_wait_together_are_one_record(bad, records, logit_guard, tmp_path):
    path = str(tmp_path / "audit.sqlite")
    engine = Engine(logit_guard, open_store(path), workers=1, keep_inputs=True)
    small, large = np.split(draw(20, seed=9).logits, 10), draw(140, seed=8).logits
    bad = [np.full_like(large[:1], value) for value in bad]
    others_wait = threading.Event()

    def first():
        others_wait.wait(10)
        return {"logits": large[:1]}

    async def everyone():
        busy = asyncio.ensure_future(engine.verdicts(first, lambda verdicts, ids: None))
        others = [asyncio.ensure_future(ask(engine, part)) for part in (*small, *bad, large)]
        await asyncio.sleep(0)  # all of them are in the queue
        others_wait.set()
        await busy
        return await asyncio.gather(*others, return_exceptions=True)

    answers = asyncio.run(everyone())
    engine.close()
    for part, (_, verdicts) in zip(small, answers[:10], strict=True):
        assert verdicts == logit_guard(Outputs(logits=part)).rows()
    assert [isinstance(answer, Problem) for answer in answers[10:]] == [*[True] * len(bad), False]
    store = open_store(path, read_only=True)
    assert [record.entry.rows for record in store.records() if record.entry.kind == "verdicts"] == records
    again = replay_trail(logit_guard, store)
    assert (again.from_inputs, again.differing) == (161, 0)
    store.close()


def test_the_watch_waits_between_two_looks(engine, monkeypatch):
    looks = []
    look_after = engine._look_after
    monkeypatch.setattr(engine, "_look_after", lambda: looks.append(time.monotonic()) or look_after())

    async def now_and_then():
        for _ in range(10):
            await ask(engine, draw(1, seed=12).logits)
            await asyncio.sleep(0.05)

    started = time.monotonic()
    asyncio.run(now_and_then())
    # one look after each request, and ten a second while nobody asks
    assert len(looks) <= 10 + 10 * (time.monotonic() - started) + 5


def test_a_bad_request_fails_alone(engine):
    good, bad = draw(4, seed=7).logits, np.full((2, 3), np.nan)

    async def everyone():
        return await asyncio.gather(*(ask(engine, rows) for rows in (good, bad, good)), return_exceptions=True)

    first, second, third = asyncio.run(everyone())
    assert isinstance(second, Problem)
    assert second.status == 422
    assert len(first[1]) == len(third[1]) == 4
    assert engine.trail.rows == 8


def test_an_unexpected_error_reaches_its_caller_and_the_worker_goes_on(engine):
    async def both():
        def broken():
            raise ZeroDivisionError

        failed = await asyncio.gather(engine.verdicts(broken, lambda *_: None), return_exceptions=True)
        return failed, await ask(engine, draw(1, seed=8).logits)

    failed, (ids, _) = asyncio.run(both())
    assert isinstance(failed[0], ZeroDivisionError)
    assert len(ids) == 1


def test_too_many_rows_and_too_many_requests_are_refused(logit_guard, tmp_path):
    engine = Engine(logit_guard, open_store(str(tmp_path / "audit.sqlite")), queue_limit=2, rows_limit=3)
    with pytest.raises(Problem, match="at most 3 rows") as refused:
        asyncio.run(ask(engine, draw(4, seed=9).logits))
    assert refused.value.status == 413
    engine.admit()
    engine.admit()
    with pytest.raises(Problem, match="limit") as busy:
        engine.admit()
    assert (busy.value.status, busy.value.headers) == (429, {"Retry-After": "1"})
    engine.leave()
    engine.admit()
    engine.close()


def test_a_store_that_cannot_be_written_gives_no_verdicts_and_recovers(engine, monkeypatch):
    store, rows = engine.trail.store, draw(2, seed=10).logits
    with monkeypatch.context() as patch:

        def full(*_):
            raise OSError("no space left on device")

        patch.setattr(type(store), "append", full)
        with pytest.raises(Problem, match="no space left") as refused:
            asyncio.run(ask(engine, rows))
        assert refused.value.status == 503
    ids, _ = asyncio.run(ask(engine, rows))
    assert [key.rpartition("-")[2] for key in ids] == ["0", "1"]  # no number was used up


def test_a_new_engine_goes_on_where_the_last_one_stopped(logit_guard, tmp_path):
    place, rows = str(tmp_path / "audit.sqlite"), draw(20, seed=11).logits
    evidence = []
    for part in (rows[:10], rows[10:]):
        engine = Engine(logit_guard, open_store(place))
        asyncio.run(ask(engine, part))
        engine.close()
        evidence.append(engine.trail.watch.log10_e)
    watch = logit_guard.watch()
    watch.update(logit_guard(Outputs(logits=rows)))
    assert evidence[-1] == watch.log10_e
