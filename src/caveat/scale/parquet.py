"""Parquet as a source: one file or a folder of files, a column per field, vectors as lists of one length."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import damage_errors, read_npy
from caveat.errors import InputError, MissingExtraError
from caveat.outputs import Head, Outputs
from caveat.outputs.files import FIELDS
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS
from caveat.scale.sources import ANSWERS, check_order, made_outputs, names_in, stored_keys, stored_names

__all__ = ["ParquetSource", "open_parquet"]

_COLUMNS = {name for name in FIELDS if SAMPLE_AXIS.get(name) == 0}  # a cell has no room for several passes


@final
@dataclass(frozen=True)
class RowGroup:
    """One row group: the smallest part of a file that can be decoded."""

    path: str
    number: int
    start: int  # of its first row, counted over all files
    stop: int


@final
@dataclass(frozen=True, eq=False)
class ParquetSource:
    """Row groups of all files in the order of their names. A worker holds one decoded group per thread."""

    path: str
    groups: tuple[RowGroup, ...]
    fields: tuple[str, ...]
    head: Head | None
    class_names: tuple[str, ...] | None = None
    _kept: threading.local = field(default_factory=threading.local, repr=False)

    @property
    def n(self) -> int:
        return self.groups[-1].stop

    def read(self, start: int, stop: int, fields: Iterable[str] | None = None, *, check: bool = True) -> Outputs:
        arrays = self._arrays(stored_keys(self.fields, fields), start, stop)
        return made_outputs(arrays, self.head, where=self.path, start=start, check=check, class_names=self.class_names)

    def named(self) -> ParquetSource:
        """This source with the class names that its labels hold, where they are text."""
        parts = (self._arrays([key], group.start, group.stop)[key] for key in ANSWERS if key in self.fields
                 for group in self.groups)  # fmt: skip
        names = names_in(parts)
        check_order(self, names, self.path)
        return replace(self, class_names=names)

    def _arrays(self, keys: list[str], start: int, stop: int) -> dict[str, NDArray[Any]]:
        parts: dict[str, list[NDArray[Any]]] = {key: [] for key in keys}
        for group in self.groups:
            if group.start < stop and group.stop > start:
                table = self._decoded(group, keys)
                first = max(start, group.start) - group.start
                piece = table.slice(first, min(stop, group.stop) - group.start - first)
                for key in keys:
                    parts[key].append(_as_array(piece.column(key), f"{group.path}: {key}"))
        return {key: some[0] if len(some) == 1 else np.concatenate(some) for key, some in parts.items()}

    def _decoded(self, group: RowGroup, keys: list[str]) -> Any:
        """A row group; neighboring reads of one thread decode it once."""
        wanted = (group, tuple(keys))
        if getattr(self._kept, "wanted", None) != wanted:
            self._kept.table = None  # the old one goes before the new one comes
            with damage_errors(Path(group.path), "a Parquet file"):
                opened = _pyarrow_parquet().ParquetFile(group.path, page_checksum_verification=True)
                self._kept.table = opened.read_row_group(group.number, columns=keys, use_threads=False)
            self._kept.wanted = wanted
        return self._kept.table

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_kept"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _kept=threading.local())


def open_parquet(path: Path, *, head: Head | None = None, class_names: tuple[str, ...] | None = None) -> ParquetSource:
    """One file, or a folder of files with the same columns."""
    path = path.resolve()
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    groups: list[RowGroup] = []
    names: tuple[str, ...] | None = None
    start = 0
    for file in files:
        try:
            opened = _pyarrow_parquet().ParquetFile(file)
        except (OSError, ValueError) as error:
            raise InputError(f"{file} cannot be read as Parquet ({error}).") from None
        here = tuple(key for key in opened.schema_arrow.names if key in _COLUMNS or key.startswith(LAYER))
        if names not in (None, here):
            raise InputError(f"{file} has the columns {', '.join(here)}, and {files[0]} {', '.join(names or ())}. "
                             "All files of a folder need the same.")  # fmt: skip
        names = here
        for number in range(opened.metadata.num_row_groups):
            rows = opened.metadata.row_group(number).num_rows
            if rows:
                groups.append(RowGroup(str(file), number, start, start + rows))
                start += rows
    if not groups or not names:
        raise InputError(f"{path} has no rows in columns named {', '.join(sorted(_COLUMNS))}. Rename its columns.")
    source = ParquetSource(str(path), tuple(groups), names, head or _stored_head(path),
                           stored_names(path) or class_names)  # fmt: skip
    return source if source.class_names is not None else source.named()


def _stored_head(folder: Path) -> Head | None:
    weight, bias = (folder / f"head_{name}.npy" for name in ("weight", "bias"))
    if not weight.exists():
        return None
    return Head(np.array(read_npy(weight)), np.array(read_npy(bias)) if bias.exists() else None)


def _as_array(column: Any, what: str) -> NDArray[Any]:
    """A column as a vector, or a column of lists as a matrix."""
    types = importlib.import_module("pyarrow").types
    column = column.combine_chunks()
    if column.null_count:
        raise InputError(f"{what} has missing values. Drop or impute them.")
    if types.is_fixed_size_list(column.type):
        width, values = column.type.list_size, column.flatten()
    elif types.is_list(column.type) or types.is_large_list(column.type):
        offsets = np.asarray(column.offsets)
        widths = np.unique(np.diff(offsets))
        if widths.size != 1:
            raise InputError(f"{what} must hold lists of one length, got {widths[0]} to {widths[-1]} values.")
        width, values = int(widths[0]), column.flatten()
    else:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if values.null_count:
        raise InputError(f"{what} has missing values. Drop or impute them.")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(-1, width)


def _pyarrow_parquet() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError("a Parquet source", extra="scale") from None
