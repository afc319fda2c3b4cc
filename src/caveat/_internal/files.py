"""Files are data: no pickle is ever read, and nothing half-written is ever left under its final name.

There is one reader per format: :func:`read_json`, :func:`read_toml`, :func:`read_npz` and :func:`read_npy`. Whatever is
wrong with a file or its path is an ``InputError`` of one sentence.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import secrets
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from caveat.errors import CaveatError, InputError

_TEMPORARY = re.compile(r"\.caveat-[0-9a-f]{16}(\..+)?")
_DEEPEST = 100  # tables within tables of a JSON or TOML file
_HEADER = 16_384  # bytes; numpy writes headers of at most 10,000
_ZIP_END = 22 + 2**16  # bytes: the end of an archive with the longest comment
_MISPLACED = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP}


# -- paths ------------------------------------------------------------------------------------------------------------


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether there is such a folder; a path that no file could have is none."""
    return os.path.isdir(path)  # Path.is_dir raises where a name is too long


@contextmanager
def path_errors(path: Path, what: Literal["read", "written"] = "written") -> Iterator[None]:
    """Turn a path that cannot be read or written into an InputError.

    When writing, only what is wrong with the path itself (a name too long, a file where a folder must be); a full disk
    stays the OSError that it is.
    """
    try:
        yield
    except OSError as error:
        if what == "written" and error.errno not in _MISPLACED:
            raise
        raise _no_file(path, error, what) from None
    except ValueError as error:
        if isinstance(error, InputError) or "null" not in str(error):  # "null byte", or "null character" since 3.13
            raise
        raise _no_file(path, error, what) from None


def _no_file(path: Path, error: OSError | ValueError, what: str = "read") -> InputError:
    """The one sentence about a path that cannot be opened."""
    name = str(path)
    name = name if len(name) <= 300 else f"{name[:100]}...{name[-100:]}"
    if isinstance(error, FileNotFoundError):
        return InputError(f"{name} does not exist. Check the path.")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{name} is a folder where a file is expected. Check the path.")
    if isinstance(error, (NotADirectoryError, FileExistsError)):
        return InputError(f"{name} cannot be {what}: a part of the path is a file, not a folder. Check the path.")
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(f"{name} cannot be {what} ({reason}). Check the path.")


def temporary_name(suffix: str = "") -> str:
    """A name that only Caveat gives, for something that is not finished."""
    return f".caveat-{secrets.token_hex(8)}{suffix if len(suffix) <= 20 else ''}"


def is_temporary(name: str) -> bool:
    """Whether :func:`temporary_name` gave this name.

    >>> is_temporary(temporary_name(".npz")), is_temporary(".ssh"), is_temporary(".caveat-mine")
    (True, False, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


# -- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def replacing_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder, renamed to ``path`` when the block ends well and removed when it does not.

    The content is on the disk before the new name is, so that a power cut leaves the old file or the new one.
    """
    target = Path(path)
    with path_errors(target):
        if is_folder(target):
            raise InputError(f"{target} must be a file, but there is a folder of this name. Choose another path.")
        with suppress(FileNotFoundError):
            target.lstat()  # a name that is too long is said before the work, not after it
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(temporary_name(target.suffix))
        temporary.touch(exist_ok=False)
    try:
        with path_errors(target), locked(temporary, wait=False):  # shows that somebody still writes
            yield temporary
            sync(temporary)
            temporary.replace(target)
        sync(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of a file or folder where the system has such locks; gives whether it is held."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield False
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            held = True
        except OSError:  # somebody else holds it, or the file system has none
            held = False
        yield held
    finally:
        os.close(handle)


def sync(path: Path) -> None:
    """Return when a file, or the names in a folder, have reached the disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:  # Windows opens no folders
        return
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():  # some file systems cannot do this for folders
            raise
    finally:
        os.close(handle)


def write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


# -- texts ------------------------------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    """The content of a file."""
    with path_errors(path, "read"):
        return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    return from_json(read_bytes(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    return from_toml(read_bytes(path), str(path))


def from_json(text: str | bytes, source: str) -> dict[str, Any]:
    """The object that a JSON text holds; ``source`` names it in an error."""
    content = _parsed(json.loads, text, source, "damaged JSON", "Write it again.")
    if not isinstance(content, dict):
        raise InputError(f"{source} must hold a JSON object, got {type(content).__name__}.")
    return content


def from_toml(text: str | bytes, source: str) -> dict[str, Any]:
    """The tables that a TOML text holds; ``source`` names it in an error."""
    content: dict[str, Any] = _parsed(tomllib.loads, text, source, "not a TOML file", "Correct it.")
    return content


def _parsed(parse: Callable[[str], Any], text: str | bytes, source: str, what: str, remedy: str) -> Any:
    try:
        content = parse(text.decode("utf-8") if isinstance(text, bytes) else text)
    except (ValueError, RecursionError) as error:  # errors of each format, of UTF-8, and integers of too many digits
        raise InputError(f"{source} is {what} ({str(error).splitlines()[0][:200]}). {remedy}") from None
    level = [content]
    for _ in range(_DEEPEST):
        level = [item for value in level for item in _inside(value) if isinstance(item, (dict, list))]
        if not level:
            return content
    raise InputError(f"{source} is {what} (it is nested more than {_DEEPEST} deep). {remedy}")


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


# -- arrays -----------------------------------------------------------------------------------------------------------


def read_npz(path: Path, keys: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
    """Every array of an ``.npz`` file, or those named in ``keys``, all of which must be there.

    Nothing else is unpacked. An archive that declares more bytes than there is memory is refused before it is read.
    """
    with _opened_npz(path) as archive:
        members = _members(archive)
        wanted = list(members) if keys is None else list(dict.fromkeys(keys))
        for key in wanted:
            if key not in members:
                raise InputError(f"{path} has no array '{key}'. It has {', '.join(members) or 'none'}.")
        room, needed = _free_memory(), 0
        for key in wanted:
            shape, dtype = _header(archive, members[key])
            promised = int(np.prod(shape, dtype=object)) * dtype.itemsize
            needed += max(promised, members[key].file_size)
            if needed > room:
                raise MemoryError(f"'{key}' alone has {promised / 2**30:.3g} GiB")
            if promised > members[key].file_size and not dtype.hasobject:
                raise ValueError(f"'{key}' ends too early")
        return {key: _array(archive, members[key]) for key in wanted}


def npz_names(path: Path) -> list[str]:
    """Names of the arrays in an ``.npz`` file; none of them is read."""
    with _opened_npz(path) as archive:
        return list(_members(archive))


def npz_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the arrays in an ``.npz`` file, from their headers alone."""
    with _opened_npz(path) as archive:
        return {name: _header(archive, member)[0] for name, member in _members(archive).items()}


@contextmanager
def damage_errors(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a damaged file makes its reader raise into an InputError; ``what`` names the format."""
    try:
        yield
    except CaveatError:
        raise
    except MemoryError as error:
        raise InputError(f"{path} needs more memory than there is ({_reason(error)}). Read fewer rows.") from None
    except Exception as error:  # readers written in C++ raise errors of a dozen kinds
        try:
            path.open("rb").close()
        except (OSError, ValueError) as failure:
            raise _no_file(path, failure) from None
        raise InputError(f"{path} is damaged or not {what} ({_reason(error)}). Write it again.") from None


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0][:200].rstrip(".") if str(error) else type(error).__name__


@contextmanager
def _opened_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            _check_directory(path, archive)
            yield archive
    except InputError:
        raise
    except Exception as error:  # damage makes numpy and zipfile raise errors of a dozen kinds, TokenError among them
        raise _unreadable(path, error) from None


def _check_directory(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise ValueError where damage of the directory would leave out an array."""
    for member in archive.infolist():
        archive.open(member).close()  # compares the name with the one that stands before the content
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - _ZIP_END))
        end = stream.read()
    start = end.rfind(b"PK\5\6") + 10
    count = int.from_bytes(end[start : start + 2], "little")
    if count not in (0xFFFF, len(archive.infolist())):  # 0xFFFF: it stands elsewhere
        raise ValueError(f"it lists {len(archive.infolist())} of {count} members")


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    return {m.filename.removesuffix(".npy"): m for m in archive.infolist() if m.filename.endswith(".npy")}


