"""What a file holds, as one short text: its SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path

from caveat._cache import cache_folder
from caveat._files import read_json, write_json
from caveat.errors import InputError

__all__ = ["fingerprint"]

_REMEMBER_ABOVE = 4 * 2**20  # bytes; hashing less is quicker than asking
_SETTLED = 3.0  # seconds: a file that changed within the clock's grain could change again unseen


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of a folder's ``.npy`` and ``.json`` files.

    That of a large file is remembered in the cache folder by path, size and time of change.
    """
    if path.is_dir():
        whole = hashlib.sha256()
        for part in sorted([*path.glob("*.npy"), *path.glob("*.json")]):
            whole.update(f"{part.name}\0{fingerprint(part)}\n".encode())
        return whole.hexdigest()
    try:
        facts = path.stat()
        if facts.st_size < _REMEMBER_ABOVE:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        return _remembered(path, {"path": str(path.resolve()), "size": facts.st_size, "changed": facts.st_mtime_ns})
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).") from None


def _remembered(path: Path, facts: dict[str, str | int]) -> str:
    name = hashlib.sha256(str(facts["path"]).encode()).hexdigest()[:32]
    note = cache_folder() / "fingerprints" / f"{name}.json"
    with contextlib.suppress(InputError, OSError):  # absent, damaged or unreadable: hash again
        known = read_json(note)
        if {key: known.get(key) for key in facts} == facts and isinstance(known.get("sha256"), str):
            return str(known["sha256"])
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if time.time_ns() - int(facts["changed"]) > _SETTLED * 1e9:
        with contextlib.suppress(OSError):
            write_json(note, facts | {"sha256": found})
    return found
