"""Record: one line of the audit trail, chained to the one before it.

Each record carries the digest $h_k = \\mathrm{sha256}(h_{k-1} \\| row_k)$ of the chain so far, so that a record that
is changed, removed or moved breaks every digest after it. ``row_k`` has the digests of body and inputs in place of the
bytes: inputs can be deleted later and the chain still verifies.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

__all__ = ["BOUND", "START", "Entry", "Kind", "Record", "chained", "genesis"]

Kind = Literal["start", "verdicts", "labels", "state", "prune", "stop"]
START = bytes(32)  # digest before the first record of a chain without a name
BOUND = ("chain", "guard", "alpha", "labels")  # entries of the header that cannot change


@final
@dataclass(frozen=True, slots=True)
class Entry:
    """What is to be recorded.

    Parameters
    ----------
    kind
        ``"verdicts"``, ``"labels"``, or ``"start"``, ``"stop"``, ``"state"`` and ``"prune"`` of the service itself.
    at
        Time, UTC, as ``2026-11-18T03:20:40.123Z``.
    first_row
        Number of its first verdict: rows before it.
    rows
        Number of its verdicts.
    body
        Content as canonical JSON.
    inputs
        What the client sent, as ``.npz`` bytes, where inputs are kept; else None.
    """

    kind: Kind
    at: str
    first_row: int
    rows: int
    body: bytes
    inputs: bytes | None = None


@final
@dataclass(frozen=True, slots=True)
class Record:
    """An entry with its place in the chain. ``inputs_digest`` is empty where no inputs were kept."""

    seq: int
    entry: Entry
    inputs_digest: bytes
    digest: bytes

    def follows(self, previous: bytes) -> bool:
        """Whether the digest is that of this content after ``previous``."""
        inputs = self.entry.inputs
        if inputs is not None and hashlib.sha256(inputs).digest() != self.inputs_digest:
            return False
        return _digest(previous, self.seq, self.entry, self.inputs_digest) == self.digest

    @classmethod
    def made(cls, entry: Entry, *, seq: int, previous: bytes, inputs_digest: bytes) -> Record:
        """The record of an entry after ``previous``, whose inputs are known by their digest alone."""
        return cls(seq, entry, inputs_digest, _digest(previous, seq, entry, inputs_digest))


def chained(entry: Entry, *, seq: int, previous: bytes) -> Record:
    """The record of an entry after the record whose digest is ``previous``.

    >>> first = chained(Entry("start", "2026-11-18T00:00:00.000Z", 0, 0, b"{}"), seq=1, previous=START)
    >>> first.follows(START), first.follows(first.digest)
    (True, False)
    """
    inputs_digest = b"" if entry.inputs is None else hashlib.sha256(entry.inputs).digest()
    return Record.made(entry, seq=seq, previous=previous, inputs_digest=inputs_digest)


def genesis(header: Mapping[str, str]) -> bytes:
    """The digest before the first record: that of the entries of the header that cannot change.

    >>> genesis({}) == START, genesis({"chain": "a"}) == genesis({"chain": "b"})
    (True, False)
    """
    bound = {name: header[name] for name in BOUND if name in header}
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).digest() if bound else START


def _digest(previous: bytes, seq: int, entry: Entry, inputs_digest: bytes) -> bytes:
    row = f"{seq}|{entry.kind}|{entry.at}|{entry.first_row}|{entry.rows}|".encode()
    return hashlib.sha256(previous + row + hashlib.sha256(entry.body).digest() + inputs_digest).digest()
