"""Engine: verdicts for many callers at once, each recorded before it is answered.

A request passes two places. A pool of threads gives the verdicts; BLAS is held to one thread, because threads that each
start threads are many times slower. One writer then commits everything that waits in one transaction, after which all
of it is answered: no request waits for a timer. Drift is computed afterwards and never changes an answer.
"""

from __future__ import annotations

import asyncio
import io
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from caveat.errors import CaveatError
from caveat.guard import Guard, Verdicts
from caveat.outputs import Head
from caveat.serve.audit.content import encode_verdicts, now
from caveat.serve.audit.record import Entry
from caveat.serve.audit.store import AuditStore
from caveat.serve.fields import Fields
from caveat.serve.problems import Problem
from caveat.serve.trail import RowIds, Trail

__all__ = ["Engine"]

Arrays = Mapping[str, NDArray[Any]]
_GROUP = 256  # requests of one transaction
_FOLD_SECONDS, _FOLD_RECORDS = 0.1, 1000  # the watch takes in what came since, at once


@final
@dataclass(eq=False)
class _Pending:
    """A request on its way to the writer: what is recorded, and who waits for it."""

    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    verdicts: Verdicts | None = None
    rows: int = 0
    body: bytes = b""
    inputs: bytes | None = None
    labels: Mapping[str, int] = field(default_factory=dict)


