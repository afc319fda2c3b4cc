"""AuditStore: where records are kept. SQLite and PostgreSQL do the same things and pass the same tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, final

from caveat.errors import InputError
from caveat.serve.audit.record import Record

__all__ = ["FORMAT", "AuditStore", "Cut", "Damaged", "check_format", "held_records"]

FORMAT = "2"  # of the tables and of the records


@final
class Damaged(InputError):
    """The audit trail is not as it was written.

    Parameters
    ----------
    reason
        What is wrong, as the end of a sentence.
    seq
        The first record that is wrong; None where it is not a record.
    """

    def __init__(self, reason: str, *, seq: int | None = None) -> None:
        where = "" if seq is None else f" at record {seq}"
        super().__init__(f"the audit trail is damaged{where}: {reason}. Keep it as evidence, and begin a new one.")
        self.reason, self.seq = reason, seq


@final
@dataclass(frozen=True)
class Cut:
    """Where the beginning of a chain is deleted.

    Parameters
    ----------
    until
        The last record that is deleted.
    digest
        Its digest, from which the rest is verified.
    rows
        Verdicts up to it; their labels are deleted too.
    state
        What follows from the records up to it; a replay starts here.
    """

    until: int
    digest: bytes
    rows: int
    state: bytes


class AuditStore(Protocol):
    """Keeps records in one chain. One thread of one process writes; others may read.

    What cannot be done now (a full disk, a lost connection) raises ``StoreError``; what is not as it was written
    raises ``Damaged``.
    """

    kind: str  # "sqlite" or "postgresql"

    def header(self) -> dict[str, str]:
        """What belongs to the whole chain: its name, the guard, the anchor of a pruned chain."""

    def set_header(self, values: Mapping[str, str]) -> None:
        """Write entries of the header, all of them or none."""

    def append(self, records: Sequence[Record], labels: Mapping[int, int]) -> None:
        """Write records and labels (row -> class) in one transaction; on return they survive ``kill -9``.

        After an error it is not known whether they were written: read the records again before the next call.
        """

    def last(self) -> Record | None:
        """The newest record."""

    def records(self, after: int = 0) -> Iterator[Record]:
        """Records whose number is above ``after``, in order; a few at a time in memory."""

    def holding(self, rows: Sequence[int]) -> list[Record]:
        """The records that hold these verdicts, each once, in order."""

    def labels_of(self, rows: Sequence[int]) -> dict[int, int]:
        """Labels that these rows have: row -> class."""

    def count_labels(self) -> int:
        """Number of rows that have a label."""

    def save_snapshot(self, seq: int, state: bytes, record: Record) -> None:
        """Keep the state after record ``seq`` and append the record that states its digest, in one transaction.

        Only the newest two states and that of the anchor stay.
        """

    def look_after(self) -> None:
        """Between requests: see whether the store is still there, and move what is new to where it stays."""

    def snapshots(self) -> list[int]:
        """The records after which a state was kept, in order."""

    def snapshot(self, seq: int) -> bytes:
        """The state after record ``seq``, which is one of ``snapshots()``."""

    def prune(self, cut: Cut, record: Record) -> None:
        """Delete what lies before the cut and append the record that says so, in one transaction."""

    def forget_inputs(self, until: int, record: Record) -> None:
        """Delete the inputs of records up to ``until`` and append the record that says so, in one transaction."""

    def reading(self) -> AbstractContextManager[None]:
        """Everything that is read within sees the chain as it was at one moment, while a service goes on writing."""

    def reader(self) -> AuditStore:
        """Another connection to the same chain, which only reads."""

    def close(self) -> None:
        """Let go of the store."""


def check_format(header: Mapping[str, str], place: str) -> None:
    """Refuse an audit trail of another version."""
    version = header.get("version")
    if version != FORMAT:
        raise InputError(f"{place} has version {version!r} of the audit format; this Caveat reads {FORMAT}. "
                         "Use the version of Caveat that wrote it.")  # fmt: skip


def held_records(rows: Sequence[int], find: Callable[[int], Sequence[Record]]) -> list[Record]:
    """The records that hold these verdicts; ``find`` gives the last record that begins at or before a row."""
    held: dict[int, Record] = {}
    end = -1  # rows below it are in the record that was read last
    for row in sorted(rows):
        if row >= end:
            for record in find(row):
                end = record.entry.first_row + record.entry.rows
                if row < end:
                    held[record.seq] = record
    return list(held.values())
