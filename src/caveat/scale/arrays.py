"""Sources whose arrays can be read by row range: a folder of ``.npy`` files, and Zarr.

A ``.npy`` file is read with plain file reads, not memory-mapped: the pages of a map count as memory of the process, so
a limit on it would be reached by reading.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, final
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_same
from caveat._internal.classes import as_class_names
from caveat._internal.files import read_npy
from caveat._internal.folders import plain_files
from caveat.errors import InputError, MissingExtraError
from caveat.outputs import Head, Outputs
from caveat.outputs.files import FIELDS, FOLDER
from caveat.outputs.keys import CLASS_NAMES
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS
from caveat.scale.sources import ANSWERS, NAMES_AT_ONCE, check_order, made_outputs, names_in, stored_keys, stored_names

__all__ = ["ArraySource", "NpyFile", "open_npy_folder", "open_zarr"]


@final
@dataclass(frozen=True)
class NpyFile:
    """Where the numbers of a ``.npy`` file start, and what they are."""

    path: str
    shape: tuple[int, ...]
    dtype: str
    offset: int

    @classmethod
    def of(cls, path: Path) -> NpyFile:
        """Read the header. Arrays in Fortran order, whose rows are not contiguous, are refused."""
        try:
            with path.open("rb") as stream:
                newest = np.lib.format.read_magic(stream) != (1, 0)
                header = np.lib.format.read_array_header_2_0 if newest else np.lib.format.read_array_header_1_0
                shape, fortran, dtype = header(stream)
                offset = stream.tell()
        except Exception:  # damage makes numpy raise errors of many kinds; this call raises the sentence about it
            read_npy(path)
            raise
        if dtype.hasobject:
            read_npy(path)
        if fortran and len(shape) > 1:
            raise InputError(f"{path} is in Fortran order, which cannot be read by rows. "
                             "Save numpy.ascontiguousarray(array).")  # fmt: skip
        if path.stat().st_size < offset + dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise InputError(f"{path} is cut off: it is shorter than its shape {shape} says. Write it again.")
        return cls(str(path), tuple(shape), dtype.str, offset)

    def rows(self, start: int, stop: int, axis: int) -> NDArray[Any]:
        """Rows ``start`` to ``stop`` along axis 0 or 1, in memory."""
        dtype, inner = np.dtype(self.dtype), int(np.prod(self.shape[axis + 1 :], dtype=np.int64))
        steps = range(self.shape[0]) if axis else (0,)
        parts = [
            np.fromfile(self.path, dtype, (stop - start) * inner,
                        offset=self.offset + dtype.itemsize * inner * (step * self.shape[axis] + start))
            for step in steps
        ]  # fmt: skip
        whole = np.stack(parts) if axis else parts[0]
        return whole.reshape(*self.shape[:axis], stop - start, *self.shape[axis + 1 :])


@final
@dataclass(frozen=True, eq=False)
class ArraySource:
    """A folder of ``.npy`` files, or a Zarr group with arrays of the same names."""

    path: str
    kind: Literal["npy", "zarr"]
    n: int
    shapes: Mapping[str, tuple[int, ...]]
    head: Head | None
    files: Mapping[str, NpyFile]
    class_names: tuple[str, ...] | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(self.shapes)

    def read(self, start: int, stop: int, fields: Iterable[str] | None = None, *, check: bool = True) -> Outputs:
        keys = stored_keys(self.shapes, fields)
        arrays = {key: self._rows(key, start, stop) for key in keys}
        return made_outputs(arrays, self.head, where=self.path, start=start, check=check, class_names=self.class_names)

    def named(self) -> ArraySource:
        """This source with the class names that its labels hold, where they are text."""
        parts = (self._rows(key, start, min(start + NAMES_AT_ONCE, self.n)) for key in ANSWERS if key in self.shapes
                 for start in range(0, self.n, NAMES_AT_ONCE))  # fmt: skip
        names = names_in(parts)
        check_order(self, names, self.path)
        return replace(self, class_names=names)

    def _rows(self, key: str, start: int, stop: int) -> NDArray[Any]:
        axis = SAMPLE_AXIS.get(key, 0)
        if self.kind == "npy":
            return self.files[key].rows(start, stop, axis)
        array = self._zarr_arrays[key]
        return np.asarray(array[:, start:stop] if axis else array[start:stop])

    @cached_property
    def _zarr_arrays(self) -> dict[str, Any]:
        return _zarr_arrays(Path(self.path))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_zarr_arrays"}  # opened again elsewhere


def open_npy_folder(path: Path, class_names: tuple[str, ...] | None = None) -> ArraySource:
    """A folder as ``Outputs.save`` writes it, or ``.npy`` files under the same names."""
    path = path.resolve()
    files = plain_files(path)
    if (path / FOLDER.page).exists():
        files = FOLDER.reading(path, lambda _, listed: listed)
    named = {unquote(name.removesuffix(".npy")): file for name, file in files.items()}
    arrays = {key: NpyFile.of(file) for key, file in named.items() if _is_field(key)}
    head = _head({key: read_npy(named[key]) for key in arrays if key.startswith("head_")}, path)
    arrays = {key: file for key, file in arrays.items() if not key.startswith("head_")}
    shapes = {key: file.shape for key, file in arrays.items()}
    source = ArraySource(str(path), "npy", _rows_of(shapes, path), shapes, head, arrays,
                         stored_names(path) or class_names)  # fmt: skip
    return source if source.class_names is not None else source.named()


def open_zarr(path: Path, class_names: tuple[str, ...] | None = None) -> ArraySource:
    """A Zarr group, version 2 or 3, with arrays named like the fields of ``Outputs``."""
    path = path.resolve()
    arrays = _zarr_arrays(path)
    head = _head({key: np.asarray(arrays[key][...]) for key in arrays if key.startswith("head_")}, path)
    shapes = {key: tuple(array.shape) for key, array in arrays.items() if not key.startswith("head_")}
    source = ArraySource(str(path), "zarr", _rows_of(shapes, path), shapes, head, {},
                         _zarr_names(path) or class_names)  # fmt: skip
    return source if source.class_names is not None else source.named()


def _zarr_arrays(path: Path, wanted: Callable[[str], bool] | None = None) -> dict[str, Any]:
    wanted = wanted or _is_field
    try:
        zarr: Any = importlib.import_module("zarr")
    except ImportError:
        raise MissingExtraError("a Zarr source", extra="scale") from None
    try:
        group = zarr.open_group(str(path), mode="r")
        return {unquote(key): group[key] for key in sorted(group.array_keys()) if wanted(unquote(key))}
    except Exception as error:  # of many kinds, by version
        raise InputError(f"{path} cannot be read as a Zarr group ({type(error).__name__}: {error}).") from None


def _zarr_names(path: Path) -> tuple[str, ...] | None:
    arrays = _zarr_arrays(path, lambda key: key == CLASS_NAMES)
    return as_class_names(np.asarray(arrays[CLASS_NAMES][...]).tolist()).names if arrays else None


def _is_field(key: str) -> bool:
    return key in FIELDS or key.startswith(LAYER)


def _head(arrays: Mapping[str, NDArray[Any]], path: Path) -> Head | None:
    if "head_bias" in arrays and "head_weight" not in arrays:
        raise InputError(f"{path} has head_bias but no head_weight. Store both, or neither.")
    return Head(np.array(arrays["head_weight"]), arrays.get("head_bias")) if "head_weight" in arrays else None


def _rows_of(shapes: Mapping[str, tuple[int, ...]], path: Path) -> int:
    if not shapes:
        raise InputError(f"{path} holds none of the arrays {', '.join(FIELDS)}. Rename its arrays.")
    short = [key for key, shape in shapes.items() if len(shape) <= SAMPLE_AXIS.get(key, 0) or 0 in shape]
    if short:
        raise InputError(f"{path}: {short[0]} must hold at least one sample, got shape {shapes[short[0]]}.")
    try:
        return check_same("number of rows", **{key: shape[SAMPLE_AXIS.get(key, 0)] for key, shape in shapes.items()})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
