"""The audit trail in a SQLite file: write-ahead log, one writer, one transaction for all requests that wait.

``synchronous=NORMAL`` keeps what was committed when the process is killed; ``FULL`` (``durable=True``) also when the
power fails, at the price of one ``fsync`` a transaction. What is in the log is moved into the file every second, so
that the file is nearly whole whatever happens to the log; ``Place`` watches that both keep their names.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

from caveat.errors import InputError, StoreError
from caveat.serve.audit.place import LOG, WRITTEN, Place, identity, resolved
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
        self.path, self.durable = resolved(path, read_only=read_only), durable
        self._open_connection: sqlite3.Connection | None = None
        self._place: Place | None = None
        try:
            self._place = None if read_only else Place(self.path)
            self._demand_own_log()
            self._open(read_only)
        except sqlite3.Error as error:
            self.close()
            raise InputError(f"{self.path} cannot be used as an audit file ({error}). Choose another file.") from None
        except BaseException:
            self.close()
            raise

    def _open(self, read_only: bool) -> None:
        self._open_connection = self._connected("ro" if read_only else "rw")
        try:
            tables = self._tables()
        except sqlite3.OperationalError:
            # The log of a stopped service is gone, and a folder without write access cannot get a new one.
            if not read_only or self.path.with_name(self.path.name + LOG).exists():
                raise
            self._open_connection.close()
            self._open_connection = self._connected("ro&immutable=1")
            tables = self._tables()
        if tables != {"header", "records", "labels", "snapshots"} and (tables or read_only):
            raise InputError(f"{self.path} is not an audit file of Caveat. Choose another file.")
        if not read_only:  # nothing of a file of another program is changed before this line
            if not tables:
                self._run("PRAGMA auto_vacuum=INCREMENTAL")
            self._run("PRAGMA journal_mode=WAL")
            self._run(f"PRAGMA synchronous={'FULL' if self.durable else 'NORMAL'}")
        if not tables:
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._run(statement)
                self.set_header({"format": "caveat-audit", "version": FORMAT})
        check_format(self.header(), str(self.path))
        if self._place is not None:
            with _named_errors():
                self._connection.executescript("BEGIN IMMEDIATE; COMMIT")  # makes the log, where there is none
            self._place.settle()

    def _demand_own_log(self) -> None:
        """A log beside a file that replaced another one belongs to the other: SQLite would write it over this one."""
        log = self.path.with_name(self.path.name + LOG)
        if (self._place is None and identity(self.path) in WRITTEN) or not log.exists() or not log.stat().st_size:
            return
        alone, together = self._chain("ro&immutable=1"), self._chain("ro")
        if alone and together and alone != together:
            raise Damaged(f"{self.path.name} holds the chain {alone}, and {log.name} beside it does not belong to it: "
                          "the file was replaced")  # fmt: skip

    def _chain(self, mode: str) -> str:
        """The name of the chain; empty where there is none, "?" where pages do not go together."""
        connection = self._connected(mode)
        try:
            return str(dict(connection.execute("SELECT key, value FROM header")).get("chain", ""))
        except sqlite3.OperationalError:  # just begun, or somebody else's: found elsewhere
            return ""
        except sqlite3.DatabaseError:  # without the log: a checkpoint that was not finished
            return "" if "immutable" in mode else "?"
        finally:
            connection.close()

    @property
    def _connection(self) -> sqlite3.Connection:
        """The connection; opened again where the file had lost its name and has it back."""
        if self._open_connection is None:
            if self._place is None:
                raise StoreError("the audit file is closed.")
            self._place.check()
            try:
                with _named_errors():
                    self._open(read_only=False)
            except BaseException:
                self._close_connection()
                raise
        assert self._open_connection is not None
        return self._open_connection

    def _connected(self, mode: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        return sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=_WAIT)

    def _tables(self) -> set[str]:
        # a trigger would change records while they are written, a view could stand in for them
        lines = self._connection.execute("SELECT name FROM sqlite_master WHERE type != 'index'")
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

    def save_snapshot(self, seq: int, state: bytes, record: Record) -> None:
        with self._transaction():
            self._connection.execute(_INSERT, _line(record))
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
        self._checkpoint("TRUNCATE")

    def look_after(self) -> None:
        if self._place is not None:
            self._checkpoint("PASSIVE")
            self._demand_place()

    def _checkpoint(self, how: str) -> bool:
        """Move what is in the log into the file, waiting for nobody; whether all of it is there."""
        self._run("PRAGMA busy_timeout=0")
        busy, frames, moved = self._run(f"PRAGMA wal_checkpoint({how})")[0]
        self._run(f"PRAGMA busy_timeout={_WAIT * 1000:.0f}")
        return not busy and frames == moved

    def _demand_place(self) -> None:
        """After each commit: is the file where a restart will find it? If not, it gets all records and is let go."""
        assert self._place is not None
        try:
            self._place.check()
        except StoreError:
            if self._checkpoint("TRUNCATE"):  # where somebody still reads, the next attempt does it
                self._close_connection()
                self._place.let_go_of_log()
                self._place.rescue()
            raise

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
        self._close_connection()
        if self._place is not None:
            self._place.release()
            self._place = None

    def _close_connection(self) -> None:
        if self._open_connection is not None:
            self._open_connection.close()
            self._open_connection = None

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
            if self._place is not None:
                self._demand_place()


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
