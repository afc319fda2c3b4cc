"""Limits: how much a client may send, how long it may take, and the key that it must know."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import final

from caveat._internal.checks import as_count, as_positive
from caveat._internal.files import path_errors
from caveat.errors import InputError

__all__ = ["KEY_VARIABLE", "Limits", "read_key"]

KEY_VARIABLE = "CAVEAT_SERVE_KEY"
_SHORTEST = 16  # signs of a key


@final
@dataclass(frozen=True)
class Limits:
    """What a service accepts.

    Parameters
    ----------
    body_bytes
        Size of one body, and of its arrays once unpacked; more is refused with status 413.
    reading_bytes
        Size of all bodies in memory together; beyond it requests are refused with status 429.
    body_seconds
        Time for a body to arrive; a slower client is refused with status 408.
    header_seconds
        Time for the first line and the headers of a request; the connection of a slower client is closed.
    connections
        Open connections; beyond it requests are refused with status 503.
    """

    body_bytes: int = 32 * 2**20
    reading_bytes: int = 256 * 2**20
    body_seconds: float = 10.0
    header_seconds: float = 10.0
    connections: int = 1000

    def __post_init__(self) -> None:
        for name in ("body_bytes", "reading_bytes", "connections"):
            as_count(getattr(self, name), name)
        for name in ("body_seconds", "header_seconds"):
            as_positive(getattr(self, name), name)


def read_key(file: str | os.PathLike[str] | None) -> str | None:
    """The bearer key of the service: from a file that only its owner can read, else from the environment, else None."""
    key: str | None
    if file is not None:
        path = Path(file)
        with path_errors(path, "read"):
            mode = path.stat().st_mode
            key = path.read_text(encoding="utf-8").strip()
        if stat.S_IMODE(mode) & 0o077:
            raise InputError(f"{path} can be read by others (mode {stat.S_IMODE(mode):o}). Run: chmod 600 {path}.")
    else:
        key = os.environ.get(KEY_VARIABLE)
    if key is None:
        return None
    if len(key) < _SHORTEST or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"the key must have at least {_SHORTEST} printable ASCII signs and no space, got {len(key)}. "
                         "Make one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.")  # fmt: skip
    return key
