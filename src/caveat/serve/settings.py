"""Limits: how much a client may send, how long it may take, and the key that it must know."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import final

from caveat._internal.files import path_errors
from caveat._internal.params import check_params, count, positive
from caveat.errors import InputError

__all__ = ["KEY_VARIABLE", "Limits", "read_key", "secret_text"]

KEY_VARIABLE = "CAVEAT_SERVE_KEY"
_SHORTEST, _LONGEST = 16, 4096  # signs of a key


@final
@dataclass(frozen=True)
class Limits:
    """What a service accepts.

    Parameters
    ----------
    body_bytes
        Size of one body, and of its arrays once unpacked; more is refused with status 413.
    json_bytes
        Size of a JSON body; more is refused with status 413. JSON takes 30 times its size to read, and meanwhile the
        service answers nobody else.
    reading_bytes
        Size of all bodies in memory together; beyond it requests are refused with status 429.
    rows
        Rows of one request; more are refused with status 413. An answer takes far more memory than a narrow row.
    body_seconds
        Time for a body to arrive; a slower client is refused with status 408.
    header_seconds
        Time for the first line and the headers of a request; the connection of a slower client is closed.
    answer_seconds
        Time for a client to take its answer; the connection of a slower client is closed.
    connections
        Open connections; beyond it only health is answered, everything else gets status 503.

    Examples
    --------
    >>> Limits(body_seconds=2.5).connections
    1000
    """

    body_bytes: int = count(32 * 2**20)
    json_bytes: int = count(8 * 2**20)
    reading_bytes: int = count(256 * 2**20)
    rows: int = count(100_000)
    body_seconds: float = positive(10.0)
    header_seconds: float = positive(10.0)
    answer_seconds: float = positive(60.0)
    connections: int = count(1000)

    def __post_init__(self) -> None:
        check_params(self)


def read_key(file: str | os.PathLike[str] | None) -> str | None:
    """The bearer key of the service: from a file that only its owner can read, else from the environment, else None."""
    key = os.environ.get(KEY_VARIABLE) if file is None else secret_text(Path(file))
    if key is None:
        return None
    if not _SHORTEST <= len(key) <= _LONGEST or not key.isascii() or not key.isprintable() or " " in key:
        make = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        raise InputError(f"the key must have {_SHORTEST} to {_LONGEST} printable ASCII signs and no space, got "
                         f"{len(key)} signs. Make one: {make}.")  # fmt: skip
    return key


def secret_text(path: Path) -> str:
    """The text of a file that nobody but its owner can read."""
    with path_errors(path, "read"):
        # what is checked is what is read: the open file, not whatever has this name a moment later
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # without waiting for a pipe
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path} must be a file.")
            content = file.read(_LONGEST + 2)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise InputError(f"{path} can be read or changed by others (mode {mode:o}). Run: chmod 600 {path}.")
    if status.st_uid not in (0, os.geteuid()):
        raise InputError(f"{path} belongs to the user {status.st_uid}, who could change the key. Make it your own.")
    return content.decode("utf-8", "replace").strip()
