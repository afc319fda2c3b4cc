"""A disk under SQLite that a test can fill, freeze and cut off from power.

SQLite lets a program replace the system calls of its default VFS (``xSetSystemCall``) and put a VFS in front of it:
SQLite itself is tested in this way. Writes go to the real files. What was written since the last sync is kept in a list
besides, so that a power failure can take any part of it away. Names of files are taken as safe at once.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

_LONG, _SIZE = ctypes.c_longlong, ctypes.c_size_t
_PROTOTYPES = {
    "write": ctypes.CFUNCTYPE(_LONG, ctypes.c_int, ctypes.c_void_p, _SIZE, use_errno=True),
    "pwrite": ctypes.CFUNCTYPE(_LONG, ctypes.c_int, ctypes.c_void_p, _SIZE, _LONG, use_errno=True),
    "pwrite64": ctypes.CFUNCTYPE(_LONG, ctypes.c_int, ctypes.c_void_p, _SIZE, _LONG, use_errno=True),
    "ftruncate": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _LONG, use_errno=True),
    "unlink": ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, use_errno=True),
}
_SECTOR = 512


_OPEN = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int)
)  # SQLite keeps the pointer to the name
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_OK, _IOERR_FSYNC = 0, 1034  # result codes of SQLite


class _Methods(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int), *((f"before{i}", ctypes.c_void_p) for i in range(4)), ("sync", ctypes.c_void_p),
        *((f"after{i}", ctypes.c_void_p) for i in range(13)),
    ]  # fmt: skip


class _File(ctypes.Structure):
    _fields_ = [("methods", ctypes.POINTER(_Methods))]


class _Vfs(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int), ("file_size", ctypes.c_int), ("longest", ctypes.c_int), ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("open", _OPEN),
        *((f"call{i}", ctypes.c_void_p) for i in range(12)),
        ("set_call", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)),
        ("get_call", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    ]  # fmt: skip


def _default_vfs():
    """The VFS of the SQLite that Python uses; the test is skipped where it cannot be reached."""
    import _sqlite3

    maps = Path("/proc/self/maps")
    loaded = re.findall(r"(/\S*libsqlite3\S*)$", maps.read_text() if maps.exists() else "", re.MULTILINE)
    try:
        library = ctypes.CDLL((loaded or [_sqlite3.__file__])[0])
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        return library, library.sqlite3_vfs_find(None)
    except (AttributeError, OSError):
        pytest.skip("the system calls of this SQLite cannot be replaced")


class Disk:
    """The files below one folder, as SQLite writes them."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)
        self.room = None  # bytes that may still be written; None: no limit
        self.left = None  # writes until the process is dead; None: it lives
        self.dead = False
        self.writes = self.syncs = 0
        self._stable, self._pending = {}, {}  # inode -> content at the last sync, what was written since
        self._lock = threading.RLock()

    # -- what happens --------------------------------------------------------------------------------------------------

    def revive(self):
        """A new process: what is written is what there is."""
        self.dead, self.left, self.room = False, None, None

    def lose_power(self, rng):
        """Take away any part of what was not synced; sectors of a write are lost one by one."""
        for path in Path(self.folder).iterdir():
            inode = path.stat().st_ino
            if path.name.endswith("-shm"):
                path.unlink()
            elif inode in self._stable:
                content, keep = bytearray(self._stable[inode]), rng.choice([0.0, 0.5, 0.9, 1.0])
                for offset, data in self._pending[inode]:
                    for start in range(0, 1 if data is None else len(data), _SECTOR):
                        if rng.random() < keep:
                            _apply(content, offset + start, None if data is None else data[start : start + _SECTOR])
                path.write_bytes(content)
        self._stable, self._pending = {}, {}

    # -- system calls --------------------------------------------------------------------------------------------------

    def owns(self, path):
        return os.path.realpath(path).startswith(self.folder + os.sep)

    def inode_of(self, handle):
        """Inode of a file of this disk; None for other files."""
        try:
            path = os.readlink(f"/proc/self/fd/{handle}")
        except OSError:
            return None
        return os.fstat(handle).st_ino if path.startswith(self.folder + os.sep) else None

    def opened(self, path):
        """The inode of a file that SQLite opens; a number may have been that of another file before."""
        try:
            inode, read = os.stat(path).st_ino, Path(path).read_bytes()
        except FileNotFoundError:  # removed by the test while it was opened
            return None
        with self._lock:
            if inode in self._stable:
                content = bytearray(self._stable[inode])
                for offset, data in self._pending[inode]:
                    _apply(content, offset, data)
                if content != read:
                    del self._stable[inode], self._pending[inode]
        return inode

    def _follow(self, handle, inode):
        if inode not in self._stable:
            self._stable[inode] = os.pread(handle, os.fstat(handle).st_size, 0)
            self._pending[inode] = []

    def pwrite(self, handle, data, offset):
        inode = self.inode_of(handle)
        if inode is None or os.readlink(f"/proc/self/fd/{handle}").endswith("-shm"):
            return os.pwrite(handle, data, offset)
        with self._lock:
            self._count()
            if self.room is not None:
                grows = max(0, offset + len(data) - os.fstat(handle).st_size)
                if grows > self.room:
                    raise OSError(errno.ENOSPC, "full")
                self.room -= grows
            self._follow(handle, inode)
            self._pending[inode].append((offset, bytes(data)))
            return os.pwrite(handle, data, offset)

    def truncate(self, handle, size):
        inode = self.inode_of(handle)
        if inode is not None and not os.readlink(f"/proc/self/fd/{handle}").endswith("-shm"):
            with self._lock:
                self._count()
                self._follow(handle, inode)
                self._pending[inode].append((size, None))
        os.ftruncate(handle, size)

    def sync(self, inode):
        with self._lock:
            self._count()
            self.syncs += 1
            if inode in self._stable:
                content = bytearray(self._stable[inode])
                for offset, data in self._pending[inode]:
                    _apply(content, offset, data)
                self._stable[inode], self._pending[inode] = bytes(content), []

    def unlink(self, path):
        if self.owns(os.fsdecode(path)):
            self._count()
        os.unlink(path)

    def _count(self):
        if self.left is not None:
            self.left -= 1
            self.dead |= self.left < 0
        if self.dead:
            raise OSError(errno.EIO, "the process is dead")
        self.writes += 1