def _header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[Any]]:
    with archive.open(member) as stream:
        start = io.BytesIO(stream.read(_HEADER))  # a header may claim 4 GiB for itself
    newest = np.lib.format.read_magic(start) != (1, 0)
    read = np.lib.format.read_array_header_2_0 if newest else np.lib.format.read_array_header_1_0
    shape, _, dtype = read(start)
    return shape, dtype


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(member) as stream:
        array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # the checksum is compared at the end of the stream alone
            raise ValueError("an array has fewer numbers than were stored")
    return array


def check_room(needed: int, path: Path, remedy: str) -> None:
    """Raise InputError where arrays of so many bytes do not fit into memory: said before they are read."""
    if needed > _free_memory():
        raise InputError(f"{path} needs more memory than there is (its arrays have {needed / 2**30:.3g} GiB). {remedy}")


def _free_memory() -> float:
    """Bytes that this process may still take, as far as the system says."""
    free = np.inf
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            free = next(int(line.split()[1]) * 1024 for line in stream if line.startswith("MemAvailable"))
        bound, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="ascii") for name in ("max", "current"))
        free = min(free, int(bound) - int(used))
    except (OSError, ValueError, StopIteration):  # another system, or "max": no bound
        pass
    return free


def read_npy(path: Path) -> NDArray[Any]:
    """One memory-mapped ``.npy`` array."""
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except Exception as error:  # as in _opened_npz
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    """The one sentence about a file of arrays that cannot be read."""
    if isinstance(error, MemoryError):
        return InputError(f"{path} needs more memory than there is ({error}). "
                          "Store a folder of .npy files, which is read in parts.")  # fmt: skip
    try:
        with path.open("rb") as stream:
            start = stream.read(6)
    except (OSError, ValueError) as failure:
        return _no_file(path, failure)
    reason = _reason(error)
    single = path.suffix == ".npy"
    if "Object arrays" in reason or "Python objects" in reason or start[:1] == b"\x80":
        return InputError(f"{path} holds pickled objects, which can run code and are never read. "
                          "Save plain numeric arrays with numpy.")  # fmt: skip
    if start == b"\x93NUMPY" and not single:
        return InputError(f"{path} is a single .npy array, not an .npz archive. Save it with numpy.savez.")
    if start[:2] == b"PK" and single:
        return InputError(f"{path} is an archive of arrays, not one array. Save it with numpy.save.")
    if start != b"\x93NUMPY" and start[:2] != b"PK":
        reason = "it does not start as one"
    return InputError(f"{path} is damaged or not an {'.npy' if single else '.npz'} file ({reason}). Write it again.")
