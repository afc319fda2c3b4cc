"""Trail: the audit trail of a guard with the drift and the live page that follow from it.

Records are the only truth. The watch and the page are computed from them, in the same order and by the same code while
the service runs, after a restart and in a replay; a snapshot only saves the time to do it again. One thread at a time
may write; ``fold`` may run beside it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat import __version__
from caveat.errors import CaveatError, InputError, StoreError
from caveat.evaluation.findings import versions
from caveat.guard import Guard, Verdicts, Watch
from caveat.guard.facts import guard_facts
from caveat.serve.audit.content import canonical, merged_verdicts, now
from caveat.serve.audit.record import Entry, Kind, Record, chained, genesis
from caveat.serve.audit.store import AuditStore, Cut, Damaged
from caveat.serve.audit.verify import anchor, stated_digest, verified
from caveat.serve.folding import P_EDGES, Folding, RowIds
from caveat.serve.live import LiveView
from caveat.serve.problems import Problem

__all__ = ["P_EDGES", "RowIds", "Trail", "begun", "label_wait_of", "resumed", "row_of"]

_SNAPSHOT_ROWS = 100_000
_READ = 500  # records at a time after a restart


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
    label_wait
        Further accepted answers after which a missing label counts at its worst; None: labels count in the order in
        which they come. Fixed when the trail begins.
    """

    def __init__(
        self, guard: Guard, store: AuditStore, *, alpha: float = 0.01, name: str = "guard",
        label_wait: int | None = None,
    ) -> None:  # fmt: skip
        self.guard, self.store = guard, store
        header = store.header()
        if "chain" not in header:
            header = {"chain": secrets.token_hex(4), "guard": guard.fingerprint, "alpha": repr(float(alpha)),
                      "labels": "arrival" if label_wait is None else str(label_wait)}  # fmt: skip
            store.set_header(header)
        if float(begun(header, guard)["alpha"]) != alpha:
            raise InputError(f"the audit trail was begun with alpha = {header['alpha']}, got {alpha}. "
                             "Use that value, or begin a new audit trail.")  # fmt: skip
        if label_wait_of(header) != label_wait:
            raise InputError(f"the audit trail was begun with --label-wait {header['labels']}, got {label_wait}. "
                             "Use that value, or begin a new audit trail.")  # fmt: skip
        self.header, self.chain = dict(header), header["chain"]
        self.lock = threading.Lock()  # held while watch and page change or are read
        self._fold_lock = threading.Lock()  # records are taken in by one thread at a time, in order
        self._unfolded: list[Record] = []
        self._verdicts: dict[int, Verdicts] = {}  # of unfolded records that were written just now, by their number
        self.unsure = False  # whether the store may hold records that this trail does not have
        self._new_folding = lambda: Folding(guard, chain=self.chain, alpha=alpha, started_at=time.time(), name=name,
                                            label_wait=label_wait)  # fmt: skip
        self._resume()

    def _resume(self) -> None:
        """Go on from the newest snapshot with the records after it, which are verified."""
        self.folding, self.seq, self.digest = resumed(self.store, self._new_folding)
        self.rows = self.snapshot_rows = self.folding.rows
        self.verified_from = self.seq + 1
        self.catch_up()

    def catch_up(self) -> None:
        """Take in the records of the store that this trail does not have yet, which are verified.

        After a write that failed it is not known whether it was done: a lost connection can lose the answer alone.
        """
        self._demand_newest()
        for record in verified(self.store, self.seq, self.digest, self.rows):
            self._advance(record)
            if len(self._unfolded) >= _READ:
                self.fold(snapshot=False)  # not while records are being read
        self.fold(snapshot=False)
        self.unsure = False
        if self.wants_snapshot:
            self.snapshot()

    def _demand_newest(self) -> None:
        """A database that was restored, or a replica that took over, may lack what was acknowledged."""
        last = next(self.store.records(self.seq - 1), None)  # first: this connects again where that was lost
        first, digest, _ = anchor(self.store)
        if self.digest != (digest if self.seq == first else b"" if last is None else last.digest):
            raise StoreError(f"the audit trail does not hold record {self.seq}, which was written: it is an older or "
                             "another one.")  # fmt: skip

    def recover(self) -> None:
        """See whether the store can be written again after an error."""
        self.catch_up()
        self.store.set_header({"checked_at": now()})

    # -- writing ------------------------------------------------------------------------------------------------------

    def note(self, kind: Literal["start", "stop"], facts: Mapping[str, Any] | None = None) -> None:
        """Record that the service starts or stops, and what is to be known about it."""
        known: dict[str, Any] = {"chain": self.chain, "rows": self.rows, **(facts or {})}
        if kind == "start":
            known |= {"alpha": self.watch.alpha, "guard": guard_facts(self.guard),
                      "versions": {"caveat": __version__, **dict(versions())}}  # fmt: skip
        self._sure()
        self._append([Entry(kind, now(), self.rows, 0, canonical(known))])

    def append_verdicts(
        self, batches: Sequence[tuple[int, bytes, bytes | None]], verdicts: Sequence[Verdicts] = ()
    ) -> list[int]:
        """Record the verdicts of several batches in one transaction.

        Parameters
        ----------
        batches
            Of each: number of verdicts, body of the record, inputs or None.
        verdicts
            The verdicts that the bodies say, where they are there: the watch then need not read the bodies again.

        Returns
        -------
        The row of the first verdict of each batch.
        """
        self._sure()
        at, first_rows, row = now(), [], self.rows
        for rows, _, _ in batches:
            first_rows.append(row)
            row += rows
        self._append([Entry("verdicts", at, first_row, rows, body, inputs)
                      for first_row, (rows, body, inputs) in zip(first_rows, batches, strict=True)],
                     verdicts=verdicts)  # fmt: skip
        return first_rows

    def append_labels(self, labels: Mapping[str, int]) -> dict[str, int]:
        """Record the true classes of earlier verdicts, by id; all of them or none."""
        self._sure()
        rows = {self._row(key): label for key, label in labels.items()}
        earlier = self.store.labels_of(list(rows))
        changed = next((row for row, label in earlier.items() if label != rows[row]), None)
        if changed is not None:
            raise Problem(409, f"the verdict {self.chain}-{changed} has the label {earlier[changed]} already, got "
                          f"{rows[changed]}. A label cannot be changed.")  # fmt: skip
        fresh = {row: label for row, label in sorted(rows.items()) if row not in earlier}
        if fresh:
            body = canonical(self._judged(fresh))
            self._append([Entry("labels", now(), self.rows, 0, body)], fresh)
        return {"recorded": len(fresh), "repeated": len(earlier)}

    def prune(self, cut: Cut) -> None:
        """Delete the beginning of the chain, and record where and what followed from it."""
        facts = {"what": "records", "until": cut.until, "rows": cut.rows, "digest": cut.digest.hex(),
                 "state_sha256": hashlib.sha256(cut.state).hexdigest(),
                 "begun": genesis(self.store.header()).hex()}  # fmt: skip
        self._state("prune", facts, lambda record: self.store.prune(cut, record))

    def forget_inputs(self, until: int) -> None:
        """Delete the inputs of records up to ``until``, and record it; the chain still verifies."""
        facts = {"what": "inputs", "until": until}
        self._state("prune", facts, lambda record: self.store.forget_inputs(until, record))

    def _state(self, kind: Kind, facts: Mapping[str, Any], write: Callable[[Record], None]) -> None:
        """Change what is not chained, and append the record that states it, in one transaction."""
        self._sure()
        entry = Entry(kind, now(), self.rows, 0, canonical(facts))
        record = chained(entry, seq=self.seq + 1, previous=self.digest)
        self._write(lambda: write(record))
        self._advance(record)

    def _append(
        self, entries: Sequence[Entry], labels: Mapping[int, int] | None = None, verdicts: Sequence[Verdicts] = ()
    ) -> None:
        """Chain entries and write them in one transaction."""
        records: list[Record] = []
        previous, seq = self.digest, self.seq
        for entry in entries:
            records.append(chained(entry, seq=seq + 1, previous=previous))
            previous, seq = records[-1].digest, records[-1].seq
        self._write(lambda: self.store.append(records, labels or {}))
        self._verdicts.update(zip((record.seq for record in records), verdicts, strict=False))
        for record in records:
            self._advance(record)

    def _write(self, write: Callable[[], None]) -> None:
        self.unsure = True
        write()
        self.unsure = False

    def _sure(self) -> None:
        if self.unsure:
            self.catch_up()

    def _advance(self, record: Record) -> None:
        self.seq, self.digest = record.seq, record.digest
        self.rows += record.entry.rows
        self._unfolded.append(record)

    # -- labels -------------------------------------------------------------------------------------------------------

    def _row(self, key: str) -> int:
        row = row_of(self.chain, key)
        if not 0 <= row < self.rows:
            raise Problem(404, f"{key[:60]!r} is not the id of a verdict of this service.")
        return row

    def _judged(self, labels: Mapping[int, int]) -> dict[str, list[Any]]:
        """Of each labeled row: whether the answer was wrong (None where none was given), whether the set held it."""
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

    # -- watch and page -----------------------------------------------------------------------------------------------

    @property
    def watch(self) -> Watch:
        """Drift alarms and the monitor of live errors."""
        return self.folding.watch

    @property
    def live(self) -> LiveView:
        """What the page shows."""
        return self.folding.live

    @property
    def p_counts(self) -> NDArray[np.int64]:
        """Histogram of all p-values."""
        return self.folding.p_counts

    @property
    def p_sum(self) -> float:
        """Sum of all p-values."""
        return self.folding.p_sum

    @property
    def unfolded(self) -> int:
        """Records that the watch has not taken in yet."""
        return len(self._unfolded)

    @property
    def unfolded_rows(self) -> int:
        """Verdicts that the watch has not taken in yet."""
        return self.rows - self.folding.rows

    def fold(self, *, most: int | None = None, snapshot: bool = True) -> None:
        """Let watch and page take in the records that came since the last call; in any thread, without ``snapshot``.

        Parameters
        ----------
        most
            Stop after the record in which this many verdicts are reached; the rest waits for the next call.
        snapshot
            Keep the state, if it is time for that.
        """
        with self._fold_lock:
            records = self._unfolded[:]  # another thread may append meanwhile
            if most is not None:
                sums = accumulate(record.entry.rows for record in records)
                records = records[: next((i + 1 for i, rows in enumerate(sums) if rows >= most), len(records))]
            with self.lock:
                self.folding.take(records, self._verdicts)
            del self._unfolded[: len(records)]
            for record in records:
                self._verdicts.pop(record.seq, None)
        if snapshot and self.wants_snapshot:
            self.snapshot()

    @property
    def wants_snapshot(self) -> bool:
        """Whether so many rows came since the last snapshot that a restart would take long."""
        return self.folding.rows - self.snapshot_rows >= _SNAPSHOT_ROWS

    def snapshot(self) -> None:
        """Keep the state, so that a restart reads only the records after it."""
        with self._fold_lock:
            seq, state, rows = self.folding.tree.size, self.folding.state(), self.folding.rows
        facts = {"after": seq, "sha256": hashlib.sha256(state).hexdigest()}
        self._state("state", facts, lambda record: self.store.save_snapshot(seq, state, record))
        self.snapshot_rows = rows


