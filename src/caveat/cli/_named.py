"""Options that name files: a path, name=path, or the folder that results go to."""

from __future__ import annotations

import os
from pathlib import Path

from caveat.errors import InputError


def named_paths(items: list[str], *, what: str) -> dict[str, Path]:
    """Name -> path; a plain path is called by its stem. Two equal names are an error."""
    named: dict[str, Path] = {}
    for item in items:
        name, equals, path = item.partition("=")
        if not equals or Path(item).exists():
            name, path = Path(item).stem, item
        if not path.strip():
            raise InputError(f"--{what} {item!r} names no file. Give name=path.")
        if name in named:
            raise InputError(f"two {what} sets are called '{name}'. Name them: --{what} first={named[name]}.")
        named[name] = Path(path)
    return named


def check_folder(path: Path) -> None:
    """Raise InputError unless a folder can be written or made: better said before the work than after it."""
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"{there} is a file. Choose a folder for the results.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{there} cannot be written. Choose another folder for the results, or change its rights.")
