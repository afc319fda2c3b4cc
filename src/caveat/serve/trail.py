"""Trail: the audit trail of a guard with the drift and the live page that follow from it.

Records are the only truth. The watch and the page are computed from them, in the same order and by the same code while
the service runs, after a restart and in a replay; a snapshot only saves the time to do it again. One thread at a time.
"""

from __future__ import annotations

import datetime
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray

from caveat import __version__
from caveat.errors import InputError
from caveat.evaluation.findings import versions
from caveat.guard import Guard
from caveat.guard.facts import guard_facts
from caveat.serve.audit.content import canonical, merged_verdicts, now
from caveat.serve.audit.record import START, Entry, Record, chained
from caveat.serve.audit.store import AuditStore
from caveat.serve.live import LiveView
from caveat.serve.problems import Problem

__all__ = ["P_BARS", "RowIds", "Trail", "anchor", "plain", "verified"]

P_BARS = 20  # of the histogram of all p-values
_SNAPSHOT_ROWS = 100_000
_READ = 500  # records at a time after a restart


@final
class RowIds(Sequence[str]):
    """Ids of consecutive verdicts, made when they are looked at.

    >>> list(RowIds("1f2e3d4c", 41, 2))
    ['1f2e3d4c-41', '1f2e3d4c-42']
    """

    def __init__(self, chain: str, first_row: int, n: int) -> None:
        self._chain, self._rows = chain, range(first_row, first_row + n)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> list[str]: ...
    def __getitem__(self, i: int | slice) -> str | list[str]:
        if isinstance(i, slice):
            return [f"{self._chain}-{row}" for row in self._rows[i]]
        return f"{self._chain}-{self._rows[i]}"


