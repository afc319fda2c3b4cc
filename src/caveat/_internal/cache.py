"""Numbers that are slow to compute and never change, kept in the user's cache folder as small JSON files.

The folder is ``$CAVEAT_CACHE``, else ``$XDG_CACHE_HOME/caveat``, else ``~/.cache/caveat``. It may be deleted at any
time. A file that is damaged, or whose checksum does not fit, is computed again; a folder that cannot be written is no
error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from caveat._internal.files import read_json, write_json
from caveat.errors import InputError


def cache_folder() -> Path:
    """Where remembered numbers are kept."""
    if chosen := os.environ.get("CAVEAT_CACHE"):
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caveat"
    except RuntimeError:  # a user without a home, as in many containers: a folder that no one can write
        return Path(os.devnull) / "caveat"


def remembered(key: str, compute: Callable[[], dict[str, float]]) -> dict[str, float]:
    """The named numbers under ``key``: read from the cache folder, or computed and written there.

    ``key`` is a relative path such as ``"bands/eta-n100"``; it must change whenever the meaning of the numbers does.
    """
    path = cache_folder() / f"{key}.json"
    try:
        content = read_json(path)
        if content.get("checksum") == _checksum(key, content.get("values")):
            return {str(name): float(value) for name, value in content["values"].items()}
    except (InputError, OSError, TypeError, ValueError, AttributeError, OverflowError):
        pass  # absent, damaged or unreadable: compute it again
    values = compute()
    with contextlib.suppress(InputError, OSError):  # a read-only home costs time, not correctness
        write_json(path, {"key": key, "values": values, "checksum": _checksum(key, values)})
    return values


def _checksum(key: str, values: object) -> str:
    return hashlib.sha256(json.dumps([key, values], sort_keys=True).encode()).hexdigest()
