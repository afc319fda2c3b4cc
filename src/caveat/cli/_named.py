"""Options that name files: a path, or name=path."""

from __future__ import annotations

from pathlib import Path

from caveat.errors import InputError

__all__ = ["named_paths"]


def named_paths(given: list[str], *, what: str) -> dict[str, Path]:
    """Name -> path; a plain path is called by its stem. Two equal names are an error."""
    named: dict[str, Path] = {}
    for item in given:
        name, equals, path = item.partition("=")
        if not equals or Path(item).exists():
            name, path = Path(item).stem, item
        if name in named:
            raise InputError(f"two {what} sets are called '{name}'. Name them: --{what} first={named[name]}.")
        named[name] = Path(path)
    return named