@final
class Trail:
    """The records of one guard, and the watch and page that follow from them.

    Parameters
    ----------
    guard
        The guard whose verdicts are recorded.
    store
        Where the records are kept.
    alpha
        Allowed chance that a quiet stream ever raises a drift alarm; fixed when the trail begins.
    name
        Name on the page.
    """

    def __init__(self, guard: Guard, store: AuditStore, *, alpha: float = 0.01, name: str = "guard") -> None:
        self.guard, self.store = guard, store
        self.watch = guard.watch(alpha=alpha)
        self.live = LiveView(guard, self.watch, started_at=time.time(), name=name)
        self.lock = threading.Lock()  # held while watch and page change or are read
        self.p_counts, self.p_sum = np.zeros(P_BARS, dtype=np.int64), 0.0  # histogram of all p-values
        self._unfolded: list[Record] = []
        self.chain = self._begin()
        self._resume()

    # -- beginning ----------------------------------------------------------------------------------------------------

    def _begin(self) -> str:
        """The name of the chain; a new one is begun where the store is empty."""
        header = self.store.header()
        if "chain" not in header:
            header = {"chain": secrets.token_hex(4), "guard": self.guard.fingerprint, "alpha": repr(self.watch.alpha)}
            self.store.set_header(header)
        if header["guard"] != self.guard.fingerprint:
            raise InputError(f"the audit trail belongs to the guard {header['guard'][:12]}, this one is "
                             f"{self.guard.fingerprint[:12]}. Begin a new audit trail for a new guard.")  # fmt: skip
        if float(header["alpha"]) != self.watch.alpha:
            raise InputError(f"the audit trail was begun with alpha = {header['alpha']}, got {self.watch.alpha}. "
                             "Use that value, or begin a new audit trail.")  # fmt: skip
        return header["chain"]

    def _resume(self) -> None:
        """Go on from the newest snapshot with the records after it, which are verified."""
        self.seq, self.digest, self.rows = anchor(self.store)
        snapshot = self.store.snapshot()
        if snapshot is not None:
            seq, state = snapshot
            self.rows = self._restore(state)
            if seq > self.seq:
                self.digest = next(self.store.records(seq - 1)).digest
            self.seq = seq
        self.snapshot_rows, self.verified_from = self.rows, self.seq + 1
        for record in verified(self.store, self.seq, self.digest, self.rows):
            self._advance(record)
            if len(self._unfolded) >= _READ:
                self.fold()
        self.fold()

    def _restore(self, text: bytes) -> int:
        state = json.loads(text)
        self.watch.restore(state["watch"])
        self.live.restore(state["live"])
        self.p_counts, self.p_sum = np.array(state["p_counts"], dtype=np.int64), float(state["p_sum"])
        return int(state["rows"])

    # -- writing ------------------------------------------------------------------------------------------------------

    def note(self, kind: Literal["start", "stop"], more: Mapping[str, Any] | None = None) -> None:
        """Record that the service starts or stops, and more facts about it."""
        facts: dict[str, Any] = {"chain": self.chain, "rows": self.rows, **(more or {})}
        if kind == "start":
            facts |= {"alpha": self.watch.alpha, "guard": guard_facts(self.guard),
                      "versions": {"caveat": __version__, **dict(versions())}}  # fmt: skip
        self.append([Entry(kind, now(), self.rows, 0, canonical(facts))])

    def append(self, entries: Sequence[Entry], labels: Mapping[int, int] | None = None) -> None:
        """Chain entries and write them in one transaction."""
        records: list[Record] = []
        previous, seq = self.digest, self.seq
        for entry in entries:
            records.append(chained(entry, seq=seq + 1, previous=previous))
            previous, seq = records[-1].digest, records[-1].seq
        self.store.append(records, labels or {})
        for record in records:
            self._advance(record)

    def append_labels(self, labels: Mapping[str, int]) -> dict[str, int]:
        """Record the true classes of earlier verdicts, by id; all of them or none."""
        rows = {self._row(key): label for key, label in labels.items()}
        earlier = self.store.labels_of(list(rows))
        changed = next((row for row, label in earlier.items() if label != rows[row]), None)
        if changed is not None:
            raise Problem(409, f"the verdict {self.chain}-{changed} has the label {earlier[changed]} already, got "
                          f"{rows[changed]}. A label cannot be changed.")  # fmt: skip
        fresh = {row: label for row, label in sorted(rows.items()) if row not in earlier}
        if fresh:
            body = canonical(self._judged(fresh))
            self.append([Entry("labels", now(), self.rows, 0, body)], fresh)
        return {"recorded": len(fresh), "repeated": len(earlier)}

    def _row(self, key: str) -> int:
        chain, _, row = key.rpartition("-")
        if chain != self.chain or not row.isascii() or not row.isdigit() or len(row) > 18 or int(row) >= self.rows:
            raise Problem(404, f"{key[:60]!r} is not the id of a verdict of this service.")
        return int(row)

    def _judged(self, labels: Mapping[int, int]) -> dict[str, list[Any]]:
        """Of each labelled row: whether the answer was wrong (None where none was given), whether the set held it."""
        classes, largest = self.n_classes, max(labels.values())
        if classes is not None and largest >= classes:
            raise Problem(422, f"a label must be a class 0 to {classes - 1}, got {largest}.")
        judged: dict[str, list[Any]] = {"row": list(labels), "label": list(labels.values()), "wrong": [], "covered": []}
        rows = iter(labels.items())
        row, label = next(rows)
        for record in self.store.holding(list(labels)):
            first, end = record.entry.first_row, record.entry.first_row + record.entry.rows
            verdicts = merged_verdicts(self.guard, [record.entry.body])
            while first <= row < end:
                i, answers = row - first, verdicts.predictions
                accepted = verdicts.kind[i] == "accept"
                judged["wrong"].append(bool(answers[i] != label) if accepted and answers is not None else None)
                judged["covered"].append(None if verdicts.sets is None else label in verdicts.sets.labels(i))
                row, label = next(rows, (-1, -1))
        if row != -1:
            raise Problem(404, f"the verdict {self.chain}-{row} is no longer kept.")
        return judged

    @property
    def n_classes(self) -> int | None:
        """Number of classes, where the guard knows it."""
        return None if self.guard.sets_ is None else self.guard.sets_.n_classes_

    def _advance(self, record: Record) -> None:
        self.seq, self.digest = record.seq, record.digest
        self.rows += record.entry.rows
        if record.entry.kind in ("verdicts", "labels"):
            self._unfolded.append(record)

    # -- watch and page -----------------------------------------------------------------------------------------------

    @property
    def unfolded(self) -> int:
        """Records that the watch has not taken in yet."""
        return len(self._unfolded)

    def fold(self) -> None:
        """Let watch and page take in the records that came since the last call."""
        records = self._unfolded[:]  # another thread may append meanwhile
        del self._unfolded[: len(records)]
        with self.lock:
            for kind, some in groupby(records, key=lambda record: record.entry.kind):
                if kind == "verdicts":
                    self._fold_verdicts(list(some))
                else:
                    for record in some:
                        self._fold_labels(json.loads(record.entry.body))

    def _fold_verdicts(self, records: Sequence[Record]) -> None:
        verdicts = merged_verdicts(self.guard, [record.entry.body for record in records])
        first_row = records[0].entry.first_row
        self.p_counts += np.histogram(verdicts.p_values, P_BARS, (0.0, 1.0))[0]
        self.p_sum += float(verdicts.p_values.sum())
        evidence = self.watch.update(verdicts)
        at = np.repeat([_seconds(record.entry.at) for record in records], [record.entry.rows for record in records])
        self.live.add(at, first_row, RowIds(self.chain, first_row, len(verdicts)), verdicts, evidence)

    def _fold_labels(self, judged: Mapping[str, Sequence[Any]]) -> None:
        wrong = _mask(judged["wrong"])
        if self.watch.risk is not None and wrong.size:
            self.watch.labels(wrong)
        covered = _mask(judged["covered"])
        self.live.add_labels(wrong, covered if covered.size else None)

    def state(self) -> bytes:
        """What follows from the records so far, as JSON."""
        assert not self._unfolded
        return json.dumps({"rows": self.rows, "watch": plain(self.watch.state()), "live": self.live.state(),
                           "p_counts": self.p_counts.tolist(), "p_sum": self.p_sum}).encode()  # fmt: skip

    @property
    def wants_snapshot(self) -> bool:
        """Whether so many rows came since the last snapshot that a restart would take long."""
        return self.rows - self.snapshot_rows >= _SNAPSHOT_ROWS

    def snapshot(self) -> None:
        """Keep the state, so that a restart reads only the records after it."""
        assert not self._unfolded
        self.store.save_snapshot(self.seq, self.state())
        self.snapshot_rows = self.rows


