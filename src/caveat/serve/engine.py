"""Engine: verdicts for many callers at once, each recorded before it is answered.

Requests wait in one queue. A worker takes what waits, up to a few hundred rows, gives the verdicts, commits all of them
in one transaction and then answers all of them: no request waits for a timer, and a request that comes alone is
answered alone. BLAS is held to one thread, because threads that each start threads are many times slower. Drift is
computed afterwards by a thread of its own and never changes an answer.
"""

from __future__ import annotations

import asyncio
import io
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, final

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
from caveat.serve.model import Model
from caveat.serve.problems import Problem
from caveat.serve.tensors import Tensor
from caveat.serve.trail import RowIds, Trail

__all__ = ["Engine"]

T = TypeVar("T")
Arrays = Mapping[str, NDArray[Any]]
_GROUP_ROWS = 256  # a worker takes no further request once it has so many rows
_FOLD_SECONDS = 0.1  # between two times that the watch takes in what came since


@final
@dataclass(eq=False, slots=True)
class _Request:
    """A request on its way: what was asked, what is recorded, and who waits for it."""

    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    read: Callable[[], Arrays] | None = None
    labels: Mapping[str, int] | None = None
    verdicts: Verdicts | None = None
    body: bytes = b""
    inputs: bytes | None = None


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
        The network in front of the guard, which gets what clients send; None: clients send its outputs.
    alpha
        Allowed chance that a quiet stream ever raises a drift alarm.
    name
        Name on the page.
    workers
        Threads that give verdicts. Default: one fewer than there are processors.
    queue_limit
        Requests that may wait or be worked on; more are refused with status 429.
    keep_inputs
        Record what each request held too, so that a replay starts from it.
    """

    def __init__(
        self, guard: Guard, store: AuditStore, *, head: Head | None = None, model: Model | None = None,
        alpha: float = 0.01, name: str = "guard", workers: int | None = None, queue_limit: int = 64,
        keep_inputs: bool = False,
    ) -> None:  # fmt: skip
        self.guard, self.fields, self.name, self.model = guard, Fields(guard, head), name, model
        self.keep_inputs, self.queue_limit = keep_inputs, queue_limit
        self.trail = Trail(guard, store, alpha=alpha, name=name)
        self.trail.note("start", {"model": self.model_facts})
        self.depth = 0  # requests that were let in and not yet answered
        self.failure = ""  # why the audit cannot be written
        self._limits = threadpool_limits(1)
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._writing = threading.Lock()  # one thread at a time touches the store
        self._closing = threading.Event()
        count = workers or max(1, (os.cpu_count() or 1) - 1)
        self._workers = [threading.Thread(target=self._work, name=f"verdicts-{i}", daemon=True) for i in range(count)]
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        for thread in (*self._workers, self._watcher):
            thread.start()

    def close(self) -> None:
        """Answer what waits, keep the state, and let go of the store."""
        for _ in self._workers:
            self._queue.put(None)
        for thread in self._workers:
            thread.join()
        self._closing.set()
        self._watcher.join()
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

    async def verdicts(self, read: Callable[[], Arrays], shape: Callable[[Verdicts, RowIds], T]) -> T:
        """Verdicts on the arrays that ``read`` gives, recorded, in the form that ``shape`` makes of them."""
        loop = asyncio.get_running_loop()
        request = _Request(loop.create_future(), loop, read=read)
        self._queue.put(request)
        first_row = await request.answer
        assert request.verdicts is not None
        return shape(request.verdicts, RowIds(self.trail.chain, first_row, len(request.verdicts)))

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
        request = _Request(loop.create_future(), loop, labels=labels)
        self._queue.put(request)
        counts: dict[str, int] = await request.answer
        return counts

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Arrays that a client must send."""
        return self.fields.inputs if self.model is None else self.model.inputs

    @property
    def widths(self) -> Mapping[str, int | None]:
        """Names of the arrays that a client must send, with their columns where those are fixed."""
        return self.fields.widths if self.model is None else {tensor.name: tensor.width for tensor in self.model.inputs}

    @property
    def only_field(self) -> str:
        """Name of the array of a body that holds one array without a name; empty where several are needed."""
        if self.model is not None:
            return self.model.inputs[0].name if len(self.model.inputs) == 1 else ""
        return self.fields.only or ""

    def reads(self, name: str) -> bool:
        """Whether an array of this name is used."""
        return self.fields.reads(name) if self.model is None else name in self.widths

    @property
    def model_facts(self) -> dict[str, Any] | None:
        """File and digest of the model, where there is one."""
        return None if self.model is None else self.model.facts

    def live_view(self) -> dict[str, Any]:
        """What the page shows."""
        trail = self.trail
        with trail.lock:
            view = trail.live.to_dict()
        return view | {
            "fields": self.widths,
            "inputs": [tensor.to_dict() for tensor in self.inputs],
            "audit": {"kind": trail.store.kind, "records": trail.seq, "digest": trail.digest.hex(),
                      "verified_from": trail.verified_from},
            "queue": {"depth": self.depth, "limit": self.queue_limit},
        }  # fmt: skip

    # -- the workers ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        going = True
        while going:
            first = self._queue.get()
            group: list[_Request] = []
            answers: list[tuple[_Request, Any]] = []
            rows, going = 0, first is not None
            request = first
            while request is not None:
                problem = self._judge(request)
                if problem is None:
                    group.append(request)
                    rows += 0 if request.verdicts is None else len(request.verdicts)
                else:
                    answers.append((request, problem))
                if rows >= _GROUP_ROWS:
                    break
                try:
                    request = self._queue.get_nowait()
                    going = request is not None
                except queue.Empty:
                    break
            if group:
                answers += self._write(group)
            if answers:
                answers[0][0].loop.call_soon_threadsafe(_resolve, answers)

    def _judge(self, request: _Request) -> Exception | None:
        """Give the verdicts of a request; labels have none."""
        if request.read is None:
            return None
        try:
            arrays = request.read()
            request.verdicts = self.judge(arrays)
            request.body = encode_verdicts(request.verdicts)
            request.inputs = _packed(arrays) if self.keep_inputs else None
        except Exception as error:  # the caller's answer, not the end of this thread
            return error
        return None

    def _write(self, group: Sequence[_Request]) -> list[tuple[_Request, Any]]:
        """Record what a worker has; each request with its answer: the number of its first row, counts, or a problem."""
        with self._writing:
            judged = [request for request in group if request.verdicts is not None]
            entries, rows, at = [], [self.trail.rows], now()
            for request in judged:
                assert request.verdicts is not None
                entries.append(Entry("verdicts", at, rows[-1], len(request.verdicts), request.body, request.inputs))
                rows.append(rows[-1] + len(request.verdicts))
            answers: list[tuple[_Request, Any]] = []
            if entries:
                problem = self._attempt(lambda: self.trail.append(entries))
                answers += [(request, problem or row) for request, row in zip(judged, rows, strict=False)]
            for request in group:
                if request.labels is not None:
                    answers.append((request, self._labelled(request.labels)))
            return answers

    def _labelled(self, labels: Mapping[str, int]) -> Any:
        counts: list[dict[str, int]] = []
        problem = self._attempt(lambda: counts.append(self.trail.append_labels(labels)))
        return problem or counts[0]

    def _watch(self) -> None:
        """Let the watch and the page follow the records; at the end keep the state."""
        trail = self.trail
        while not self._closing.wait(_FOLD_SECONDS):
            trail.fold()
            if trail.wants_snapshot:
                with self._writing:
                    trail.fold()
                    self._attempt(trail.snapshot)
        with self._writing:
            trail.fold()
            for step in (lambda: trail.note("stop"), trail.snapshot, trail.store.close):
                self._attempt(step)

    def _attempt(self, step: Callable[[], None]) -> Problem | None:
        """Do something with the store. What it cannot do (a full disk, a lost connection) is not answered as done."""
        try:
            step()
            self.failure = ""
            return None
        except Problem as problem:
            return problem
        except Exception as error:
            self.failure = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            return Problem(503, f"the audit trail cannot be written ({self.failure}), so nothing is answered.")


def _resolve(answers: Sequence[tuple[_Request, Any]]) -> None:
    """Answer those who still wait; in the thread of the event loop."""
    for request, answer in answers:
        if not request.answer.done():
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)


def _packed(arrays: Arrays) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **dict(arrays))  # type: ignore[arg-type]
    return stream.getvalue()
