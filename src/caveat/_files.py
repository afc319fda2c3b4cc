"""Files are data: no pickle is ever read, and nothing half-written is ever left under its final name."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError

__all__ = ["npz_shapes", "read_json", "read_npy", "read_npz", "replacing_file", "replacing_folder", "write_json"]


@contextmanager
def replacing_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed to it when the block ends well and removed when it does not."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} must be a file, but there is a folder of this name. Choose another path.")
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: str | os.PathLike[str], *, marker: str) -> Iterator[Path]:
    """A temporary folder beside ``path``, renamed to it when the block ends well.

    An existing folder is replaced only if it is empty or holds the file ``marker``, which says that we wrote it. It
    steps aside in one move and comes back if the new one cannot take its place: no one meets half of either. A link to
    a folder stays a link.
    """
    target = Path(path).resolve()
    if target.exists() and not (target.is_dir() and ((target / marker).exists() or not any(target.iterdir()))):
        raise InputError(f"{target} exists and was not written by Caveat (no {marker} in it). Choose another path.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        if not target.exists():
            temporary.rename(target)
            return
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            former = target.rename(aside / "former")
            try:
                temporary.rename(target)
            except BaseException:
                former.rename(target)
                raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_npz(
    path: Path, keys: Iterable[str] | None = None, *, keep: Collection[str] | None = None
) -> dict[str, NDArray[Any]]:
    """Every array of an ``.npz`` file, those named in ``keys`` (all must be there), or what it has of ``keep``.

    A damaged file or a pickle inside gets one sentence.
    """
    try:
        opened = np.load(path, allow_pickle=False)
        if not isinstance(opened, np.lib.npyio.NpzFile):
            raise InputError(f"{path} is a single .npy array, not an .npz archive. Save it with numpy.savez.")
        with opened as archive:
            for key in (wanted := archive.files if keys is None else list(keys)):
                if key not in archive.files:
                    raise InputError(f"{path} has no array '{key}'. It has {', '.join(archive.files) or 'none'}.")
            # By the name inside: where there are 'x' and 'x.npy', numpy gives the first of them for the second.
            members = set(archive.zip.namelist()) if archive.zip is not None else set()
            return {
                key: archive[f"{key}.npy" if f"{key}.npy" in members else key]
                for key in wanted
                if keep is None or key in keep
            }
    except InputError:
        raise
    except Exception as error:  # damage makes numpy and zipfile raise errors of a dozen kinds, TokenError among them
        raise _unreadable(path, error) from None


def npz_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the arrays in an ``.npz`` file, from their headers alone."""
    found: dict[str, tuple[int, ...]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.endswith(".npy"):
                    continue
                with archive.open(name) as stream:
                    newest = np.lib.format.read_magic(stream) != (1, 0)
                    read = np.lib.format.read_array_header_2_0 if newest else np.lib.format.read_array_header_1_0
                    found[name.removesuffix(".npy")] = read(stream)[0]
    except Exception as error:  # as in read_npz
        raise _unreadable(path, error) from None
    return found


def read_npy(path: Path) -> NDArray[Any]:
    """One memory-mapped ``.npy`` array."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except Exception as error:  # as in read_npz
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> InputError:
    """The one sentence about a file of arrays that cannot be read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path} does not exist. Check the path.")
    if isinstance(error, MemoryError):
        return InputError(f"{path} needs more memory than there is ({error}). "
                          "Store a folder of .npy files, which is read in parts.")  # fmt: skip
    reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
    if "Object arrays" in reason or "Python objects" in reason or ("pickle" in reason and _starts_as_pickle(path)):
        return InputError(f"{path} holds pickled objects, which can run code and are never read. "
                          "Save plain numeric arrays with numpy.")  # fmt: skip
    if "pickle" in reason:  # what numpy takes any file for that it does not know
        reason = "it does not start as one"
    kind = ".npy" if path.suffix == ".npy" else ".npz"
    return InputError(f"{path} is damaged or not an {kind} file ({reason}). Write it again.")


def _starts_as_pickle(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(1) == b"\x80"


def write_json(path: Path, content: dict[str, Any]) -> None:
    with replacing_file(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}). Write it again.") from None
    if not isinstance(content, dict):
        raise InputError(f"{path} must hold a JSON object, got {type(content).__name__}.")
    return content
