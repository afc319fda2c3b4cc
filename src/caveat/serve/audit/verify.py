"""Verify: does every record follow from the one before it?

A chain proves that nothing in it was changed, removed or moved after it was written, as long as one digest of it is
known from elsewhere: who can rewrite the whole file can make a new chain. ``head=`` takes such a digest, ``heads=`` all
heads that the service published. What readers see beside the records (the kept states, the header, the table of labels)
follows from the chain too: records state the digests of states, and the first record follows from the header.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, final

import orjson

from caveat.serve.audit.heads import Head
from caveat.serve.audit.merkle import Tree
from caveat.serve.audit.record import START, Record, genesis
from caveat.serve.audit.store import AuditStore, Damaged

__all__ = ["Verification", "anchor", "base_tree", "stated_digest", "verified", "verify_trail"]

_READ = 1000  # records of one look: a writer can move what is new into the file between two
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
    states
        Kept states whose digests are stated in the chain.
    heads
        Published heads that were compared.
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
    states: int
    heads: int

    @property
    def sound(self) -> bool:
        """Whether the trail is as it was written."""
        return not self.reason


def anchor(store: AuditStore) -> tuple[int, bytes, int]:
    """Number, digest and rows of the last record that was pruned; of nothing at all in a whole chain."""
    header = store.header()
    try:
        digest = bytes.fromhex(header.get("anchor_digest", genesis(header).hex()))
        return int(header.get("anchor_seq", 0)), digest, int(header.get("anchor_row", 0))
    except ValueError:
        raise Damaged("the header names an anchor that is none") from None


def base_tree(store: AuditStore) -> Tree:
    """The tree over the pruned records; empty in a whole chain."""
    first = anchor(store)[0]
    if not first:
        return Tree()
    try:
        tree = Tree().restore(json.loads(store.snapshot(first))["tree"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise Damaged(f"the state after record {first}, where it was pruned, cannot be read") from None
    if tree.size != first:
        raise Damaged(f"the state after record {first}, where it was pruned, belongs to record {tree.size}")
    return tree


def stated_digest(store: AuditStore, seq: int) -> str:
    """The digest of the state after record ``seq``, as the chain states it; empty where it does not."""
    names = {"state": ("after", "sha256"), "prune": ("until", "state_sha256")}
    for record in store.records(seq):
        if record.entry.kind in names:
            place, digest = names[record.entry.kind]
            with suppress(ValueError, AttributeError):  # content that no service writes is found elsewhere
                facts = json.loads(record.entry.body)
                if facts.get(place) == seq and digest in facts:
                    return str(facts[digest])
    return ""


def verified(store: AuditStore, seq: int, digest: bytes, rows: int) -> Iterator[Record]:
    """The records after ``seq``; the first that does not follow from the one before it is an error."""
    for record in store.records(seq):
        if record.seq != seq + 1:
            raise Damaged(f"records {seq + 1} to {record.seq - 1} are missing", seq=seq + 1)
        if record.entry.first_row != rows or not record.follows(digest):
            raise Damaged("it does not follow from the record before it", seq=record.seq)
        yield record
        seq, digest, rows = record.seq, record.digest, rows + record.entry.rows


def verify_trail(
    store: AuditStore, *, head: str | None = None, heads: Sequence[Head] = (), progress: Progress | None = None,
) -> Verification:  # fmt: skip
    """Verify a whole chain, from its first record or from the anchor of a pruned one.

    Parameters
    ----------
    store
        The audit trail; a service may go on writing to it.
    head
        Digest of an earlier last record, hex, which must be in the chain.
    heads
        Published heads, as ``read_heads`` gives them: each must be that of this chain after so many records. Those of
        records that were pruned cannot be compared; one at least must be.
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
    tell = progress or (lambda what, done, steps: None)
    while (result := _Check(store, head, heads, tell).run()) is None:  # it was pruned meanwhile
        pass
    return result


