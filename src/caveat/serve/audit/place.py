"""Place: the file of an audit trail keeps its name, and has one writer, as long as a service writes to it.

A lock on a name says nothing about a file: files are renamed, removed, replaced and linked. So the lock is on the file
itself (its inode), and the name is compared with the open file again after each commit. The log that SQLite keeps
beside the file (``-wal``) holds the newest records and belongs to the file by its name alone; it is watched likewise.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import time
from pathlib import Path
from typing import final

from caveat._internal.files import path_errors, replacing_file
from caveat.errors import InputError, StoreError

__all__ = ["LOG", "WRITTEN", "Place", "identity", "resolved"]

LOG = "-wal"
_SIDES = (LOG, "-shm")
_MAGIC = b"SQLite format 3\0"
_LOCK_SECONDS = 1.0  # in which a service that is just being stopped lets go
# Files that this process writes. To open and close one again would free the locks that SQLite has on it (POSIX).
WRITTEN: set[tuple[int, int]] = set()

Identity = tuple[int, int]


def resolved(path: str | os.PathLike[str], *, read_only: bool) -> Path:
    """The file that a name leads to; a file with several names is refused, because each would have a log of its own."""
    with path_errors(Path(path), "read" if read_only else "written"):
        real = Path(os.path.realpath(path))
        if read_only or real.exists():
            status = real.stat()
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, "it is a folder")
            if status.st_nlink > 1:
                raise InputError(f"an audit file must have one name, {real} has {status.st_nlink} (hard links). "
                                 "Copy the file.")  # fmt: skip
    return real


@final
class Place:
    """The lock on an audit file, and whether the file is still where it was.

    Parameters
    ----------
    path
        The file as ``resolved`` gives it; made if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._own = path, str(path)
        self._handles: dict[str, int] = {}
        self._names: dict[str, Identity] = {}  # what each name must lead to
        try:
            with path_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._demand_file_of_log()
                if identity(path) in WRITTEN:
                    raise self._taken()
                self._lock("", os.O_CREAT)  # for its owner alone: verdicts are nobody else's business
                start = os.pread(self._handles[""], len(_MAGIC), 0)
                if start not in (b"", _MAGIC):  # SQLite itself would write over a file of a few bytes
                    raise InputError(f"{path} is not an audit file of Caveat. Choose another file.")
                if self._side(LOG).exists():
                    self._lock(LOG)
        except BaseException:
            self.release()
            raise

    def _demand_file_of_log(self) -> None:
        """SQLite deletes the log beside an empty file: it would be that of a file that was renamed."""
        log, size = self._side(LOG), self.path.stat().st_size if self.path.exists() else 0
        if not size and log.exists() and log.stat().st_size:
            raise InputError(
                f"{log} holds records of another audit file, which had the name {self.path.name} before. Give that "
                "file its name back, or move this log away."
            )

    def _lock(self, side: str, flags: int = 0) -> None:
        """Open a file and lock it; the system lets go when the process ends, however it ends."""
        handle = os.open(self._side(side), os.O_RDWR | os.O_CLOEXEC | flags, 0o600)
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > end:
                    os.close(handle)
                    raise self._taken() from None
                time.sleep(0.05)
        self._handles[side] = handle
        if not side:
            status = os.fstat(handle)
            self._names[self._own] = (status.st_dev, status.st_ino)
            WRITTEN.add(self._names[self._own])
            self.check()  # it may have been moved between the two

    def _taken(self) -> InputError:
        return InputError(f"{self.path} is being written by another service. Stop it, or give each service an audit "
                          "file of its own.")  # fmt: skip

    def settle(self) -> None:
        """Watch the files that SQLite has made beside this one, too."""
        for side in _SIDES:
            name = str(self._side(side))
            current = identity(name) or (0, 0)  # if it is gone already, the next check reports it
            if current != self._names.get(name):
                if side == LOG:
                    self._free(side)
                    self._lock(side)
                self._names[name] = current

    def check(self) -> None:
        """Raise StoreError where a name no longer leads to the file that is written."""
        for name, written in self._names.items():
            if identity(name) != written:
                what = "it" if name == self._own else "its log"
                raise StoreError(f"the audit file is not in its place: {what} was renamed, removed or replaced. "
                                 "Put it back, or start the service with a new file.")  # fmt: skip
        if os.fstat(self._handles[""]).st_nlink > 1:
            raise StoreError("the audit file has a second name (a hard link). Remove one of them.")

    def let_go_of_log(self) -> None:
        """The log is empty; remove it if it still has its name, because another file may come to this place.

        The lock on the file stays.
        """
        for name, written in self._names.items():
            if name != self._own and identity(name) == written:
                os.unlink(name)
        self._free(LOG)
        self._names = {self._own: self._names[self._own]}

    def rescue(self) -> None:
        """Write a removed file back under another name, beside where it was."""
        handle = self._handles[""]
        if os.fstat(handle).st_nlink:
            return
        names = (self.path.with_name(f"{self.path.name}.rescued{i or ''}") for i in range(1000))
        with replacing_file(next(name for name in names if not name.exists())) as temporary:
            temporary.chmod(0o600)
            with open(os.dup(handle), "rb") as source, temporary.open("wb") as copy:
                source.seek(0)
                shutil.copyfileobj(source, copy)

    def release(self) -> None:
        """Let go of the file."""
        WRITTEN.discard(self._names.get(self._own, (0, 0)))
        for side in tuple(self._handles):
            self._free(side)

    def _free(self, side: str) -> None:
        if side in self._handles:
            os.close(self._handles.pop(side))

    def _side(self, side: str) -> Path:
        return Path(f"{self.path}{side}")


def identity(path: str | Path) -> Identity | None:
    """Device and inode of the file that a name leads to; None if there is no such file.

    >>> identity(Path("/no such file")) is None
    True
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
