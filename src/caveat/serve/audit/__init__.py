"""The audit trail: what was answered, in records that are chained by their digests."""

from __future__ import annotations

from caveat.errors import InputError, MissingExtraError
from caveat.serve.audit.store import AuditStore

__all__ = ["AuditStore", "open_store"]


def open_store(place: str, *, durable: bool = False, read_only: bool = False, chain: str = "main") -> AuditStore:
    """The store of an audit trail: a SQLite file, or a PostgreSQL database by its URL.

    Parameters
    ----------
    place
        Path, or ``postgresql://user@host/database``.
    durable
        Survive a power failure too, at the price of waiting for the disk. PostgreSQL always does.
    read_only
        Read while a service writes.
    chain
        Name of the chain in a database that several services share; a file is one chain.

    Returns
    -------
    AuditStore
        The open store; close it when done.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/audit.sqlite")
    ...     print(store.count_labels(), list(store.records()))
    ...     store.close()
    0 []
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        from caveat.serve.audit.sqlite import SqliteStore

        return SqliteStore(place, durable=durable, read_only=read_only)
    if scheme not in ("postgresql", "postgres"):
        raise InputError(f"the audit trail must be a file or a postgresql:// address, got {scheme}://.")
    try:
        from caveat.serve.audit.postgres import PostgresStore
    except ImportError:
        raise MissingExtraError("an audit trail in PostgreSQL", extra="postgres") from None
    return PostgresStore(place, read_only=read_only, chain=chain)
