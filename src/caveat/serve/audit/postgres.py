"""The audit trail in PostgreSQL: several services share a database, each with a chain of its own.

A session advisory lock keeps two writers off one chain. The server holds it as long as the connection that took it:
after a lost connection the lock, and with it the right to write, is taken again before the chain is read again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from caveat.errors import InputError, StoreError
from caveat.serve.audit.record import Entry, Record
from caveat.serve.audit.store import FORMAT, Cut, check_format, held_records

__all__ = ["PostgresStore"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS caveat_header (
    chain TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (chain, key)
);
CREATE TABLE IF NOT EXISTS caveat_records (
    chain TEXT NOT NULL, seq BIGINT NOT NULL, kind TEXT NOT NULL, at TEXT NOT NULL, first_row BIGINT NOT NULL,
    rows BIGINT NOT NULL, body BYTEA NOT NULL, inputs BYTEA, inputs_sha256 BYTEA NOT NULL, digest BYTEA NOT NULL,
    PRIMARY KEY (chain, seq)
);
CREATE UNIQUE INDEX IF NOT EXISTS caveat_records_by_row ON caveat_records (chain, first_row) WHERE rows > 0;
CREATE TABLE IF NOT EXISTS caveat_labels (
    chain TEXT NOT NULL, row BIGINT NOT NULL, label BIGINT NOT NULL, PRIMARY KEY (chain, row)
);
CREATE TABLE IF NOT EXISTS caveat_snapshots (
    chain TEXT NOT NULL, seq BIGINT NOT NULL, state BYTEA NOT NULL, PRIMARY KEY (chain, seq)
);
"""
_COLUMNS = "seq, kind, at, first_row, rows, body, inputs, inputs_sha256, digest"
_INSERT = f"INSERT INTO caveat_records (chain, {_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
_SIZES = """
SELECT seq, octet_length(body) + coalesce(octet_length(inputs), 0) FROM caveat_records
WHERE chain = %s AND seq > %s ORDER BY seq LIMIT 1000
"""
_PAGE = 4 * 2**20  # bytes of records in memory, or one record
_CONNECT_SECONDS, _STATEMENT_SECONDS, _PRUNE_SECONDS = 10, 30, 3600
_LOCK_SECONDS = 5  # in which the server notices that a killed service is gone
_LONGEST = 100  # signs of the name of a chain
_DEFAULTS = {  # a dead network is noticed in half a minute, also by the server, which then frees the lock
    "connect_timeout": _CONNECT_SECONDS, "application_name": "caveat-audit", "keepalives_idle": 10,
    "keepalives_interval": 5, "keepalives_count": 4,
}  # fmt: skip
_SESSION = f"""
SELECT set_config('statement_timeout', '{_STATEMENT_SECONDS}s', false),
       set_config('idle_in_transaction_session_timeout', '0', false),
       set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '4', false),
       CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END
"""


