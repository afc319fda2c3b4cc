"""A folder of arrays and one JSON page that lists them: saved whole or not at all, and read whole or not at all.

A new folder is written under another name and renamed. In a folder that is there, every new array gets a file name that
holds the generation (``logits.caveat-0123456789abcdef.npy``); then the page, which names the files, is replaced in one
step; then the files that only the old page named are removed. So

- a process that is killed leaves the old content or the new content. What it left half written has names that only
  Caveat gives, and the next save removes it;
- a reader that meets a replacement sees another page when it looks again, and reads again. Arrays that it has
  memory-mapped stay readable, because a removed file lives as long as it is open (POSIX);
- files that Caveat did not write stay: only files that the page lists are removed, and links never.

Exchanging two folders (``renameat2``) exists on Linux only, loses files that Caveat did not write, and lets a reader
open the old page and the new arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, final

from caveat._internal.files import (
    from_json,
    is_folder,
    is_temporary,
    locked,
    path_errors,
    read_bytes,
    read_json,
    sync,
    temporary_name,
    write_json,
)
from caveat.errors import InputError

T = TypeVar("T")
Page = dict[str, Any]

PAGE_KEY = "folder"  # what a page says of its folder: generation and files
_GENERATION = re.compile(r".+\.caveat-[0-9a-f]{16}\.npy")
_LONGEST = 255  # bytes of a file name
_YOUNG = 60.0  # seconds in which a new temporary file or folder may not have its lock yet
_PATIENCE = 30.0  # seconds for which a reader tries to overtake writers


@final
@dataclass(frozen=True)
class ArrayFolder:
    """How one kind of folder is saved and read.

    Parameters
    ----------
    page
        Name of the JSON file.
    format, version
        What the page must say of itself: this format, and at most this version.
    what
        What such a folder holds, for messages.
    owned
        Whether a page of version 1, which lists no files, owned the file of a name.
    """

    page: str
    format: str
    version: int
    what: str
    owned: Callable[[Mapping[str, Any], str], bool]

    # -- writing ------------------------------------------------------------------------------------------------------

    @contextmanager
    def saving(self, path: str | os.PathLike[str]) -> Iterator[Path]:
        """A staging folder for ``.npy`` files and the page; they become the content of ``path`` when the block ends.

        ``path`` may be absent, empty, or a folder of this kind, else it is left alone with an InputError. A link to a
        folder stays a link.
        """
        target = Path(os.path.realpath(path))
        with path_errors(Path(path)):
            self._check_ours(target)
            replaceable = os.access(target.parent, os.W_OK) and not target.is_mount()
            inside = is_folder(target) and (any(target.iterdir()) or not replaceable)
            with staging(target if inside else target.parent) as staged:
                yield staged
                self._commit(staged, target, inside=inside)

    def _check_ours(self, target: Path) -> None:
        """Raise InputError unless the folder may be written."""
        if not os.path.lexists(target):
            with suppress(FileNotFoundError):
                target.lstat()  # a name that is too long
            return
        if not is_folder(target):
            raise InputError(f"{target} must be a folder, but there is a file of this name. Choose another path.")
        reason = ""
        if (target / self.page).exists():
            try:
                self._checked(read_json(target / self.page), target / self.page)
            except InputError as error:
                reason = str(error).rstrip(".")
        elif any(not is_temporary(file.name) and not _GENERATION.fullmatch(file.name) for file in target.iterdir()):
            reason = f"no {self.page} in it"
        if reason:
            raise InputError(f"{target} exists and was not written by Caveat ({reason}), so it is left alone. "
                             "Choose another path.")  # fmt: skip

    def _commit(self, staged: Path, target: Path, *, inside: bool) -> None:
        content = read_json(staged / self.page)
        names = sorted(file.name for file in staged.iterdir() if file.name != self.page)
        generation = secrets.token_hex(8)
        for name in names:
            sync(staged / name)
        if not inside:
            self._write_page(staged, content, generation, {name: name for name in names})
            try:
                staged.rename(target)  # also onto an empty folder
            except OSError:  # another process was quicker: its folder is replaced like any other
                if not is_folder(target):
                    raise
            else:
                sync(target.parent)
                return
        with locked(target, wait=True) as alone:
            self._check_ours(target)  # again: it may have changed since
            former = self._owned(target)
            files = {name: _with_generation(name, generation) for name in names}
            for name, file in files.items():
                (staged / name).rename(target / file)
            sync(target)
            # Files without a generation in their names are listed until they are gone, then never again.
            superseded = [name for name in former if not _GENERATION.fullmatch(name)]
            self._write_page(target, content, generation, files, superseded)
            unlisted = [child.name for child in target.iterdir() if _GENERATION.fullmatch(child.name)] if alone else []
            for name in {*former, *unlisted} - set(files.values()):
                _remove_file(target / name)
            if superseded:
                self._write_page(target, content, generation, files)

    def _write_page(
        self, folder: Path, content: Page, generation: str, files: Mapping[str, str], superseded: Sequence[str] = ()
    ) -> None:
        about = {"generation": generation, "files": dict(files), "superseded": list(superseded)}
        write_json(folder / self.page, content | {PAGE_KEY: about})

    def _owned(self, target: Path) -> list[str]:
        """Files of the folder that the page there owns."""
        if not (target / self.page).exists():
            return []
        page = read_json(target / self.page)
        if PAGE_KEY in page:
            about = page[PAGE_KEY]
            return [file for file in (*about["files"].values(), *about["superseded"]) if _is_plain(file)]
        return [file.name for file in target.glob("*.npy") if self.owned(page, file.name)]

    # -- reading ------------------------------------------------------------------------------------------------------

    def reading(self, folder: Path, read: Callable[[Page, dict[str, Path]], T]) -> T:
        """``read(page, files)`` of one state of the folder; ``files`` maps plain names to paths.

        A folder that was replaced meanwhile is read again.
        """
        path, started = folder / self.page, time.monotonic()
        while True:
            raw = read_bytes(path)
            page = self._checked(from_json(raw, str(path)), path)
            try:
                content = read(page, self._files(folder, page))
            except InputError:
                if read_bytes(path) == raw:
                    raise
            else:
                if read_bytes(path) == raw:
                    return content
            if time.monotonic() - started > _PATIENCE:
                raise InputError(f"{folder} is replaced faster than it can be read. Try again when it is at rest.")

    def strangers(self, folder: Path, page: Page) -> list[str]:
        """Names of ``.npy`` files in the folder that its page does not list; none of a folder of version 1."""
        if PAGE_KEY not in page:
            return []
        listed = {*page[PAGE_KEY]["files"].values(), *page[PAGE_KEY]["superseded"]}
        names = {file.name for file in folder.glob("*.npy")} - listed
        return sorted(name for name in names if not _GENERATION.fullmatch(name))

    def _files(self, folder: Path, page: Page) -> dict[str, Path]:
        if PAGE_KEY in page:
            return {name: folder / file for name, file in page[PAGE_KEY]["files"].items()}
        return plain_files(folder)

    def _checked(self, page: Page, path: Path) -> Page:
        if page.get("format") != self.format:
            raise InputError(f"{path} does not describe {self.what} (format {page.get('format')!r}). Check the path.")
        version = page.get("version")
        if not isinstance(version, int) or version < 1:
            raise InputError(f"{path} is damaged (version {version!r}). Save it again.")
        if version > self.version:
            raise InputError(f"{path} has version {version}; this Caveat reads up to {self.version}. Upgrade Caveat.")
        if PAGE_KEY in page:
            about = page[PAGE_KEY] if isinstance(page[PAGE_KEY], dict) else {}
            files, superseded = about.get("files"), about.get("superseded")
            if not isinstance(files, dict) or not isinstance(superseded, list):
                raise InputError(f"{path} is damaged (it lists no files). Save it again.")
            for file in (*files.values(), *superseded):
                if not _is_plain(file):
                    raise InputError(f"{path} names the file {file!r}, which is not in its folder. Save it again.")
        return page


def plain_files(folder: Path) -> dict[str, Path]:
    """The ``.npy`` files of a folder that lists none, by name."""
    return {file.name: file for file in sorted(folder.glob("*.npy")) if not _GENERATION.fullmatch(file.name)}


# -- digests ----------------------------------------------------------------------------------------------------------


def page_checksum(page: Mapping[str, Any]) -> int:
    """CRC-32 of what a page says, however its JSON is laid out."""
    content = {key: value for key, value in page.items() if key not in ("crc32", PAGE_KEY)}
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())


def sealed(page: Page, staged: Path) -> Page:
    """The page with the SHA-256 of every array in the staging folder, and a checksum of its own."""
    page = page | {"sha256": {file.name: _digest(file) for file in sorted(staged.glob("*.npy"))}}
    return page | {"crc32": page_checksum(page)}


def check_page_seal(path: Path, page: Page, files: Mapping[str, Path], remedy: str) -> dict[str, str]:
    """The digests that a page lists, one for each of its files; a page that was changed is an InputError."""
    if page.get("crc32") != page_checksum(page):
        raise InputError(f"{path} is damaged (its checksum is not that of its content). {remedy}")
    digests = page.get("sha256")
    if not isinstance(digests, dict) or set(digests) != set(files):
        raise InputError(f"{path} is damaged (it does not list the digests of its files). {remedy}")
    return digests


def check_digest(file: Path, digest: str, remedy: str) -> None:
    """Raise InputError unless the file has this SHA-256."""
    if _digest(file) != digest:
        raise InputError(f"{file} is damaged (its SHA-256 is not the one that was recorded). {remedy}")


def _digest(file: Path) -> str:
    with path_errors(file, "read"), file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# -- staging ----------------------------------------------------------------------------------------------------------


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A new folder in ``parent`` for what is not finished, removed at the end; what killed processes left goes too."""
    parent.mkdir(parents=True, exist_ok=True)
    for child in parent.iterdir():
        if is_temporary(child.name):
            _remove_if_dead(child)
    folder = parent / temporary_name()
    folder.mkdir()
    with locked(folder, wait=False):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_if_dead(path: Path) -> None:
    """Remove a temporary file or folder whose process is gone: its lock is free, and it is not new."""
    with suppress(OSError):
        facts = path.lstat()
        if time.time() - facts.st_mtime <= _YOUNG or not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
            return
        with locked(path, wait=False) as dead:
            if dead and stat.S_ISDIR(facts.st_mode):
                shutil.rmtree(path, ignore_errors=True)
            elif dead:
                path.unlink()


def _remove_file(path: Path) -> None:
    """Remove a plain file. A link or a folder of this name is not ours."""
    with suppress(OSError):
        if stat.S_ISREG(path.lstat().st_mode):
            path.unlink()


def _is_plain(name: object) -> bool:
    """Whether this is the name of a ``.npy`` file, and no path."""
    return isinstance(name, str) and Path(name).name == name and "\\" not in name and name.endswith(".npy")


def _with_generation(name: str, generation: str) -> str:
    stem, end = name.removesuffix(".npy"), f".caveat-{generation}.npy"
    if len(os.fsencode(stem + end)) > _LONGEST:
        stem = hashlib.sha256(stem.encode()).hexdigest()
    return stem + end
