"""The audit trail in a SQLite file: write-ahead log, one writer, one transaction for all requests that wait.

``synchronous=NORMAL`` keeps what was committed when the process is killed; ``FULL`` (``durable=True``) also when the
power fails, at the price of one ``fsync`` a transaction.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from caveat._internal.files import path_errors
from caveat.errors import InputError
from caveat.serve.audit.record import Entry, Record

__all__ = ["SqliteStore"]

_FORMAT = "1"
_SCHEMA = """
CREATE TABLE header (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE records (
    seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, at TEXT NOT NULL, first_row INTEGER NOT NULL, rows INTEGER NOT NULL,
    body BLOB NOT NULL, inputs BLOB, inputs_sha256 BLOB NOT NULL, digest BLOB NOT NULL
) STRICT;
CREATE INDEX records_by_row ON records (first_row) WHERE rows > 0;
CREATE TABLE labels (row INTEGER PRIMARY KEY, label INTEGER NOT NULL) STRICT;
CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, state BLOB NOT NULL) STRICT;
"""
_COLUMNS = "seq, kind, at, first_row, rows, body, inputs, inputs_sha256, digest"
_CHUNK = 500  # rows of one query


@final
class SqliteStore:
    """An audit file.

    Parameters
    ----------
    path
        The file; made if it does not exist, unless ``read_only``.
    durable
        Wait for the disk at each transaction, so that a power failure loses nothing.
    read_only
        Read while a service writes. A writer takes a lock: two services cannot write the same file.
    """

    kind = "sqlite"

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, read_only: bool = False) -> None:
        self.path = Path(path)
        self._lock: int | None = None
        if read_only and not self.path.is_file():
            raise InputError(f"{self.path} does not exist. Check the path.")
        if not read_only:
            self._lock = _locked(self.path)
        try:
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}", uri=True,
                isolation_level=None, check_same_thread=False,
            )  # fmt: skip
            if not read_only:
                self._run("PRAGMA journal_mode=WAL")
                self._run(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            self._check_format(read_only)
        except sqlite3.Error as error:
            self.close()
            raise InputError(f"{self.path} cannot be used as an audit file ({error}). Choose another file.") from None
        except InputError:
            self.close()
            raise

    def _check_format(self, read_only: bool) -> None:
        tables = {name for (name,) in self._run("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and not read_only:
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._run(statement)
                self.set_header({"format": "caveat-audit", "version": _FORMAT})
        elif not {"header", "records", "labels", "snapshots"} <= tables:
            raise InputError(f"{self.path} is not an audit file of Caveat. Choose another file.")
        version = self.header().get("version")
        if version != _FORMAT:
            raise InputError(f"{self.path} has version {version!r} of the audit format; this Caveat reads {_FORMAT}.")

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], labels: Mapping[int, int]) -> None:
        lines = [(record.seq, entry.kind, entry.at, entry.first_row, entry.rows, entry.body, entry.inputs,
                  record.inputs_digest, record.digest) for record in records for entry in [record.entry]]  # fmt: skip
        with self._transaction():
            self._connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", lines)
            if labels:
                self._connection.executemany("INSERT INTO labels VALUES (?, ?)", labels.items())

    def set_header(self, values: Mapping[str, str]) -> None:
        self._connection.executemany("INSERT OR REPLACE INTO header VALUES (?, ?)", list(values.items()))

    def save_snapshot(self, seq: int, state: bytes) -> None:
        with self._transaction():
            self._run("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", seq, state)
            self._run("DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2) "
                      "AND seq != ?", int(self.header().get("anchor_seq", 0)))  # fmt: skip

    def prune(self, until: int, *, first_row: int, anchor: bytes, state: bytes) -> None:
        with self._transaction():
            self._run("DELETE FROM records WHERE seq <= ?", until)
            self._run("DELETE FROM labels WHERE row < ?", first_row)
            self._run("DELETE FROM snapshots WHERE seq < ?", until)
            self._run("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", until, state)
            self.set_header({"anchor_seq": str(until), "anchor_digest": anchor.hex(), "anchor_row": str(first_row)})

    # -- reading ------------------------------------------------------------------------------------------------------

    def header(self) -> dict[str, str]:
        return dict(self._run("SELECT key, value FROM header"))

    def last(self) -> Record | None:
        lines = self._run(f"SELECT {_COLUMNS} FROM records ORDER BY seq DESC LIMIT 1")
        return _record(lines[0]) if lines else None

    def records(self, after: int = 0) -> Iterator[Record]:
        cursor = self._connection.execute(f"SELECT {_COLUMNS} FROM records WHERE seq > ? ORDER BY seq", (after,))
        for line in cursor:
            yield _record(line)

    def holding(self, rows: Sequence[int]) -> list[Record]:
        query = (f"SELECT {_COLUMNS} FROM records WHERE rows > 0 AND first_row <= ? "
                 "ORDER BY first_row DESC LIMIT 1")  # fmt: skip
        held: dict[int, Record] = {}
        end = -1  # rows below it are in the record that was read last
        for row in sorted(rows):
            if row >= end:
                for line in self._run(query, row):
                    record = _record(line)
                    end = record.entry.first_row + record.entry.rows
                    if row < end:
                        held[record.seq] = record
        return list(held.values())

    def labels_of(self, rows: Sequence[int]) -> dict[int, int]:
        labels: dict[int, int] = {}
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            marks = ", ".join("?" * len(part))
            labels |= dict(self._run(f"SELECT row, label FROM labels WHERE row IN ({marks})", *part))
        return labels

    def snapshot(self, at: int | None = None) -> tuple[int, bytes] | None:
        lines = (self._run("SELECT seq, state FROM snapshots ORDER BY seq DESC LIMIT 1") if at is None
                 else self._run("SELECT seq, state FROM snapshots WHERE seq = ?", at))  # fmt: skip
        return (lines[0][0], lines[0][1]) if lines else None

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _run(self, statement: str, *values: Any) -> list[Any]:
        return self._connection.execute(statement, values).fetchall()

    def _transaction(self) -> _Transaction:
        return _Transaction(self._connection)


class _Transaction:
    """BEGIN on entering, COMMIT or ROLLBACK on leaving."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._connection.execute("COMMIT" if kind is None else "ROLLBACK")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def _record(line: Sequence[Any]) -> Record:
    seq, kind, at, first_row, rows, body, inputs, inputs_digest, digest = line
    return Record(seq, Entry(kind, at, first_row, rows, body, inputs), inputs_digest, digest)


def _locked(path: Path) -> int:
    """Lock of the writer: released by the system when the process ends, however it ends."""
    lock = path.with_name(path.name + ".lock")
    with path_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise InputError(
            f"{path} is being written by another service. Give each service an audit file of its own."
        ) from None
    return handle
