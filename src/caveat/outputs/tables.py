"""Tables as files of outputs: Parquet, Arrow (file and stream), Feather, CSV and TSV.

A field is one column, a column of lists of one length, or several columns. The columns of a field are decoded in row
blocks straight into its array, so that no value is in memory twice.
"""

from __future__ import annotations

import base64
import importlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import check_room, damage_errors
from caveat.errors import InputError, MissingExtraError
from caveat.outputs.keys import VECTORS

__all__ = ["ARROW", "PARQUET", "ArrowTable", "ParquetTable", "Table", "different"]

Array = NDArray[Any]

PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc", ".arrows")
_BLOCK = 8 * 2**20  # bytes of a field that are decoded at once


class Table(ABC):
    """A table that is open: its columns are known, its values are not read yet."""

    path: Path
    names: tuple[str, ...]
    in_parts = "store a folder of .npy files, which is read in parts"  # what to do where memory is too small
    columns_at_once: int | None = None  # that are decoded together; None: all of a field

    @property
    @abstractmethod
    def n(self) -> int:
        """Rows."""

    @abstractmethod
    def width(self, name: str) -> int | None:
        """How many numbers a cell of this column holds; None: one."""

    @abstractmethod
    def dtype(self, name: str) -> np.dtype[Any]:
        """Type of the numbers of a column in an array; object for text."""

    @abstractmethod
    def blocks(self, names: Sequence[str], rows: range, size: int) -> Iterator[tuple[int, Mapping[str, Array]]]:
        """Row blocks of about ``size`` rows that cover ``rows``: number of the first row, and an array for each column.

        Cells are checked: none is missing, and all lists of a column have one length.
        """

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of every column."""
        return {name: (self.n,) if (width := self.width(name)) is None else (self.n, width) for name in self.names}

    def shape(self, field: str, columns: tuple[str, ...]) -> tuple[int, ...]:
        """Shape of a field that is made of these columns."""
        widths = [self.width(name) for name in columns]
        if field in VECTORS:
            if len(columns) > 1 or widths[0] is not None:
                raise InputError(f"{self.path}: {field} must be one column with one value per row, got "
                                 f"{len(columns)} columns or a list.")  # fmt: skip
            return (self.n,)
        return (self.n, sum(width or 1 for width in widths))

    def read(self, fields: Mapping[str, tuple[str, ...]], rows: range | None = None) -> dict[str, Array]:
        """The arrays of the fields, each from its columns."""
        rows = range(self.n) if rows is None else rows
        arrays, shapes = {}, {field: self.shape(field, columns) for field, columns in fields.items()}
        types = {field: _common_type([self.dtype(name) for name in names]) for field, names in fields.items()}
        for field, columns in fields.items():
            for name in columns:
                if field not in VECTORS and self.dtype(name).kind == "O":
                    raise self._not_numbers(name, rows)
        room = sum(len(rows) * int(np.prod(shape[1:], initial=8)) for shape in shapes.values())
        check_room(room, self.path, f"Read fewer rows, or {self.in_parts}.")
        for field, columns in fields.items():
            arrays[field] = self._field(columns, (len(rows), *shapes[field][1:]), types[field], rows)
        return arrays

    def _field(self, columns: Sequence[str], shape: tuple[int, ...], dtype: np.dtype[Any], rows: range) -> Array:
        array = np.empty(shape, dtype=dtype)
        flat = array.reshape(len(rows), -1)
        size = max(1, _BLOCK // (8 * max(1, flat.shape[1])))
        at_once, place = self.columns_at_once or len(columns), 0
        for part in (columns[i : i + at_once] for i in range(0, len(columns), at_once)):
            last, first = 0, place
            for start, block in self.blocks(part, rows, size):
                place = first
                for name in part:
                    values = block[name].reshape(len(block[name]), -1)
                    kept = _kept(rows, start, len(values))
                    flat[kept[0], place : place + values.shape[1]] = values[kept[1]]
                    place += values.shape[1]
                last = start + len(values)
            if last <= rows[-1]:
                raise InputError(f"{self.path} is damaged: it ends after row {last}. Write it again.")
        return array

    def missing(self, name: str, row: int) -> InputError:
        """What to say of an empty cell."""
        return InputError(f"{self.path}: column '{name}' has no value at row {row}. Fill it in or drop the row.")

    def _not_numbers(self, name: str, rows: range) -> InputError:
        _, block = next(self.blocks([name], rows, 1))
        return InputError(
            f"{self.path}: column '{name}' must hold numbers, got {block[name][0]!r} at row {rows.start}."
        )


def _kept(rows: range, start: int, count: int) -> tuple[slice, slice]:
    """Where the rows of a block that starts at ``start`` go, and which of them."""
    first = max(0, -(-(start - rows.start) // rows.step))
    last = min(len(rows), max(0, -(-(start + count - rows.start) // rows.step)))
    return slice(first, last), slice(rows.start + first * rows.step - start, None if last <= first else
                                     rows.start + (last - 1) * rows.step - start + 1, rows.step)  # fmt: skip


def _common_type(types: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    return types[0] if len(types) == 1 else np.result_type(*types)


# -- Arrow and Parquet ------------------------------------------------------------------------------------------------


class _ArrowColumns(Table):
    """What Parquet and Arrow have in common: a schema, and batches of Arrow arrays."""

    what: str
    schema: Any

    @abstractmethod
    def _batches(self, names: Sequence[str], rows: range, size: int) -> Iterator[tuple[int, Any]]: ...

    @cached_property
    def _widths(self) -> dict[str, int | None]:
        with damage_errors(self.path, self.what):
            return {name: self._width(name) for name in self.names}

    def width(self, name: str) -> int | None:
        return self._widths[name]

    def _width(self, name: str) -> int | None:
        types, kind = _pyarrow().types, self.schema.field(name).type
        if types.is_fixed_size_list(kind):
            return int(kind.list_size)
        if not _is_list(types, kind):
            return None
        for _, batch in self._batches([name], range(1), 1):  # lists of any length: the first one says which
            return len(batch.column(0)[0].as_py() or ()) if batch.num_rows else None
        return None

    def dtype(self, name: str) -> np.dtype[Any]:
        types, kind = _pyarrow().types, self.schema.field(name).type
        if types.is_fixed_size_list(kind) or _is_list(types, kind):
            kind = kind.value_type
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind):
            plain: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
            return plain
        return np.dtype(np.float64 if types.is_decimal(kind) or types.is_null(kind) else object)

    def blocks(self, names: Sequence[str], rows: range, size: int) -> Iterator[tuple[int, Mapping[str, Array]]]:
        with damage_errors(self.path, self.what):
            for start, batch in self._batches(names, rows, size):
                yield start, {name: self._values(batch.column(name), name, start) for name in names}

    def _values(self, column: Any, name: str, start: int) -> Array:
        pa = _pyarrow()
        if column.null_count:
            raise self.missing(name, start + _first_null(column))
        width = self.width(name)
        if width is not None:
            lengths = np.full(len(column), width) if pa.types.is_fixed_size_list(column.type) else np.asarray(
                column.value_lengths())  # fmt: skip
            if (lengths != width).any():
                row = int(np.argmax(lengths != width))
                raise InputError(f"{self.path}: column '{name}' must hold lists of one length, got {width} values at "
                                 f"row 0 and {lengths[row]} at row {start + row}.")  # fmt: skip
            column = column.flatten()
            if column.null_count:
                raise self.missing(name, start + _first_null(column) // max(1, width))
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values: Array = np.asarray(column.to_numpy(zero_copy_only=False))
        return values if width is None else values.reshape(-1, width)


@final
class ParquetTable(_ArrowColumns):
    """One Parquet file; only the wanted columns of the wanted row groups are decoded."""

    what = "a Parquet file"
    in_parts = "read columns of lists by row ranges: caveat.scale, --workers 1"
    columns_at_once = 8  # a reader holds pages of each of its columns, 2 MB or more

    def __init__(self, path: Path) -> None:
        parquet = _pyarrow("pyarrow.parquet")
        self.path = path
        with damage_errors(path, self.what):
            self._file = parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True)
            self.schema = self._file.schema_arrow
            self._starts = np.cumsum([0, *(self._file.metadata.row_group(i).num_rows
                                           for i in range(self._file.metadata.num_row_groups))])  # fmt: skip
            self.names = different(self.schema.names, path)
            _check_names(self.schema, self._file.metadata)

    @property
    def n(self) -> int:
        return int(self._starts[-1])

    def _batches(self, names: Sequence[str], rows: range, size: int) -> Iterator[tuple[int, Any]]:
        for group, (start, stop) in enumerate(itertools.pairwise(self._starts.tolist())):
            if stop <= rows.start or start > rows[-1] or start == stop:
                continue
            done = start
            for batch in self._file.iter_batches(size, row_groups=[group], columns=list(names), use_threads=False):
                yield done, batch.select(list(names))
                done += batch.num_rows
            if done != stop:
                raise ValueError(f"row group {group} has {stop - done} rows less than it says")


def _check_names(schema: Any, metadata: Any) -> None:
    """Raise ValueError where damage changed the name of a column, which no checksum of Parquet covers.

    Arrow writes the names twice: as those of the columns, and in its own schema among the key-value pairs. The names in
    each column chunk are not asked: pyarrow ends the process where such an entry is damaged.
    """
    written = (metadata.metadata or {}).get(b"ARROW:schema")
    if written is not None:
        pa = _pyarrow()
        names = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written))).names
        if odd := set(schema.names).symmetric_difference(names):
            raise ValueError(f"the column {min(odd)!r} has two names")


@final
class ArrowTable(_ArrowColumns):
    """An Arrow file, an Arrow stream or a Feather file; memory-mapped, so that plain columns are not copied."""

    what = "an Arrow file"

    def __init__(self, path: Path) -> None:
        pa = _pyarrow()
        self.path = path
        with damage_errors(path, self.what):
            with path.open("rb") as stream:
                start = stream.read(6)
            if start[:4] == b"FEA1":
                raise InputError(f"{path} is a Feather file of version 1, which is no longer written. Write it again "
                                 "with pyarrow.feather.write_feather.")  # fmt: skip
            if not start:
                raise ValueError("it is empty")
            self._open = pa.ipc.open_file if start == b"ARROW1" else pa.ipc.open_stream
            self._is_file = start == b"ARROW1"
            with pa.memory_map(str(path)) as source:
                self.schema = self._open(source).schema
            self.names = different(self.schema.names, path)

    @cached_property
    def n(self) -> int:
        pa = _pyarrow()
        with damage_errors(self.path, self.what), pa.memory_map(str(self.path)) as source:
            source.seek(8 if self._is_file else 0)  # a file is a stream between two marks
            messages = pa.ipc.MessageReader.open_stream(source)
            return sum(_rows_of(memoryview(message.metadata)) for message in messages if message.type == "record batch")

    def _each(self, names: Sequence[str]) -> Iterator[Any]:
        pa = _pyarrow()
        wanted = pa.ipc.IpcReadOptions(included_fields=sorted(self.names.index(name) for name in names))
        with pa.memory_map(str(self.path)) as source:
            reader = self._open(source, options=wanted)
            batches = map(reader.get_batch, range(reader.num_record_batches)) if self._is_file else reader
            for batch in batches:
                batch.validate(full=True)
                yield batch

    def _batches(self, names: Sequence[str], rows: range, size: int) -> Iterator[tuple[int, Any]]:
        start = 0
        for batch in self._each(names):
            if start > rows[-1]:
                return
            if start + batch.num_rows > rows.start and batch.num_rows:
                yield start, batch
            start += batch.num_rows


def _rows_of(message: memoryview) -> int:
    """Rows of a record batch, from its description alone: nothing is unpacked, however much it would be.

    The description is a FlatBuffers table (format/Message.fbs of Arrow): its third field is the batch, whose first
    field is the number of rows.
    """
    batch = _field_place(message, int.from_bytes(message[:4], "little"), 2)
    batch += int.from_bytes(message[batch : batch + 4], "little")
    length = _field_place(message, batch, 0)
    rows = int.from_bytes(message[length : length + 8], "little", signed=True)
    if rows < 0:
        raise ValueError("a batch has less than no rows")
    return rows


def _field_place(message: memoryview, table: int, field: int) -> int:
    """Where a field of a FlatBuffers table stands."""
    fields = table - int.from_bytes(message[table : table + 4], "little", signed=True)
    place = fields + 4 + 2 * field
    return table + int.from_bytes(message[place : place + 2], "little")


def _first_null(column: Any) -> int:
    return int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))


def _is_list(types: Any, kind: Any) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def different(names: Sequence[str], path: Path) -> tuple[str, ...]:
    """Column names, which must differ."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InputError(f"{path} has two columns called '{twice}'. Rename one.")
    if not names:
        raise InputError(f"{path} has no columns.")
    return tuple(names)


def _pyarrow(module: str = "pyarrow") -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError("reading Parquet and Arrow files", extra="stats") from None
