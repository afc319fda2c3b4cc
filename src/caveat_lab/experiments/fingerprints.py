"""What a file holds, as one short text: its SHA-256."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from caveat._internal.cache import cache_folder
from caveat._internal.files import is_folder, path_errors, read_bytes, read_json, write_json
from caveat._internal.folders import PAGE_KEY
from caveat.errors import InputError
from caveat.outputs.files import FOLDER

__all__ = ["fingerprint"]

_REMEMBER_ABOVE = 4 * 2**20  # bytes; hashing less is quicker than asking
_SETTLED = 3.0  # seconds: a file that changed within the clock's grain could change again unseen


def fingerprint(path: Path) -> str:
    """SHA-256 of a file's bytes, or of the names and bytes of a folder's ``.npy`` and ``.json`` files.

    Of outputs that Caveat saved it depends on the content only, not on how often they were saved. That of a
    large file is remembered in the cache folder by path, size and time of change.
    """
    if is_folder(path):
        whole = {part.name: part for part in (*path.glob("*.npy"), *path.glob("*.json"))}
        if FOLDER.page in whole and read_json(whole[FOLDER.page]).get("format") == FOLDER.format:
            return FOLDER.reading(
                path, lambda page, files: _of_page(page, files) if PAGE_KEY in page else _of_files(whole)
            )
        return _of_files(whole)
    with path_errors(path, "read"):
        facts = path.stat()
        if facts.st_size < _REMEMBER_ABOVE:
            return hashlib.sha256(read_bytes(path)).hexdigest()
        return _remembered(path, {"path": str(path.resolve()), "size": facts.st_size, "changed": facts.st_mtime_ns})


def _of_page(page: dict[str, Any], files: Mapping[str, Path]) -> str:
    facts = {key: value for key, value in page.items() if key != PAGE_KEY}
    return _of_files(files, {FOLDER.page: hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()})


def _of_files(files: Mapping[str, Path], others: Mapping[str, str] | None = None) -> str:
    prints = {name: fingerprint(file) for name, file in files.items()} | dict(others or {})
    return hashlib.sha256("".join(f"{name}\0{prints[name]}\n" for name in sorted(prints)).encode()).hexdigest()


def _remembered(path: Path, facts: dict[str, str | int]) -> str:
    name = hashlib.sha256(str(facts["path"]).encode()).hexdigest()[:32]
    note = cache_folder() / "fingerprints" / f"{name}.json"
    with contextlib.suppress(InputError, OSError):  # absent, damaged or unreadable: hash again
        memory = read_json(note)
        if {key: memory.get(key) for key in facts} == facts and isinstance(memory.get("sha256"), str):
            return str(memory["sha256"])
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if time.time_ns() - int(facts["changed"]) > _SETTLED * 1e9:
        with contextlib.suppress(InputError, OSError):
            write_json(note, facts | {"sha256": digest})
    return digest