class _Check:
    def __init__(self, store: AuditStore, head: str | None, heads: Sequence[Head], progress: Progress) -> None:
        self.store, self.wanted, self.progress = store, head, progress
        self.seq, self.digest, self.rows = 0, START, 0
        self.pruned = 0, 0
        self.records = self.labels = self.kept_labels = self.inputs = self.inputs_deleted = 0
        self.first_at = self.last_at = ""
        self.anchored: dict[str, Any] | None = None  # the newest record that states an anchor
        self.forgotten = self.missing_inputs = 0  # inputs deleted up to this record: as stated, as it is
        self.met = head is None
        self.states: dict[int, str] = {}  # record after which a state was kept -> its digest
        self.kept_states = self.compared = 0
        self.heads: dict[int, list[Head]] = {}
        for each in heads:
            self.heads.setdefault(each.records, []).append(each)
        self.tree = Tree()

    def run(self) -> Verification | None:
        """What is found; None where the beginning was deleted while it was read."""
        try:
            with self.store.reading():
                base = self.seq, self.digest, self.rows = anchor(self.store)
                last = self.store.last()
                if self.heads:
                    self.tree = base_tree(self.store)
                    self._compare_heads()
            self.pruned, self.met = (self.seq, self.rows), self.met or self.digest.hex() == str(self.wanted).lower()
            steps, done = 0 if last is None else last.seq - self.seq, False
            while not done:
                with self.store.reading():
                    if anchor(self.store) != base:
                        return None
                    before = self.records
                    for record in islice(verified(self.store, self.seq, self.digest, self.rows), _READ):
                        self._take(record)
                    done = self.records - before < _READ
                    if done:
                        self._check_rest()
                self.progress("verifying", self.records, steps)
        except Damaged as damage:
            return self._result(damage.seq, damage.reason)
        except (ValueError, KeyError, TypeError) as error:  # a chain that somebody made anew can hold anything
            return self._result(self.seq + 1, f"its content cannot be read ({type(error).__name__})")
        return self._result(None, "")

    def _take(self, record: Record) -> None:
        entry = record.entry
        if entry.kind == "labels":
            self._take_labels(record)
        elif entry.kind == "state":
            stated = orjson.loads(entry.body)
            self.states[int(stated["after"])] = stated["sha256"]
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
        if self.heads:
            self.tree.add(record.digest)
            self._compare_heads()

    def _compare_heads(self) -> None:
        """The heads that were published after so many records as were read must be those of this chain."""
        for head in self.heads.get(self.seq, ()) if self.seq else ():
            if (head.digest, head.root) != (self.digest.hex(), self.tree.root().hex()):
                raise Damaged(f"the head that was published at {head.at} after so many records is another one",
                              seq=self.seq)  # fmt: skip
            self.compared += 1

    def _take_labels(self, record: Record) -> None:
        body = orjson.loads(record.entry.body)
        labels = {row: label for row, label in zip(body["row"], body["label"], strict=True) if row >= self.pruned[1]}
        if self.store.labels_of(list(labels)) != labels:
            raise Damaged("its labels are not those of the table of labels", seq=record.seq)
        self.kept_labels += len(labels)
        self.labels += len(body["row"])

    def _check_rest(self) -> None:
        """What is not chained must follow from what is."""
        self._check_states()
        self._check_heads()
        until, rows = self.pruned
        if until:
            state = self.store.snapshot(until) if until in self.store.snapshots() else b""
            stated = self.anchored or {}
            facts = {"until": until, "rows": rows, "digest": anchor(self.store)[1].hex(),
                     "state_sha256": hashlib.sha256(state).hexdigest(),
                     "begun": genesis(self.store.header()).hex()}  # fmt: skip
            if any(stated.get(name) != fact for name, fact in facts.items()):
                raise Damaged(f"it begins after record {until}, and no record says that it was pruned there, with this "
                              "header and this state")  # fmt: skip
        elif self.anchored is not None:
            raise Damaged("a record says that it was pruned, and the header does not")
        if self.missing_inputs > self.forgotten:
            raise Damaged("its inputs are missing, and no record says that they were deleted", seq=self.missing_inputs)
        if self.store.count_labels() != self.kept_labels:
            raise Damaged("the table of labels holds labels that no record has")
        if not self.met:
            raise Damaged(f"no record has the digest {self.wanted}")

    def _check_states(self) -> None:
        """The states are those whose digests records state, and the newest two of them are kept."""
        kept = self.store.snapshots()
        if any(seq > self.seq for seq in kept):
            raise Damaged(f"records after {self.seq} are missing: a state was kept that followed from them")
        for seq in kept:
            if seq != self.pruned[0] or not seq:
                if self.states.get(seq) != hashlib.sha256(self.store.snapshot(seq)).hexdigest():
                    raise Damaged(f"the state after record {seq} is not the one that was kept")
                self.kept_states += 1
        missing = set(sorted(seq for seq in self.states if seq > self.pruned[0])[-2:]) - set(kept)
        if missing:
            raise Damaged(f"the state after record {max(missing)} is missing, and a record says that it was kept")

    def _check_heads(self) -> None:
        """No head is of records that are missing, or of another chain."""
        begun = genesis(self.store.header()).hex()
        for head in (head for heads in self.heads.values() for head in heads):
            if head.begun != begun:
                raise Damaged(f"the head that was published at {head.at} belongs to the chain {head.chain}, which was "
                              "begun otherwise")  # fmt: skip
            if head.records > self.seq:
                raise Damaged(f"records after {self.seq} are missing: a head was published after {head.records}")
        if self.heads and not self.compared:
            raise Damaged("no published head can be compared: all are of records that were pruned")

    def _result(self, seq: int | None, reason: str) -> Verification:
        return Verification(
            broken_at=seq, reason=reason, records=self.records, verdicts=self.rows - self.pruned[1],
            labels=self.labels, first_at=self.first_at, last_at=self.last_at, head=self.digest.hex(),
            pruned_records=self.pruned[0], pruned_verdicts=self.pruned[1], inputs=self.inputs,
            inputs_deleted=self.inputs_deleted, states=self.kept_states, heads=self.compared,
        )  # fmt: skip