def anchor(store: AuditStore) -> tuple[int, bytes, int]:
    """Number, digest and rows of the last record that was pruned; of nothing at all in a whole chain."""
    header = store.header()
    digest = bytes.fromhex(header.get("anchor_digest", START.hex()))
    return int(header.get("anchor_seq", 0)), digest, int(header.get("anchor_row", 0))


def verified(store: AuditStore, seq: int, digest: bytes, rows: int) -> Iterator[Record]:
    """The records after ``seq``; the first that does not follow from the one before it is an error."""
    for record in store.records(seq):
        if record.seq != seq + 1 or record.entry.first_row != rows or not record.follows(digest):
            raise InputError(f"the audit trail is damaged at record {record.seq}: it does not follow from the record "
                             "before it. Keep the file as evidence, and begin a new audit trail.")  # fmt: skip
        yield record
        seq, digest, rows = record.seq, record.digest, rows + record.entry.rows


def plain(state: Any) -> Any:
    """A state of ``Watch`` with lists in place of arrays."""
    if isinstance(state, dict):
        return {name: plain(value) for name, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [plain(value) for value in state]
    return state.tolist() if isinstance(state, (np.ndarray, np.generic)) else state


def _mask(values: Sequence[bool | None]) -> NDArray[np.bool_]:
    return np.array([value for value in values if value is not None], dtype=np.bool_)


def _seconds(at: str) -> float:
    return datetime.datetime.fromisoformat(at.replace("Z", "+00:00")).timestamp()