def begun(header: Mapping[str, str], guard: Guard) -> Mapping[str, str]:
    """The header of a trail that has begun, if it is one of this guard."""
    if not {"chain", "guard", "alpha", "labels"} <= set(header):
        raise InputError("the audit trail is empty: no service has written to it.")
    if header["guard"] != guard.fingerprint:
        raise InputError(f"the audit trail belongs to the guard {header['guard'][:12]}, this one is "
                         f"{guard.fingerprint[:12]}. Begin a new audit trail for a new guard.")  # fmt: skip
    return header


def label_wait_of(header: Mapping[str, str]) -> int | None:
    """Further accepted answers after which a missing label counts at its worst, as a trail was begun with it."""
    return None if header["labels"] == "arrival" else int(header["labels"])


def row_of(chain: str, key: str) -> int:
    """The number of a verdict by its id; -1 where the chain gives no such id.

    >>> row_of("1f2e3d4c", "1f2e3d4c-41"), row_of("1f2e3d4c", "2-41")
    (41, -1)
    """
    name, _, row = key.rpartition("-")
    return int(row) if name == chain and row.isascii() and row.isdigit() and len(row) <= 18 else -1


def resumed(store: AuditStore, folding: Callable[[], Folding]) -> tuple[Folding, int, bytes]:
    """The newest state of a trail that can be read, with number and digest of the record after which it was kept."""
    first, digest, rows = anchor(store)
    last = store.last()
    end = first if last is None else last.seq
    for seq in reversed(store.snapshots()):
        if seq > end:
            raise Damaged(f"records after {end} are missing: a state was kept that followed from them")
        content = store.snapshot(seq)
        if stated_digest(store, seq) != hashlib.sha256(content).hexdigest():
            raise Damaged(f"the state after record {seq} is not the one that was kept")
        try:
            state = folding().restore(content)
        except CaveatError:  # an older state gives the same in more time
            continue
        record = next(store.records(seq - 1), None) if seq > first else None
        if record is not None and record.seq == seq and state.rows == record.entry.first_row + record.entry.rows:
            return state, seq, record.digest
        if seq == first and state.rows == rows:
            return state, first, digest
    if first:
        raise Damaged(f"the state after record {first}, where it was pruned, cannot be read")
    return folding(), 0, digest
