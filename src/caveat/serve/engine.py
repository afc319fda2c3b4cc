"""Engine: verdicts for many callers at once, each recorded before it is answered.

Requests wait in one queue. A worker takes what waits, up to a few hundred rows, gives the verdicts, commits all of them
in one transaction and then answers all of them: no request waits for a timer, and a request that comes alone is
answered alone. Small requests that wait together are one batch and one record, because a verdict on one row costs
nearly as much as verdicts on ten. BLAS is held to one thread, because threads that each start threads are many times
slower. Drift is computed after the answers, by the worker that has just answered, and never changes one; a thread of
its own would fight with the workers for the interpreter.
"""

from __future__ import annotations

import asyncio
import datetime
import io
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from caveat.errors import CaveatError
from caveat.guard import Guard, Verdicts
from caveat.outputs import Head
from caveat.serve.audit.content import encode_verdicts, written_at
from caveat.serve.audit.prune import plan_cut
from caveat.serve.audit.store import AuditStore
from caveat.serve.audit.witness import Heads, Witness
from caveat.serve.bodies import reason
from caveat.serve.fields import Fields, check_head
from caveat.serve.model import Model
from caveat.serve.problems import Problem
from caveat.serve.tensors import Tensor
from caveat.serve.trail import RowIds, Trail

__all__ = ["Engine"]

T = TypeVar("T")
Arrays = Mapping[str, NDArray[Any]]
_GROUP_ROWS = 512  # a worker takes no further request once it has so many rows
_SMALL = 128  # rows of a request that may share a batch with others
_LARGE_ANSWER = 1000  # rows whose text is made in a thread, so that others are answered meanwhile
_FOLD_SECONDS = 0.1  # between two times that the watch takes in what came since
_FOLD_ROWS = 2048  # that it takes in at a time: page, metrics and waiting requests wait no longer than that
_LATE = 0.5  # seconds after which it is done although the workers have not come to it
_RETRY_SECONDS = 1.0  # after an error: readiness comes back without a request
_STORE_SECONDS = 1.0  # between two looks at the store: what a power failure, or a removed log, may take
_DAY = 24 * 3600.0
_log = logging.getLogger("caveat.serve")


@final
@dataclass(eq=False, slots=True)
class _Request:
    """A request on its way: what was asked, and who waits for the answer."""

    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    read: Callable[[], Arrays] | None = None
    labels: Mapping[str, int] | None = None
    arrays: Arrays = field(default_factory=dict)
    verdicts: Verdicts | None = None
    problem: Exception | None = None


