"""Results of any benchmark as blocks x methods: arrays, columns, rows, data frames, CSV and Parquet files."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_array, as_list, check_known, check_same, check_shape
from caveat._internal.files import path_errors
from caveat.errors import InputError, MissingExtraError

__all__ = ["Blocks", "keep_rows", "read_blocks", "read_columns", "split_columns"]

Columns = dict[str, NDArray[Any]]


@final
@dataclass(frozen=True, eq=False)
class Blocks:
    """Values (N, k) of k methods in N complete blocks, and how many blocks were incomplete."""

    values: NDArray[np.float64]
    methods: tuple[str, ...]
    dropped: int
    missing: tuple[str, ...]  # methods that the dropped blocks lacked


def read_blocks(
    table: Any,
    *,
    block: str | Sequence[str] | None = None,
    method: str | None = None,
    value: str | None = None,
    methods: Sequence[str] | None = None,
) -> Blocks:
    """Blocks from a long table (``block``, ``method`` and ``value`` name its columns) or from a wide one.

    A wide table has one column per method and one row per block; columns named by ``block`` only say which block it
    is. A plain (N, k) array is wide; ``methods`` names its columns. A block that lacks a method, or has NaN for it, is
    dropped and counted.
    """
    if (method is None) != (value is None):
        raise InputError("a long table needs both method and value to be named; a wide one needs neither.")
    methods = None if methods is None else as_list(methods, "methods")
    if not isinstance(table, (str, os.PathLike)) and not _is_table(table):
        values, names = _from_array(table, methods)
    else:
        columns = read_columns(table)
        keys = [block] if isinstance(block, str) else list(block or [])
        for name in [*keys, *filter(None, (method, value))]:
            check_known(name, columns, "column")
        if method is not None and value is not None:
            values, names = _from_long(columns, keys, method, value)
        else:
            values, names = _from_wide(columns, keys)
        if methods is not None:
            for name in methods:
                check_known(name, names, "method")
            if len(set(methods)) < len(methods):
                raise InputError(f"methods must be different names, got {list(methods)}.")
            values, names = values[:, [names.index(name) for name in methods]], list(methods)
    complete = ~np.isnan(values).any(axis=1)
    missing = np.flatnonzero(np.isnan(values).any(axis=0))
    return Blocks(values[complete], tuple(names), int((~complete).sum()), tuple(names[i] for i in missing))


def read_columns(table: Any) -> Columns:
    """The columns of a table by name: a path to CSV or Parquet, a data frame, a pyarrow table, columns or rows."""
    if isinstance(table, (str, os.PathLike)):
        return _read_file(Path(table))
    if not _is_table(table):
        raise InputError(f"table must be a path, columns by name, rows or a data frame, got {type(table).__name__}.")
    if isinstance(table, Sequence):
        names = list(table[0])
        if any(set(row) != set(names) for row in table):
            raise InputError("table must have the same columns in every row.")
        return {str(name): np.asarray([row[name] for row in table]) for name in names}
    names = list(table) if isinstance(table, Mapping) else list(getattr(table, "column_names", None) or table.columns)
    columns = {str(name): as_array(table[name], f"column '{name}'") for name in as_list(names, "the columns of table")}
    shape = check_same("length", **{name: column.shape for name, column in columns.items()})
    if len(shape) != 1 or not shape[0]:
        raise InputError(f"table must have at least one row and one value per row and column, got columns of {shape}.")
    return columns


def keep_rows(columns: Columns, where: Mapping[str, str]) -> Columns:
    """The rows in which each named column has the given value."""
    kept = np.ones(next(iter(columns.values())).size, dtype=np.bool_)
    for name, wanted in where.items():
        check_known(name, columns, "column")
        cells = [str(cell) for cell in columns[name].tolist()]
        if wanted not in cells:
            raise InputError(f"no row has {name} = {wanted}; it has {', '.join(sorted(set(cells))[:20])}.")
        kept &= np.asarray([cell == wanted for cell in cells])
    if not kept.any():
        raise InputError(f"no row has {' and '.join(f'{k} = {v}' for k, v in where.items())}.")
    return {name: column[kept] for name, column in columns.items()}


def split_columns(columns: Columns, by: str) -> dict[str, Columns]:
    """The rows of each value of one column, in order of first appearance."""
    check_known(by, columns, "column")
    keys = _as_text(columns[by], by)
    _, first = np.unique(keys, return_index=True)
    rest = [name for name in columns if name != by]
    return {str(key): {name: columns[name][keys == key] for name in rest} for key in keys[np.sort(first)]}


def _is_table(table: Any) -> bool:
    if isinstance(table, Mapping) or hasattr(table, "columns") or hasattr(table, "column_names"):
        return True
    return isinstance(table, Sequence) and len(table) > 0 and isinstance(table[0], Mapping)


def _read_file(path: Path) -> Columns:
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            from pyarrow import parquet
        except ImportError:
            raise MissingExtraError("reading Parquet", extra="stats") from None
        try:
            with path_errors(path, "read"):
                return read_columns(parquet.read_table(path, page_checksum_verification=True))
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is not a Parquet file ({error}).") from None
    try:
        with path_errors(path, "read"), path.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.reader(stream, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV ({error}).") from None
    rows = [row for row in rows if row]
    if len(rows) < 2:
        raise InputError(f"{path} must have a header and at least one row, got {len(rows)} lines.")
    header = rows[0]
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise InputError(f"{path} has two columns called '{twice}'. Rename one.")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise InputError(f"{path} has {len(header)} columns, but line {number} has {len(row)}.")
    return {name: np.asarray(column) for name, column in zip(header, zip(*rows[1:], strict=True), strict=True)}


def _from_array(table: Any, methods: Sequence[str] | None) -> tuple[NDArray[np.float64], list[str]]:
    try:
        values = np.asarray(table)
    except ValueError:
        raise InputError("table must have one value per method in every block; the rows differ in length. Write NaN "
                         "where a value is missing.") from None  # fmt: skip
    values = _as_numbers(values, "table")
    check_shape(values, "table", 2, "(blocks x methods) array")
    names = [f"method {i}" for i in range(values.shape[1])] if methods is None else [str(name) for name in methods]
    if len(names) != values.shape[1] or len(set(names)) != len(names):
        raise InputError(f"methods must be {values.shape[1]} different names, one per column, got {names}.")
    return values, names


def _from_wide(columns: Columns, keys: list[str]) -> tuple[NDArray[np.float64], list[str]]:
    names, numbers = [name for name in columns if name not in keys], []
    for name in names:
        try:
            numbers.append(_as_numbers(columns[name], name))
        except InputError:
            raise InputError(f"column '{name}' is not numeric. In a wide table every column is a method; for a long "
                             "one name its block, method and value columns.") from None  # fmt: skip
    return np.column_stack(numbers), names


def _from_long(columns: Columns, keys: list[str], method: str, value: str) -> tuple[NDArray[np.float64], list[str]]:
    if not keys:
        raise InputError("a long table needs block: the columns that say which rows were measured together.")
    numbers = _as_numbers(columns[value], value)
    names, which = np.unique(_as_text(columns[method], method), return_inverse=True)
    code = np.zeros(numbers.size, dtype=np.intp)
    for key in keys:
        levels, level = np.unique(_as_text(columns[key], key), return_inverse=True)
        code = np.unique(code * levels.size + level, return_inverse=True)[1]
    cell = code * names.size + which
    times = np.bincount(cell)
    if times.max() > 1:
        row = int(np.flatnonzero(cell == np.argmax(times > 1))[0])
        where = ", ".join(f"{key} = {columns[key][row]}" for key in keys)
        raise InputError(
            f"a block must have one value per method, got {times[cell[row]]} of {method} = {names[which[row]]} at "
            f"{where}. Add the column that tells them apart (a seed, a metric) to block, or keep one of its values."
        )
    values = np.full((code.max() + 1, names.size), np.nan)
    values[code, which] = numbers
    return values, [str(name) for name in names]


def _as_numbers(column: NDArray[Any], name: str) -> NDArray[np.float64]:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    try:
        cells = [np.nan if _is_missing(cell) else float(cell) for cell in column.ravel().tolist()]
        return np.asarray(cells).reshape(column.shape)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column '{name}' must hold numbers ({error}).") from None


def _as_text(column: NDArray[Any], name: str) -> NDArray[np.str_]:
    cells = column.tolist()
    for row, cell in enumerate(cells):
        if _is_missing(cell):
            raise InputError(f"column '{name}' has a missing value at row {row}. Fill it in or drop the row.")
    return np.asarray([str(cell) for cell in cells])


def _is_missing(cell: Any) -> bool:
    return cell is None or str(cell).lower() in ("", "nan", "<na>", "nat")