def _apply(content, offset, data):
    """Write, or cut and extend where there is nothing to write."""
    size = offset if data is None else max(len(content), offset + len(data))
    del content[size:]
    content.extend(bytes(size - len(content)))
    if data is not None:
        content[offset : offset + len(data)] = data


@contextmanager
def faulty(disk):
    """Let SQLite write to this disk in place of the real one, for the files that the disk owns."""
    library, vfs = _default_vfs()
    address = ctypes.cast(vfs, ctypes.c_void_p)
    calls = {
        "pwrite": lambda handle, data, size, offset: disk.pwrite(handle, ctypes.string_at(data, size), offset),
        "pwrite64": lambda handle, data, size, offset: disk.pwrite(handle, ctypes.string_at(data, size), offset),
        "write": lambda handle, data, size: _written(disk, handle, ctypes.string_at(data, size)),
        "ftruncate": lambda handle, size: disk.truncate(handle, size) or 0,
        "unlink": lambda path: disk.unlink(path) or 0,
    }
    front, inodes, tables = _Vfs.from_buffer_copy(vfs.contents), {}, {}

    @_SYNC
    def sync(file, _):
        try:
            return disk.sync(inodes.get(file)) or _OK
        except OSError:
            return _IOERR_FSYNC

    @_OPEN
    def opened(_, name, file, flags, out):
        code = vfs.contents.open(address, name, file, flags, out)
        path = b"" if name is None else ctypes.string_at(name)
        if code == _OK and path and disk.owns(os.fsdecode(path)):
            inodes[file], methods = (
                disk.opened(os.fsdecode(path)),
                ctypes.cast(file, ctypes.POINTER(_File)).contents.methods,
            )
            table = ctypes.addressof(methods.contents)
            if table not in tables:
                tables[table] = _Methods.from_buffer_copy(methods.contents)
                tables[table].sync = ctypes.cast(sync, ctypes.c_void_p)
            ctypes.cast(file, ctypes.POINTER(_File)).contents.methods = ctypes.pointer(tables[table])
        return code

    front.name, front.open, kept = b"faulty", opened, []
    library.sqlite3_vfs_register(ctypes.byref(front), 1)
    for name, call in calls.items():
        if vfs.contents.get_call(address, name.encode()):
            kept.append((name, _PROTOTYPES[name](_as_c(call))))  # kept alive as long as SQLite may call it
            vfs.contents.set_call(address, name.encode(), ctypes.cast(kept[-1][1], ctypes.c_void_p))
    try:
        yield disk
    finally:
        library.sqlite3_vfs_register(vfs, 1)
        library.sqlite3_vfs_unregister(ctypes.byref(front))
        for name, _ in kept:
            vfs.contents.set_call(address, name.encode(), None)


def _written(disk, handle, data):
    size = disk.pwrite(handle, data, os.lseek(handle, 0, os.SEEK_CUR))
    os.lseek(handle, size, os.SEEK_CUR)
    return size


def _as_c(call):
    """Errors as C knows them: -1 and errno."""

    def called(*arguments):
        try:
            return call(*arguments)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1

    return called
