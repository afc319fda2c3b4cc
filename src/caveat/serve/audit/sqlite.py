"""The audit trail in a SQLite file: write-ahead log, one writer, one transaction for all requests that wait.

``synchronous=NORMAL`` keeps what was committed when the process is killed; ``FULL`` (``durable=True``) also when the
power fails, at the price of one ``fsync`` a transaction.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from caveat._internal.files import path_errors
from caveat.errors import InputError, StoreError
from caveat.serve.audit.record import Entry, Record
from caveat.serve.audit.store import FORMAT, Cut, Damaged, check_format, held_records

__all__ = ["SqliteStore"]

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
_INSERT = "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_MAGIC = b"SQLite format 3\0"
_CHUNK = 500  # rows of one query
_WAIT = 5.0  # seconds for the lock of another connection, which holds it for a moment only


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
        if read_only:
            with path_errors(self.path, "read"):
                self.path.open("rb").close()
        else:
            self._lock = _locked(self.path)
        try:
            self._open(durable, read_only)
        except sqlite3.Error as error:
            self.close()
            raise InputError(f"{self.path} cannot be used as an audit file ({error}). Choose another file.") from None
        except BaseException:
            self.close()
            raise

    def _open(self, durable: bool, read_only: bool) -> None:
        if self.path.is_file():
            with path_errors(self.path, "read"), self.path.open("rb") as stream:
                start = stream.read(len(_MAGIC))
            if start not in (b"", _MAGIC):  # SQLite itself would write over a file of a few bytes
                raise InputError(f"{self.path} is not an audit file of Caveat. Choose another file.")
        elif not read_only:
            with path_errors(self.path):
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))  # verdicts are nobody else's business
        self._connection = self._connected("ro" if read_only else "rwc")
        try:
            tables = self._tables()
        except sqlite3.OperationalError:
            # The log of a stopped service is gone, and a folder without write access cannot get a new one.
            if not read_only or self.path.with_name(self.path.name + "-wal").exists():
                raise
            self._connection.close()
            self._connection = self._connected("ro&immutable=1")
            tables = self._tables()
        if not {"header", "records", "labels", "snapshots"} <= tables and (tables or read_only):
            raise InputError(f"{self.path} is not an audit file of Caveat. Choose another file.")
        if not read_only:  # nothing of a file of another program is changed before this line
            if not tables:
                self._run("PRAGMA auto_vacuum=INCREMENTAL")
            self._run("PRAGMA journal_mode=WAL")
            self._run(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        if not tables:
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._run(statement)
                self.set_header({"format": "caveat-audit", "version": FORMAT})
        check_format(self.header(), str(self.path))

    def _connected(self, mode: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT)

    def _tables(self) -> set[str]:
        lines = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in lines}

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], labels: Mapping[int, int]) -> None:
        with self._transaction():
            self._connection.executemany(_INSERT, map(_line, records))
            if labels:
                self._connection.executemany("INSERT INTO labels VALUES (?, ?)", labels.items())

    def set_header(self, values: Mapping[str, str]) -> None:
        with self._transaction():
            self._connection.executemany("INSERT OR REPLACE INTO header VALUES (?, ?)", list(values.items()))

    def save_snapshot(self, seq: int, state: bytes) -> None:
        with self._transaction():
            self._run("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", seq, state)
            self._run("DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2) "
                      "AND seq != ?", int(self.header().get("anchor_seq", 0)))  # fmt: skip

    def prune(self, cut: Cut, record: Record) -> None:
        with self._transaction():
            self._connection.execute(_INSERT, _line(record))
            self._run("DELETE FROM records WHERE seq <= ?", cut.until)
            self._run("DELETE FROM labels WHERE row < ?", cut.rows)
            self._run("DELETE FROM snapshots WHERE seq <= ?", cut.until)
            self._run("INSERT INTO snapshots VALUES (?, ?)", cut.until, cut.state)
            self.set_header({"anchor_seq": str(cut.until), "anchor_digest": cut.digest.hex(),
                             "anchor_row": str(cut.rows)})  # fmt: skip
        self._shrink()

    def forget_inputs(self, until: int, record: Record) -> None:
        with self._transaction():
            self._connection.execute(_INSERT, _line(record))
            self._run("UPDATE records SET inputs = NULL WHERE seq <= ? AND inputs IS NOT NULL", until)
        self._shrink()

    def _shrink(self) -> None:
        """Give the free pages back to the disk; where somebody reads, the file shrinks after them."""
        with _named_errors():
            self._connection.executescript("PRAGMA incremental_vacuum")  # execute() would stop after the first page
        self._run("PRAGMA busy_timeout=0")
        self._run("PRAGMA wal_checkpoint(TRUNCATE)")
        self._run(f"PRAGMA busy_timeout={_WAIT * 1000:.0f}")

    # -- reading ------------------------------------------------------------------------------------------------------

    def header(self) -> dict[str, str]:
        return dict(self._run("SELECT key, value FROM header"))

    def last(self) -> Record | None:
        lines = self._run(f"SELECT {_COLUMNS} FROM records ORDER BY seq DESC LIMIT 1")
        return _record(lines[0]) if lines else None

    def records(self, after: int = 0) -> Iterator[Record]:
        with _named_errors():
            cursor = self._connection.execute(f"SELECT {_COLUMNS} FROM records WHERE seq > ? ORDER BY seq", (after,))
            for line in cursor:
                yield _record(line)

    def holding(self, rows: Sequence[int]) -> list[Record]:
        query = (f"SELECT {_COLUMNS} FROM records WHERE rows > 0 AND first_row <= ? "
                 "ORDER BY first_row DESC LIMIT 1")  # fmt: skip
        return held_records(rows, lambda row: [_record(line) for line in self._run(query, row)])

    def labels_of(self, rows: Sequence[int]) -> dict[int, int]:
        labels: dict[int, int] = {}
        for start in range(0, len(rows), _CHUNK):
            part = rows[start : start + _CHUNK]
            marks = ", ".join("?" * len(part))
            labels |= dict(self._run(f"SELECT row, label FROM labels WHERE row IN ({marks})", *part))
        return labels

    def count_labels(self) -> int:
        return int(self._run("SELECT count(*) FROM labels")[0][0])

    def snapshots(self) -> list[int]:
        return [seq for (seq,) in self._run("SELECT seq FROM snapshots ORDER BY seq")]

    def snapshot(self, seq: int) -> bytes:
        state: bytes = self._run("SELECT state FROM snapshots WHERE seq = ?", seq)[0][0]
        return state

    @contextmanager
    def reading(self) -> Iterator[None]:
        self._run("BEGIN")
        try:
            self._run("SELECT count(*) FROM header")  # the first look fixes the moment
            yield
        finally:
            self._run("ROLLBACK")

    def reader(self) -> SqliteStore:
        return SqliteStore(self.path, read_only=True)

    def close(self) -> None:
        if hasattr(self, "_connection"):
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _run(self, statement: str, *values: Any) -> list[Any]:
        with _named_errors():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """BEGIN on entering, COMMIT or ROLLBACK on leaving; within another transaction it is a part of that one."""
        if self._connection.in_transaction:
            yield
            return
        with _named_errors():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(f"the audit file cannot be used now: {error}.") from error
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        raise Damaged(f"the file cannot be read ({error})") from error


def _line(record: Record) -> tuple[Any, ...]:
    entry = record.entry
    return (record.seq, entry.kind, entry.at, entry.first_row, entry.rows, entry.body, entry.inputs,
            record.inputs_digest, record.digest)  # fmt: skip


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
            f"{path} is being written by another service. Stop it, or give each service an audit file of its own."
        ) from None
    return handle