@final
class PostgresStore:
    """One chain of a PostgreSQL database. The tables are made on first use.

    Parameters
    ----------
    url
        ``postgresql://user@host/database``, with everything else that libpq reads (``?sslmode=verify-full``).
    chain
        Name of the chain. Services that share a database write chains of different names.
    read_only
        Read while a service writes.
    """

    kind = "postgresql"

    def __init__(self, url: str, *, chain: str = "main", read_only: bool = False) -> None:
        if not chain or len(chain) > _LONGEST or not chain.isprintable():
            raise InputError(f"the name of a chain must have 1 to {_LONGEST} printable signs, got {chain!r}.")
        self.chain, self._url, self._read_only = chain, url, read_only
        try:
            self._options: dict[str, Any] = _DEFAULTS | conninfo_to_dict(url)
            self._connect(patience=_LOCK_SECONDS)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[0][:300]
            raise InputError(f"the audit database cannot be used ({reason}). Check the address.") from None
        try:
            check_format(self.header(), f"the chain {chain!r}")
        except BaseException:
            self.close()
            raise

    def _connect(self, *, patience: float = 0.0) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(**self._options, autocommit=True)
        try:
            self._run(_SESSION)
            if self._read_only:
                self._run("SET default_transaction_read_only = on")
                self._demand_chain()
            else:
                self._lock(patience)
                self._begin()
        except BaseException:
            self._connection.close()
            raise

    def _demand_chain(self) -> None:
        if self._lines("SELECT to_regclass('caveat_header')::text")[0][0] is None:
            raise InputError("the database holds no audit trail of Caveat. Check the address.")
        names = [name for (name,) in self._lines("SELECT DISTINCT chain FROM caveat_header ORDER BY chain")]
        if self.chain not in names:
            shown = ", ".join(map(repr, names)) or "none"
            raise InputError(f"the database has no chain {self.chain!r}; it has {shown}. "
                             "Name one: --chain.")  # fmt: skip

    def _lock(self, patience: float) -> None:
        """The right to write this chain, until the connection ends."""
        schema = self._lines("SELECT current_schema()")[0][0]
        digest = hashlib.sha256(f"caveat audit {schema} {self.chain}".encode()).digest()
        key, end = int.from_bytes(digest[:8], "big", signed=True), time.monotonic() + patience
        while not self._lines("SELECT pg_try_advisory_lock(%s)", key)[0][0]:
            if time.monotonic() >= end:
                raise StoreError(f"the chain {self.chain!r} is being written by another service. Stop it, or give each "
                                 "service a chain of its own: --chain.")  # fmt: skip
            time.sleep(0.05)

    def _begin(self) -> None:
        with self._connection.transaction():
            self._run("SELECT pg_advisory_xact_lock(hashtext('caveat audit tables'))")  # several services start at once
            self._run(_SCHEMA)
            self._many("INSERT INTO caveat_header VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                       [(self.chain, "format", "caveat-audit"), (self.chain, "version", FORMAT)])  # fmt: skip

    # -- writing ------------------------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record], labels: Mapping[int, int]) -> None:
        with self._writing():
            self._many(_INSERT, [self._line(record) for record in records])
            if labels:
                self._many("INSERT INTO caveat_labels VALUES (%s, %s, %s)",
                           [(self.chain, row, label) for row, label in labels.items()])  # fmt: skip

    def set_header(self, values: Mapping[str, str]) -> None:
        with self._writing():
            self._set_header(values)

    def _set_header(self, values: Mapping[str, str]) -> None:
        self._many("INSERT INTO caveat_header VALUES (%s, %s, %s) ON CONFLICT (chain, key) DO UPDATE SET value = "
                   "excluded.value", [(self.chain, key, value) for key, value in values.items()])  # fmt: skip

    def look_after(self) -> None:
        """The server looks after its files; a lost connection is noticed before the next request."""
        with self._named_errors():
            self._run("SELECT 1")

    def save_snapshot(self, seq: int, state: bytes, record: Record) -> None:
        anchor = int(self.header().get("anchor_seq", 0))
        with self._writing():
            self._many(_INSERT, [self._line(record)])
            self._run("INSERT INTO caveat_snapshots VALUES (%s, %s, %s) ON CONFLICT (chain, seq) DO UPDATE SET state = "
                      "excluded.state", self.chain, seq, state)  # fmt: skip
            self._run("DELETE FROM caveat_snapshots WHERE chain = %s AND seq != %s AND seq NOT IN (SELECT seq FROM "
                      "caveat_snapshots WHERE chain = %s ORDER BY seq DESC LIMIT 2)",
                      self.chain, anchor, self.chain)  # fmt: skip

    def prune(self, cut: Cut, record: Record) -> None:
        with self._writing(seconds=_PRUNE_SECONDS):
            self._many(_INSERT, [self._line(record)])
            for table, column, place in (("records", "seq <=", cut.until), ("labels", "row <", cut.rows),
                                         ("snapshots", "seq <=", cut.until)):  # fmt: skip
                self._run(f"DELETE FROM caveat_{table} WHERE chain = %s AND {column} %s", self.chain, place)
            self._run("INSERT INTO caveat_snapshots VALUES (%s, %s, %s)", self.chain, cut.until, cut.state)
            self._set_header({"anchor_seq": str(cut.until), "anchor_digest": cut.digest.hex(),
                              "anchor_row": str(cut.rows)})  # fmt: skip

    def forget_inputs(self, until: int, record: Record) -> None:
        with self._writing(seconds=_PRUNE_SECONDS):
            self._many(_INSERT, [self._line(record)])
            self._run("UPDATE caveat_records SET inputs = NULL WHERE chain = %s AND seq <= %s AND inputs IS NOT NULL",
                      self.chain, until)  # fmt: skip

    @contextmanager
    def _writing(self, *, seconds: int | None = None) -> Iterator[None]:
        """One transaction of the connection that holds the lock: a new connection must read the chain first."""
        with self._named_errors(), self._connection.pipeline(), self._connection.transaction():
            if seconds is not None:
                self._run(f"SET LOCAL statement_timeout = '{seconds}s'")
            yield

    # -- reading ------------------------------------------------------------------------------------------------------

    def header(self) -> dict[str, str]:
        return dict(self._lines("SELECT key, value FROM caveat_header WHERE chain = %s", self.chain))

    def last(self) -> Record | None:
        lines = self._lines(
            f"SELECT {_COLUMNS} FROM caveat_records WHERE chain = %s ORDER BY seq DESC LIMIT 1", self.chain
        )
        return _record(lines[0]) if lines else None

    def records(self, after: int = 0) -> Iterator[Record]:
        query = f"SELECT {_COLUMNS} FROM caveat_records WHERE chain = %s AND seq > %s AND seq <= %s ORDER BY seq"
        self._connect_again()
        while sizes := self._lines(_SIZES, self.chain, after):
            page = 0
            for i, (seq, size) in enumerate(sizes):  # records up to the size of a page, at least one
                page += size
                if page >= _PAGE or i == len(sizes) - 1:
                    for line in self._lines(query, self.chain, after, seq):
                        yield _record(line)
                    after, page = seq, 0

    def holding(self, rows: Sequence[int]) -> list[Record]:
        query = (f"SELECT {_COLUMNS} FROM caveat_records WHERE chain = %s AND rows > 0 AND first_row <= %s "
                 "ORDER BY first_row DESC LIMIT 1")  # fmt: skip
        return held_records(rows, lambda row: [_record(line) for line in self._lines(query, self.chain, row)])

    def labels_of(self, rows: Sequence[int]) -> dict[int, int]:
        return dict(self._lines("SELECT row, label FROM caveat_labels WHERE chain = %s AND row = ANY(%s)",
                                self.chain, list(rows)))  # fmt: skip

    def count_labels(self) -> int:
        return int(self._lines("SELECT count(*) FROM caveat_labels WHERE chain = %s", self.chain)[0][0])

    def snapshots(self) -> list[int]:
        return [
            seq for (seq,) in self._lines("SELECT seq FROM caveat_snapshots WHERE chain = %s ORDER BY seq", self.chain)
        ]

    def snapshot(self, seq: int) -> bytes:
        return bytes(self._lines("SELECT state FROM caveat_snapshots WHERE chain = %s AND seq = %s",
                                 self.chain, seq)[0][0])  # fmt: skip

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._named_errors(), self._connection.transaction():
            self._run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield

    def reader(self) -> PostgresStore:
        return PostgresStore(self._url, chain=self.chain, read_only=True)

    def close(self) -> None:
        self._connection.close()

    def _connect_again(self) -> None:
        """After a lost connection. Only where records are read: a writer must see what was written in between."""
        if self._connection.closed:
            with self._named_errors():
                self._connect()

    def _lines(self, query: str, *values: Any) -> list[Any]:
        with self._named_errors():
            return self._connection.execute(query, values).fetchall()

    def _run(self, query: str, *values: Any) -> None:
        self._connection.execute(query, values)

    def _many(self, query: str, lines: Sequence[Sequence[Any]]) -> None:
        self._connection.cursor().executemany(query, lines)

    def _line(self, record: Record) -> tuple[Any, ...]:
        entry = record.entry
        return (self.chain, record.seq, entry.kind, entry.at, entry.first_row, entry.rows, entry.body, entry.inputs,
                record.inputs_digest, record.digest)  # fmt: skip

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if self._connection.broken:
                self._connection.close()
            raise StoreError(f"the audit database cannot be used now: {_reason(error)}.") from error


def _reason(error: psycopg.Error) -> str:
    """Why, in a few words that clients may read: what libpq says of connections names hosts and users."""
    if error.sqlstate is None or isinstance(error, psycopg.errors.AdminShutdown):
        return "no connection"
    return str(error).strip().splitlines()[0][:200].rstrip(".")


def _record(line: Sequence[Any]) -> Record:
    seq, kind, at, first_row, rows, body, inputs, inputs_digest, digest = line
    return Record(seq, Entry(kind, at, first_row, rows, bytes(body), None if inputs is None else bytes(inputs)),
                  bytes(inputs_digest), bytes(digest))  # fmt: skip
