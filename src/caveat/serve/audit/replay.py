"""Replay: the verdicts and the drift evidence of an audit trail, computed again and compared bit for bit."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import orjson
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from caveat.guard import Guard, Verdicts
from caveat.outputs import Head
from caveat.serve.audit.content import encode_verdicts, merged_verdicts
from caveat.serve.audit.record import Record
from caveat.serve.audit.store import AuditStore, Damaged
from caveat.serve.audit.verify import anchor, verified
from caveat.serve.fields import Fields
from caveat.serve.folding import Folding, readable
from caveat.serve.trail import begun, label_wait_of

__all__ = ["Difference", "TrailReplay", "base_state", "replay_trail"]

Arrays = Mapping[str, NDArray[Any]]
Model = Callable[[Arrays], dict[str, NDArray[Any]]]
Progress = Callable[[str, int, int], None]
_READ = 500  # records at a time
_BYTES = 16 * 2**20  # of records at a time


@final
@dataclass(frozen=True)
class Difference:
    """Something that was recorded and is not what follows.

    Parameters
    ----------
    record
        Number of the record, or of the record after which a state was kept.
    id
        Id of the verdict; empty for a state.
    what
        Column of the verdict, or part of the state.
    recorded, replayed
        Both values.
    """

    record: int
    id: str
    what: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        where = f"verdict {self.id} (record {self.record})" if self.id else f"state after record {self.record}"
        return f"{where}: {self.what} was recorded as {self.recorded!r}, and is {self.replayed!r} when replayed."


@final
@dataclass(frozen=True)
class TrailReplay:
    """What came out of a replay.

    Parameters
    ----------
    rows, from_inputs
        Verdicts that were computed again; how many of them from the inputs, the others from the recorded scores.
    differing
        Verdicts that were recorded otherwise.
    states
        Number of kept states that were compared.
    first_difference
        The first verdict or state that differs; None where none does.
    log10_e
        Evidence for drift in each stream after the last record.
    alarmed_at
        Row at which each alarm rang, of those that have; ``"risk"`` counts labels.
    labels, errors
        Labels of accepted rows and wrong answers among them; None where the guard promises no error rate.
    assumption
        What the alarm on errors assumes about the labels; empty where there is none.
    head
        Digest of the last record, hex.
    """

    rows: int
    from_inputs: int
    differing: int
    states: int
    first_difference: Difference | None
    log10_e: Mapping[str, float]
    alarmed_at: Mapping[str, int]
    labels: int | None
    errors: int | None
    assumption: str
    head: str

    @property
    def sound(self) -> bool:
        """Whether everything came out as it was recorded."""
        return self.first_difference is None


def base_state(guard: Guard, store: AuditStore) -> Folding:
    """What follows from the pruned records of a chain; a fresh start in a whole one."""
    header = begun(store.header(), guard)
    folding = Folding(guard, chain=header["chain"], alpha=float(header["alpha"]), label_wait=label_wait_of(header))
    first = anchor(store)[0]
    if first and first not in store.snapshots():
        raise Damaged(f"the state after record {first}, where it was pruned, is missing")
    return folding.restore(store.snapshot(first)) if first else folding


def replay_trail(
    guard: Guard, store: AuditStore, *, head: Head | None = None, model: Model | None = None,
    progress: Progress | None = None,
) -> TrailReplay:  # fmt: skip
    """Compute the verdicts and the drift of an audit trail again, and compare them bit for bit with what was recorded.

    Where inputs were kept, everything is computed from them. Elsewhere kinds, p-values and the abstain gate are
    computed from the recorded scores and sets. The martingale starts from the first record, or from the state where
    the chain was pruned, and is compared with every kept state. The chain itself is verified on the way.

    Parameters
    ----------
    guard
        The guard of the service.
    store
        The audit trail; a service may go on writing to it.
    head, model
        Those of the service: they turn kept inputs into the arrays that the guard reads.
    progress
        Called with what is done, the steps so far and all steps.

    Returns
    -------
    TrailReplay
        ``sound`` says whether everything agrees; ``rows`` counts the verdicts.

    Examples
    --------
    >>> import tempfile
    >>> from caveat import Outputs
    >>> from caveat.serve import open_store
    >>> from caveat.serve.trail import Trail
    >>> rows = Outputs(logits=np.random.default_rng(0).normal(size=(300, 3)))
    >>> guard = Guard("energy", sets=None).calibrate(rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/audit.sqlite")
    ...     first_rows = Trail(guard, store).append_verdicts([(300, encode_verdicts(guard(rows)), None)])
    ...     result = replay_trail(guard, store)
    ...     store.close()
    >>> result.sound, result.rows
    (True, 300)
    """
    with store.reading(), threadpool_limits(1):  # one thread, as in the service: sums in the same order
        return _Replay(guard, store, head, model, progress or (lambda what, done, steps: None)).run()


class _Replay:
    def __init__(
        self, guard: Guard, store: AuditStore, head: Head | None, model: Model | None, progress: Progress
    ) -> None:  # fmt: skip
        self.guard, self.store, self.model, self.progress = guard, store, model, progress
        self.fields = Fields(guard, head)
        self.folding = base_state(guard, store)
        self.first, self.digest, self.first_row = anchor(store)
        self.seq, self.from_inputs, self.differing = self.first, 0, 0
        self.waiting = [seq for seq in store.snapshots() if seq > self.first]
        self.states = 0
        self.difference: Difference | None = None

    def run(self) -> TrailReplay:
        last = self.store.last()
        steps, pending, size = 0 if last is None else last.seq - self.first, [], 0
        for record in verified(self.store, self.first, self.digest, self.first_row):
            pending.append(record)
            size += len(record.entry.body) + len(record.entry.inputs or b"")
            if len(pending) >= _READ or size >= _BYTES or record.seq in self.waiting[:1]:
                self._take(pending)
                pending, size = [], 0
                self.progress("replaying", self.seq - self.first, steps)
        self._take(pending)
        if self.waiting:
            raise Damaged(f"records after {self.seq} are missing: a state was kept that followed from them")
        watch, risk = self.folding.watch, self.folding.watch.risk
        return TrailReplay(
            rows=self.folding.rows - self.first_row, from_inputs=self.from_inputs, differing=self.differing,
            states=self.states, first_difference=self.difference, log10_e=watch.log10_e, alarmed_at=watch.alarmed_at,
            labels=None if risk is None else risk.n - risk.missing, errors=None if risk is None else risk.errors,
            assumption="" if risk is None else risk.assumption,
            head=self.digest.hex(),
        )  # fmt: skip

    def _take(self, records: Sequence[Record]) -> None:
        if not records:
            return
        with readable(records):
            self._compare([record for record in records if record.entry.kind == "verdicts"])
        self.folding.take(records)
        self.seq, self.digest = records[-1].seq, records[-1].digest
        if self.seq in self.waiting:
            self.waiting.remove(self.seq)
            with readable(records):
                self._compare_state(json.loads(self.store.snapshot(self.seq)))

    def _compare(self, records: Sequence[Record]) -> None:
        scored = [record for record in records if record.entry.inputs is None and record.entry.rows]
        if scored:
            verdicts = merged_verdicts(self.guard, [record.entry.body for record in scored])
            again = self.guard.decide(
                score=verdicts.score, doubt=verdicts.doubt, sets=verdicts.sets, predictions=verdicts.predictions
            )  # fmt: skip
            if not _equal(verdicts, again):
                start = 0
                for record in scored:
                    rows = slice(start, start + record.entry.rows)
                    self._differ(record, _rows(verdicts, rows), _rows(again, rows))
                    start = rows.stop
        for record in records:
            if record.entry.inputs is not None:
                self._compare_inputs(record)

    def _compare_inputs(self, record: Record) -> None:
        with np.load(io.BytesIO(record.entry.inputs or b""), allow_pickle=False) as content:
            arrays: Arrays = dict(content)
        again = self.guard(self.fields.outputs(arrays if self.model is None else self.model(arrays)))
        self.from_inputs += record.entry.rows
        if encode_verdicts(again) != record.entry.body:
            everything = slice(0, record.entry.rows)
            recorded = merged_verdicts(self.guard, [record.entry.body])
            self._differ(record, _rows(recorded, everything), _rows(again, everything))

    def _differ(self, record: Record, recorded: list[dict[str, Any]], again: list[dict[str, Any]]) -> None:
        for i, (row, new) in enumerate(zip(recorded, again, strict=True)):
            columns = [name for name in row if orjson.dumps(row[name]) != orjson.dumps(new[name])]
            self.differing += bool(columns)
            if columns and self.difference is None:
                key = f"{self.folding.chain}-{record.entry.first_row + i}"
                self.difference = Difference(record.seq, key, columns[0], row[columns[0]], new[columns[0]])

    def _compare_state(self, recorded: Mapping[str, Any]) -> None:
        self.states += 1
        for name, fact in self.folding.facts().items():
            if recorded.get(name) != fact and self.difference is None:
                path, old, new = _first_difference(name, recorded.get(name), fact)
                self.difference = Difference(self.seq, "", path, old, new)


def _equal(a: Verdicts, b: Verdicts) -> bool:
    return bool((a.kind == b.kind).all()) and all(
        getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ("p_values", "conditional_p_values")
    )


def _rows(verdicts: Verdicts, rows: slice) -> list[dict[str, Any]]:
    columns = orjson.loads(encode_verdicts(verdicts))
    return [{name: None if column is None else column[i] for name, column in columns.items()}
            for i in range(rows.start, rows.stop)]  # fmt: skip


def _first_difference(path: str, old: Any, new: Any) -> tuple[str, Any, Any]:
    """The smallest part of two states that differs."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs: Any = ((f"{path}.{name}", old.get(name), new.get(name)) for name in new)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = ((f"{path}[{i}]", *pair) for i, pair in enumerate(zip(old, new, strict=True)))
    else:
        return path, old, new
    return next((_first_difference(*pair) for pair in pairs if pair[1] != pair[2]), (path, old, new))
