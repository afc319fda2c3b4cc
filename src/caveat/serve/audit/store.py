"""AuditStore: where records are kept. SQLite and PostgreSQL do the same eleven things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from caveat.serve.audit.record import Record

__all__ = ["AuditStore"]


class AuditStore(Protocol):
    """Keeps records in one chain. One thread of one process writes; others may read."""

    kind: str  # "sqlite" or "postgresql"

    def header(self) -> dict[str, str]:
        """What belongs to the whole chain: its name, the guard, the anchor of a pruned chain."""

    def set_header(self, values: Mapping[str, str]) -> None:
        """Write entries of the header."""

    def append(self, records: Sequence[Record], labels: Mapping[int, int]) -> None:
        """Write records and labels (row -> class) in one transaction; on return they survive ``kill -9``."""

    def last(self) -> Record | None:
        """The newest record."""

    def records(self, after: int = 0) -> Iterator[Record]:
        """Records whose number is above ``after``, in order; a few at a time in memory."""

    def holding(self, rows: Sequence[int]) -> list[Record]:
        """The records that hold these verdicts, each once, in order."""

    def labels_of(self, rows: Sequence[int]) -> dict[int, int]:
        """Labels that these rows have: row -> class."""

    def save_snapshot(self, seq: int, state: bytes) -> None:
        """Keep the state after record ``seq``; only the newest two and that of the anchor stay."""

    def snapshot(self, at: int | None = None) -> tuple[int, bytes] | None:
        """The newest state and the record after which it was taken, or that of record ``at``."""

    def prune(self, until: int, *, first_row: int, anchor: bytes, state: bytes) -> None:
        """Delete the records up to ``until`` and labels of rows below ``first_row``, in one transaction.

        ``anchor`` is the digest of record ``until``, ``state`` the state after it.
        """

    def close(self) -> None:
        """Let go of the store."""
