"""Keys: what a client may do, and how often it may ask."""

from __future__ import annotations

import hmac
import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import final

from caveat._internal.files import path_errors
from caveat.errors import InputError

__all__ = ["ADMIN_VARIABLE", "KEY_VARIABLE", "LABELS_VARIABLE", "Keys", "Pace", "read_keys", "secret_text"]

KEY_VARIABLE = "CAVEAT_SERVE_KEY"
LABELS_VARIABLE = "CAVEAT_SERVE_LABELS_KEY"
ADMIN_VARIABLE = "CAVEAT_SERVE_ADMIN_KEY"
_SHORTEST, _LONGEST = 16, 4096  # signs of a key
_MOST = 100  # keys of one kind
_LABELS, _ADMIN = frozenset({"/v1/labels"}), frozenset({"/v1/live", "/metrics"})


@final
@dataclass(frozen=True)
class Keys:
    """Bearer keys by what they open; without any, everybody may do everything.

    Parameters
    ----------
    ask
        Keys of clients that ask for verdicts, one each. They open everything that no key below is for.
    labels
        Keys that send labels, and do nothing else; empty: who may ask may send labels.
    admin
        Keys that read the live page and the metrics, and do everything else too; empty: who may ask may read them.

    Examples
    --------
    >>> keys = Keys(ask=("a" * 16, "b" * 16), labels=("c" * 16,))
    >>> [keys.opens(key, "/v1/labels") for key in (b"a" * 16, b"c" * 16)]
    [False, True]
    """

    ask: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        kinds = [set(getattr(self, field.name)) for field in fields(self)]
        if not self.ask and (self.labels or self.admin):
            raise InputError("a key for labels or administration needs one for asking too. Give it: --key-file.")
        if sum(map(len, kinds)) > len(set().union(*kinds)):
            raise InputError("the keys for asking, labels and administration must differ. Make one for each.")

    def __bool__(self) -> bool:
        return bool(self.ask)

    def sent(self, authorization: bytes) -> bytes | None:
        """The key in a header; the comparison takes the same time for each of the keys.

        Parameters
        ----------
        authorization
            Value of the header ``Authorization``.

        Returns
        -------
        bytes or None
            None where it is none of these keys.
        """
        scheme, _, text = authorization.partition(b" ")
        text, match = text.strip(), None
        for known in (*self.ask, *self.labels, *self.admin):
            if hmac.compare_digest(text, known.encode()):
                match = text
        return match if scheme.lower() == b"bearer" else None

    def opens(self, key: bytes, path: str) -> bool:
        """Whether a key opens an address.

        Parameters
        ----------
        key
            What ``sent`` returned.
        path
            The address, from its first slash on.

        Returns
        -------
        bool
            False for an address that has keys of another kind.
        """
        own = self.labels if path in _LABELS else self.admin if path in _ADMIN else ()
        return key.decode() in (*(own or self.ask), *self.admin)


@final
class Pace:
    """How often each key may ask: so many requests a second, and as many at once.

    Parameters
    ----------
    rate
        Requests a second of one key; None: as many as it likes.
    clock
        Gives seconds.

    Examples
    --------
    >>> pace = Pace(2, clock=lambda: 10.0)
    >>> [pace.wait(b"one"), pace.wait(b"one"), pace.wait(b"one"), pace.wait(b"other")]
    [0.0, 0.0, 0.5, 0.0]
    """

    def __init__(self, rate: float | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._next: dict[bytes | None, float] = {}  # when a key would ask next if its requests came evenly

    def wait(self, key: bytes | None) -> float:
        """Take a request of this key; the seconds after which it may come, where it comes too early."""
        if self._rate is None:
            return 0.0
        now = self._clock()
        due = max(self._next.get(key, now), now)
        early = due - now - (max(self._rate, 1.0) - 1) / self._rate
        if early > 0:
            return early
        self._next[key] = due + 1 / self._rate
        return 0.0


def read_keys(file: str | os.PathLike[str] | None, variable: str = KEY_VARIABLE) -> tuple[str, ...]:
    """The keys of one kind: a line each of a file that only its owner can read, else of an environment variable."""
    text = os.environ.get(variable) if file is None else secret_text(Path(file))
    if text is None:
        return ()
    keys = text.strip().splitlines() or [""]
    if len(keys) > _MOST:
        raise InputError(f"there must be at most {_MOST} keys, a line each, got {len(keys)}.")
    for key in keys:
        if not _SHORTEST <= len(key) <= _LONGEST or not key.isascii() or not key.isprintable() or " " in key:
            make = "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            raise InputError(f"the key must have {_SHORTEST} to {_LONGEST} printable ASCII signs and no space, got "
                             f"{len(key)} signs. Make one: {make}.")  # fmt: skip
    return tuple(dict.fromkeys(keys))


def secret_text(path: Path) -> str:
    """The text of a file that nobody but its owner can read."""
    with path_errors(path, "read"):
        # what is checked is what is read: the open file, not whatever has this name a moment later
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # without waiting for a pipe
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise InputError(f"{path} must be a file.")
            content = file.read((_MOST + 1) * (_LONGEST + 2))
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise InputError(f"{path} can be read or changed by others (mode {mode:o}). Run: chmod 600 {path}.")
    if status.st_uid not in (0, os.geteuid()):
        raise InputError(f"{path} belongs to the user {status.st_uid}, who could change the key. Make it your own.")
    return content.decode("utf-8", "replace")