@final
@dataclass(frozen=True, eq=False, slots=True)
class _Batch:
    """Requests whose verdicts are computed and recorded together."""

    requests: Sequence[_Request]
    verdicts: Verdicts
    inputs: bytes | None

    def answer(self, first_row: int) -> list[tuple[_Request, int]]:
        """Give each request its verdicts, and the number of its first row."""
        if len(self.requests) == 1:
            self.requests[0].verdicts = self.verdicts
            return [(self.requests[0], first_row)]
        start, answers = 0, []
        for request in self.requests:
            end = start + len(next(iter(request.arrays.values())))
            request.verdicts = self.verdicts[start:end]
            answers.append((request, first_row + start))
            start = end
        return answers


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
    rows_limit
        Rows of one request; more are refused with status 413.
    keep_days
        Delete records that are older than this many days, at the start and then daily; None: keep everything.
    heads
        Where and how often the head of the trail is published; None: nowhere.
    verify
        ``"background"``: answer once the newest records are verified, and verify the others meanwhile; ``"full"``:
        verify all of them first.
    label_wait
        Count labels in the order of the answers, and a label that has not come after so many further accepted answers
        at its worst; None: count labels in the order in which they come.

    Examples
    --------
    >>> import tempfile
    >>> from caveat import Outputs
    >>> from caveat.serve import open_store
    >>> rows = Outputs(logits=np.random.default_rng(0).normal(size=(300, 3)))
    >>> guard = Guard("energy", sets=None).calibrate(rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     engine = Engine(guard, open_store(f"{folder}/audit.sqlite"))
    ...     answer = engine.verdicts(lambda: {"logits": rows.logits[:5]}, lambda verdicts, ids: len(verdicts))
    ...     print(asyncio.run(answer))
    ...     engine.close()
    5
    """

    def __init__(
        self, guard: Guard, store: AuditStore, *, head: Head | None = None, model: Model | None = None,
        alpha: float = 0.01, name: str = "guard", workers: int | None = None, queue_limit: int = 64,
        keep_inputs: bool = False, rows_limit: int = 100_000, keep_days: float | None = None,
        heads: Heads | None = None, verify: Literal["background", "full"] = "background",
        label_wait: int | None = None,
    ) -> None:  # fmt: skip
        check_head(guard, head)
        self.guard, self.fields, self.name, self.model = guard, Fields(guard, head), name, model
        self.keep_inputs, self.queue_limit, self.rows_limit = keep_inputs, queue_limit, rows_limit
        self.trail = Trail(guard, store, alpha=alpha, name=name, label_wait=label_wait)
        self.witness = Witness(self.trail, heads)
        if verify == "full":
            self.witness.verify()
        configuration = {"head": head is not None, "keep_inputs": keep_inputs, "rows_limit": rows_limit,
                         "keep_days": keep_days, "verify": verify, "durable": getattr(store, "durable", True),
                         "heads": self.witness.facts}  # fmt: skip
        self.trail.note("start", {"model": self.model_facts, "configuration": configuration})
        self.depth = 0  # requests that were let in and not yet answered
        self.failure = ""  # why the audit cannot be written
        self._limits = threadpool_limits(1)
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._writing = threading.Lock()  # one thread at a time touches the store
        self._chores, self._next = threading.Lock(), 0.0  # held while somebody looks after the watch; not before
        self._next_look = 0.0  # at the store
        self._closing = threading.Event()
        count = workers or max(1, (os.cpu_count() or 1) - 1)
        self._workers = [threading.Thread(target=self._work, name=f"verdicts-{i}", daemon=True) for i in range(count)]
        self._watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        for thread in (*self._workers, self._watcher):
            thread.start()
        if keep_days is not None:
            threading.Thread(target=self._retain, args=(keep_days,), name="retention", daemon=True).start()
        self.witness.start()

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
        """Verdicts on the arrays that ``read`` gives, recorded, in the form that ``shape`` makes of them.

        Parameters
        ----------
        read
            Returns the arrays of the request by name; called in a worker thread.
        shape
            Makes the answer from the verdicts and the ids of their rows.

        Returns
        -------
        object
            What ``shape`` returned.
        """
        loop = asyncio.get_running_loop()
        request = _Request(loop.create_future(), loop, read=read)
        self._queue.put(request)
        first_row = await request.answer
        assert request.verdicts is not None
        ids = RowIds(self.trail.chain, first_row, len(request.verdicts))
        if len(ids) > _LARGE_ANSWER:
            return await asyncio.to_thread(shape, request.verdicts, ids)
        return shape(request.verdicts, ids)

    def judge(self, arrays: Arrays) -> Verdicts:
        """Verdicts on the arrays of a request; not recorded.

        Parameters
        ----------
        arrays
            Name -> array with n rows.

        Returns
        -------
        Verdicts
            One verdict per row.
        """
        if self.model is not None:
            self._check_rows(max(map(len, arrays.values()), default=0))  # before the network runs
            arrays = self.model(arrays)
        outputs = self.fields.outputs(arrays)
        self._check_rows(outputs.n)
        try:
            return self.guard(outputs)
        except CaveatError as error:
            raise Problem(422, str(error)) from None

    def _check_rows(self, n: int) -> None:
        if n > self.rows_limit:
            raise Problem(
                413, f"a request must have at most {self.rows_limit} rows, got {n}. Send fewer rows at a time."
            )

    async def labels(self, labels: Mapping[str, int]) -> dict[str, int]:
        """Record the true classes of earlier verdicts, by id; all of them or none.

        Parameters
        ----------
        labels
            Id of the row -> true class.

        Returns
        -------
        dict
            ``recorded``: number of new labels; ``repeated``: number of those that were known already.
        """
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
        """Whether an array of this name is used.

        Parameters
        ----------
        name
            Name of the array.

        Returns
        -------
        bool
            True where the guard or the model reads it.
        """
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
                      "verified_from": trail.verified_from, **self.witness.view()},
            "queue": {"depth": self.depth, "limit": self.queue_limit},
        }  # fmt: skip

    # -- the workers ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Take what waits, give its verdicts, record them, answer; until the engine closes."""
        while (request := self._queue.get()) is not None:
            requests, rows = [], 0
            while request is not None:
                requests.append(request)
                rows += self._read(request)
                request = self._waiting() if rows < _GROUP_ROWS else None
            answers = self._write(self._judged(requests), requests)
            requests[0].loop.call_soon_threadsafe(_resolve, answers)
            self._look_after()

    def _waiting(self) -> _Request | None:
        """The next request, if one waits."""
        try:
            request = self._queue.get_nowait()
        except queue.Empty:
            return None
        if request is None:  # the sign to stop, for the next look at the queue
            self._queue.put(None)
        return request

    def _read(self, request: _Request) -> int:
        """Read the arrays of a request; labels have none. Returns the number of rows."""
        if request.read is None:
            return 0
        try:
            request.arrays = request.read()
        except Exception as error:  # the caller's answer, not the end of this thread
            request.problem = error
        return max((len(array) for array in request.arrays.values() if array.ndim), default=0)

    def _judged(self, requests: Sequence[_Request]) -> list[_Batch]:
        """Verdicts on all requests that ask for some, batch by batch."""
        groups: dict[Any, list[_Request]] = {}
        for request in requests:
            if request.read is not None and request.problem is None:
                form = _form(request.arrays) if self.model is None else None
                groups.setdefault(form or id(request), []).append(request)
        return [batch for group in groups.values() for batch in self._batches(group)]

    def _batches(self, requests: Sequence[_Request]) -> list[_Batch]:
        """Verdicts on requests of one form together; if that fails on each alone, so that a bad one fails alone."""
        arrays = requests[0].arrays
        if len(requests) > 1:
            arrays = {name: np.concatenate([request.arrays[name] for request in requests]) for name in arrays}
        try:
            return [_Batch(requests, self.judge(arrays), packed(arrays) if self.keep_inputs else None)]
        except Exception as error:  # as in _read
            if len(requests) > 1:
                return [batch for request in requests for batch in self._batches([request])]
            requests[0].problem = error
            return []

    def _write(self, batches: Sequence[_Batch], requests: Sequence[_Request]) -> list[tuple[_Request, Any]]:
        """Record what a worker has; each request with its answer: the number of its first row, counts, or a problem."""
        answers: list[tuple[_Request, Any]] = [(request, request.problem) for request in requests if request.problem]
        parts = [(len(batch.verdicts), encode_verdicts(batch.verdicts), batch.inputs) for batch in batches]
        with self._writing:
            if parts:
                rows: list[int] = []
                verdicts = [batch.verdicts for batch in batches]
                problem = self._attempt(lambda: rows.extend(self.trail.append_verdicts(parts, verdicts)))
                for i, batch in enumerate(batches):
                    answers += [(request, problem) for request in batch.requests] if problem else batch.answer(rows[i])
            for request in requests:
                if request.labels is not None:
                    answers.append((request, self._labeled(request.labels)))
        return answers

    def _labeled(self, labels: Mapping[str, int]) -> Any:
        counts: list[dict[str, int]] = []
        problem = self._attempt(lambda: counts.append(self.trail.append_labels(labels)))
        return problem or counts[0]

    def _look_after(self) -> bool:
        """Let the watch and the page follow the records, if it is time for that, and look after the store.

        Returns
        -------
        Whether something was taken in and more waits.
        """
        trail, now = self.trail, time.monotonic()
        if (now < self._next and trail.unfolded_rows < _FOLD_ROWS) or not self._chores.acquire(blocking=False):
            return False
        pause = _RETRY_SECONDS
        try:
            if trail.unfolded:
                trail.fold(most=_FOLD_ROWS, snapshot=False)
            if trail.wants_snapshot or (self.failure and now >= self._next):
                with self._writing:
                    self._attempt(trail.recover if self.failure else trail.snapshot)
            elif not self.failure and now >= self._next_look:
                self._next_look = now + _STORE_SECONDS
                with self._writing:
                    self._attempt(trail.store.look_after)
            if not self.failure:
                pause = 0.0 if trail.unfolded else _FOLD_SECONDS
        except Exception:  # verdicts are given and recorded all the same
            _log.exception("the watch cannot take in the records")
        finally:
            self._next = time.monotonic() + pause
            self._chores.release()
        return pause == 0.0

    def _watch(self) -> None:
        """Do the same while no worker does: all of them wait, or are busy with something large."""
        while not self._closing.wait(_FOLD_SECONDS):
            if not self.depth or time.monotonic() > self._next + _LATE:
                while self._look_after() and not self._closing.is_set():
                    pass
        with self._writing:
            for step in (self.trail.fold, self.trail.snapshot, lambda: self.trail.note("stop"), self.trail.fold):
                self._attempt(step)
            self.witness.stop()
            self.trail.store.close()

    def _retain(self, days: float) -> None:
        """Look for old records, with a connection of its own, and delete them."""
        while True:
            before = written_at(datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=days))
            try:
                reader = self.trail.store.reader()
                try:
                    cut = plan_cut(self.guard, reader, before)
                finally:
                    reader.close()
                if cut is not None:
                    with self._writing:
                        if not self._closing.is_set():
                            self._attempt(partial(self.trail.prune, cut))
            except CaveatError as error:
                _log.error("audit: old records were not deleted: %s", error)
            if self._closing.wait(_DAY):
                return

    def _attempt(self, step: Callable[[], None]) -> Problem | None:
        """Do something with the store. What it cannot do (a full disk, a lost connection) is not answered as done."""
        try:
            if self.witness.damage is not None:
                raise self.witness.damage
            step()
        except Problem as problem:
            return problem
        except Exception as error:
            cause = reason(error).rstrip(".")
            if cause != self.failure:
                _log.error("audit: %s", cause, exc_info=None if isinstance(error, CaveatError) else error)
            self.failure, self.trail.unsure = cause, True
            return Problem(503, f"the audit trail cannot be written ({cause}), so nothing is answered.")
        self.failure = ""
        return None


def _resolve(answers: Sequence[tuple[_Request, Any]]) -> None:
    """Answer those who still wait; in the thread of the event loop."""
    for request, answer in answers:
        if not request.answer.done():
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)


def _form(arrays: Arrays) -> tuple[Any, ...]:
    """What small requests must have in common to be one batch; empty: a request that is alone.

    >>> _form({"logits": np.zeros((2, 3))}), _form({"logits": np.zeros((2, 3)), "features": np.zeros((1, 4))})
    ((('logits', '<f8', 3),), ())
    """
    rows = {len(array) if array.ndim == 2 else 0 for array in arrays.values()}
    if len(rows) != 1 or not 0 < max(rows) <= _SMALL:
        return ()
    return tuple((name, array.dtype.str, array.shape[1]) for name, array in sorted(arrays.items()))


def packed(arrays: Arrays) -> bytes:
    """The arrays of a request as they are kept: the bytes of an ``.npz`` file."""
    stream = io.BytesIO()
    np.savez(stream, **dict(arrays))  # type: ignore[arg-type]
    return stream.getvalue()