@final
class Engine:
    """A guard with its audit trail, for many callers at once.

    Parameters
    ----------
    guard
        A calibrated guard.
    store
        Where the audit trail is kept; one service writes to it at a time.
    head
        Last linear layer, where clients send features and the guard reads logits too.
    model
        Turns raw inputs into the arrays that the guard reads; None: clients send those.
    alpha
        Allowed chance that a quiet stream ever raises a drift alarm.
    name
        Name on the page.
    workers
        Threads that give verdicts.
    queue_limit
        Requests that may wait or be worked on; more are refused with status 429.
    keep_inputs
        Record what each request held too, so that a replay starts from it.
    """

    def __init__(
        self, guard: Guard, store: AuditStore, *, head: Head | None = None,
        model: Callable[[Arrays], dict[str, NDArray[Any]]] | None = None, alpha: float = 0.01, name: str = "guard",
        workers: int = 2, queue_limit: int = 64, keep_inputs: bool = False,
    ) -> None:  # fmt: skip
        self.guard, self.fields, self.name, self.model = guard, Fields(guard, head), name, model
        self.keep_inputs, self.queue_limit = keep_inputs, queue_limit
        self.trail = Trail(guard, store, alpha=alpha, name=name)
        self.trail.note("start")
        self.depth = 0  # requests that were let in and not yet answered
        self.failure = ""  # why the audit cannot be written
        self._limits = threadpool_limits(1)
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="verdicts")
        self._queue: queue.SimpleQueue[_Pending | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_all, name="audit", daemon=True)
        self._writer.start()

    def close(self) -> None:
        """Answer what waits, keep the state, and let go of the store."""
        self._pool.shutdown()
        self._queue.put(None)
        self._writer.join()
        self._limits.restore_original_limits()

    # -- callers ------------------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Let a request in, or refuse it. Every call that returns is followed by one of ``leave``."""
        if self.depth >= self.queue_limit:
            raise Problem(429, f"{self.depth} requests are waiting, which is the limit. Try again in a second.",
                          headers={"Retry-After": "1"})  # fmt: skip
        self.depth += 1

    def leave(self) -> None:
        """A request that was admitted has been answered."""
        self.depth -= 1

    async def verdicts(self, read: Callable[[], Arrays], shape: Callable[[Verdicts, RowIds], bytes]) -> bytes:
        """Verdicts on the arrays that ``read`` gives, recorded, in the form that ``shape`` makes of them."""
        loop = asyncio.get_running_loop()
        pending = _Pending(loop.create_future(), loop)
        self._pool.submit(self._judge, read, pending)
        first_row = await pending.answer
        assert pending.verdicts is not None
        return shape(pending.verdicts, RowIds(self.trail.chain, first_row, pending.rows))

    def _judge(self, read: Callable[[], Arrays], pending: _Pending) -> None:
        """Give verdicts and hand them to the writer; in a thread of the pool."""
        try:
            arrays = read()
            pending.verdicts = self.judge(arrays)
            pending.rows, pending.body = len(pending.verdicts), encode_verdicts(pending.verdicts)
            pending.inputs = _packed(arrays) if self.keep_inputs else None
        except Exception as error:  # for the caller, not for the pool
            pending.loop.call_soon_threadsafe(_resolve, [(pending, error)])
        else:
            self._queue.put(pending)

    def judge(self, arrays: Arrays) -> Verdicts:
        """Verdicts on the arrays of a request; not recorded."""
        outputs = self.fields.outputs(arrays if self.model is None else self.model(arrays))
        try:
            return self.guard(outputs)
        except CaveatError as error:
            raise Problem(422, str(error)) from None

    async def labels(self, labels: Mapping[str, int]) -> dict[str, int]:
        """Record the true classes of earlier verdicts, by id; all of them or none."""
        loop = asyncio.get_running_loop()
        pending = _Pending(loop.create_future(), loop, labels=labels)
        self._queue.put(pending)
        counts: dict[str, int] = await pending.answer
        return counts

    @property
    def widths(self) -> Mapping[str, int | None]:
        """Arrays that a client must send, with their columns where those are fixed."""
        return self.fields.widths

    @property
    def only_field(self) -> str:
        """Name of the array of a body that holds one array without a name."""
        return self.fields.only or ""

    def live_view(self) -> dict[str, Any]:
        """What the page shows."""
        trail = self.trail
        with trail.lock:
            view = trail.live.to_dict()
        return view | {
            "fields": self.widths,
            "audit": {"kind": trail.store.kind, "records": trail.seq, "digest": trail.digest.hex(),
                      "verified_from": trail.verified_from},
            "queue": {"depth": self.depth, "limit": self.queue_limit},
        }  # fmt: skip

    # -- the writer ---------------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        """The only thread that touches the store."""
        folded_at, going = time.monotonic(), True
        while going:
            group = self._next_group()
            going = None not in group
            self._write([pending for pending in group if pending is not None])
            idle, late = not group, time.monotonic() - folded_at >= _FOLD_SECONDS
            if self.trail.unfolded and (idle or late or self.trail.unfolded >= _FOLD_RECORDS):
                self._attempt(self.trail.fold)
                folded_at = time.monotonic()
        for step in (self.trail.fold, self.trail.snapshot, lambda: self.trail.note("stop"), self.trail.store.close):
            self._attempt(step)

    def _next_group(self) -> list[_Pending | None]:
        """All requests that wait; none if records wait for the watch and no request comes."""
        group: list[_Pending | None] = []
        try:
            group.append(self._queue.get(timeout=_FOLD_SECONDS if self.trail.unfolded else None))
            while len(group) < _GROUP and group[-1] is not None:
                group.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return group

    def _write(self, group: Sequence[_Pending]) -> None:
        verdicts = [pending for pending in group if not pending.labels]
        entries, rows, at = [], [self.trail.rows], now()
        for pending in verdicts:
            entries.append(Entry("verdicts", at, rows[-1], pending.rows, pending.body, pending.inputs))
            rows.append(rows[-1] + pending.rows)
        answers: list[tuple[_Pending, Any]] = []
        if entries:
            problem = self._attempt(lambda: self.trail.append(entries))
            answers += [(pending, problem or row) for pending, row in zip(verdicts, rows, strict=False)]
        for pending in group:
            if pending.labels:
                answers.append((pending, self._labelled(pending.labels)))
        if answers:
            answers[0][0].loop.call_soon_threadsafe(_resolve, answers)

    def _labelled(self, labels: Mapping[str, int]) -> Any:
        counts: list[dict[str, int]] = []
        problem = self._attempt(lambda: counts.append(self.trail.append_labels(labels)))
        return problem or counts[0]

    def _attempt(self, step: Callable[[], None]) -> Problem | None:
        """Do something with the store. What it cannot do (a full disk, a lost connection) is not answered as done."""
        try:
            step()
            self.failure = ""
            return None
        except Problem as problem:
            return problem
        except Exception as error:
            reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            self.failure = reason
            return Problem(503, f"the audit trail cannot be written ({reason}), so nothing is answered.")


def _resolve(answers: Sequence[tuple[_Pending, Any]]) -> None:
    """Answer those who still wait; in the thread of the event loop."""
    for pending, answer in answers:
        if not pending.answer.done():
            if isinstance(answer, Exception):
                pending.answer.set_exception(answer)
            else:
                pending.answer.set_result(answer)


def _packed(arrays: Arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **dict(arrays))  # type: ignore[arg-type]
    return stream.getvalue()
