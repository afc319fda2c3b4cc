"""Verify: does every record follow from the one before it?

A chain proves that nothing in it was changed, removed or moved after it was written, as long as one digest of it is
known from elsewhere: who can rewrite the whole file can make a new chain. ``head=`` takes such a digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import orjson

from caveat.serve.audit.record import START, Record
from caveat.serve.audit.store import AuditStore, Damaged

__all__ = ["Verification", "anchor", "verified", "verify_trail"]

Progress = Callable[[str, int, int], None]


@final
@dataclass(frozen=True)
class Verification:
    """What is in an audit trail, and whether it is as it was written.

    Parameters
    ----------
    broken_at
        The first record that is wrong; None where all are right, or where it is not a record.
    reason
        What is wrong; empty where nothing is.
    records, verdicts, labels
        How many were verified.
    first_at, last_at
        Times of the first and of the last record; empty where there is none.
    head
        Digest of the last record, hex. Keep it elsewhere: ``verify_trail(..., head=)`` finds it again.
    pruned_records, pruned_verdicts
        How many were deleted from the beginning, as a record of the chain says.
    inputs, inputs_deleted
        Records whose inputs are kept, and whose inputs were deleted.
    """

    broken_at: int | None
    reason: str
    records: int
    verdicts: int
    labels: int
    first_at: str
    last_at: str
    head: str
    pruned_records: int
    pruned_verdicts: int
    inputs: int
    inputs_deleted: int

    @property
    def sound(self) -> bool:
        """Whether the trail is as it was written."""
        return not self.reason


def anchor(store: AuditStore) -> tuple[int, bytes, int]:
    """Number, digest and rows of the last record that was pruned; of nothing at all in a whole chain."""
    header = store.header()
    try:
        digest = bytes.fromhex(header.get("anchor_digest", START.hex()))
        return int(header.get("anchor_seq", 0)), digest, int(header.get("anchor_row", 0))
    except ValueError:
        raise Damaged("the header names an anchor that is none") from None


def verified(store: AuditStore, seq: int, digest: bytes, rows: int) -> Iterator[Record]:
    """The records after ``seq``; the first that does not follow from the one before it is an error."""
    for record in store.records(seq):
        if record.seq != seq + 1:
            raise Damaged(f"records {seq + 1} to {record.seq - 1} are missing", seq=seq + 1)
        if record.entry.first_row != rows or not record.follows(digest):
            raise Damaged("it does not follow from the record before it", seq=record.seq)
        yield record
        seq, digest, rows = record.seq, record.digest, rows + record.entry.rows


def verify_trail(store: AuditStore, *, head: str | None = None, progress: Progress | None = None) -> Verification:
    """Verify a whole chain, from its first record or from the anchor of a pruned one.

    Parameters
    ----------
    store
        The audit trail; a service may go on writing to it.
    head
        Digest of an earlier last record, hex, which must be in the chain.
    progress
        Called with what is done, the steps so far and all steps.

    Returns
    -------
    Verification
        ``sound`` says whether the chain is whole; ``records`` counts its records.

    Examples
    --------
    >>> import tempfile
    >>> from caveat.serve import open_store
    >>> from caveat.serve.audit.record import Entry, chained
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/audit.sqlite")
    ...     first = chained(Entry("start", "2026-11-18T00:00:00.000Z", 0, 0, b"{}"), seq=1, previous=START)
    ...     store.append([first], {})
    ...     result = verify_trail(store, head=first.digest.hex())
    ...     store.close()
    >>> result.sound, result.records
    (True, 1)
    """
    with store.reading():
        return _Check(store, head, progress or (lambda what, done, steps: None)).run()


class _Check:
    def __init__(self, store: AuditStore, head: str | None, progress: Progress) -> None:
        self.store, self.wanted, self.progress = store, head, progress
        self.seq, self.digest, self.rows = 0, START, 0
        self.pruned = 0, 0
        self.records = self.labels = self.kept_labels = self.inputs = self.inputs_deleted = 0
        self.first_at = self.last_at = ""
        self.anchored: dict[str, Any] | None = None  # the newest record that states an anchor
        self.forgotten = self.missing_inputs = 0  # inputs deleted up to this record: as stated, as it is
        self.met = head is None

    def run(self) -> Verification:
        try:
            self.seq, self.digest, self.rows = anchor(self.store)
            self.pruned, self.met = (self.seq, self.rows), self.met or self.digest.hex() == str(self.wanted).lower()
            last = self.store.last()
            steps = 0 if last is None else last.seq - self.seq
            for record in verified(self.store, self.seq, self.digest, self.rows):
                self._take(record)
                if self.records % 256 == 0:
                    self.progress("verifying", self.records, steps)
            self._check_rest()
        except Damaged as damage:
            return self._result(damage.seq, damage.reason)
        except (ValueError, KeyError, TypeError) as error:  # a chain that somebody made anew can hold anything
            return self._result(self.seq + 1, f"its content cannot be read ({type(error).__name__})")
        return self._result(None, "")

    def _take(self, record: Record) -> None:
        entry = record.entry
        if entry.kind == "labels":
            self._take_labels(record)
        elif entry.kind == "prune":
            stated = orjson.loads(entry.body)
            if stated["what"] == "inputs":
                self.forgotten = max(self.forgotten, int(stated["until"]))
            else:
                self.anchored = stated
        if entry.inputs is not None:
            self.inputs += 1
        elif record.inputs_digest:
            self.inputs_deleted += 1
            self.missing_inputs = record.seq
        self.seq, self.digest, self.rows = record.seq, record.digest, self.rows + entry.rows
        self.records += 1
        self.first_at, self.last_at = self.first_at or entry.at, entry.at
        self.met = self.met or record.digest.hex() == str(self.wanted).lower()

    def _take_labels(self, record: Record) -> None:
        body = orjson.loads(record.entry.body)
        labels = {row: label for row, label in zip(body["row"], body["label"], strict=True) if row >= self.pruned[1]}
        if self.store.labels_of(list(labels)) != labels:
            raise Damaged("its labels are not those of the table of labels", seq=record.seq)
        self.kept_labels += len(labels)
        self.labels += len(body["row"])

    def _check_rest(self) -> None:
        """What is not chained must follow from what is."""
        until, rows = self.pruned
        if until:
            state = self.store.snapshot(until) if until in self.store.snapshots() else b""
            stated = self.anchored or {}
            facts = {"until": until, "rows": rows, "digest": anchor(self.store)[1].hex(),
                     "state_sha256": hashlib.sha256(state).hexdigest()}  # fmt: skip
            if any(stated.get(name) != fact for name, fact in facts.items()):
                raise Damaged(f"it begins after record {until}, and no record says that it was pruned there")
        elif self.anchored is not None:
            raise Damaged("a record says that it was pruned, and the header does not")
        if self.missing_inputs > self.forgotten:
            raise Damaged("its inputs are missing, and no record says that they were deleted", seq=self.missing_inputs)
        if self.store.count_labels() != self.kept_labels:
            raise Damaged("the table of labels holds labels that no record has")
        if any(seq > self.seq for seq in self.store.snapshots()):
            raise Damaged(f"records after {self.seq} are missing: a state was kept that followed from them")
        if not self.met:
            raise Damaged(f"no record has the digest {self.wanted}")

    def _result(self, seq: int | None, reason: str) -> Verification:
        return Verification(
            broken_at=seq, reason=reason, records=self.records, verdicts=self.rows - self.pruned[1],
            labels=self.labels, first_at=self.first_at, last_at=self.last_at, head=self.digest.hex(),
            pruned_records=self.pruned[0], pruned_verdicts=self.pruned[1], inputs=self.inputs,
            inputs_deleted=self.inputs_deleted,
        )  # fmt: skip
