"""CSV and TSV files as tables of outputs: with pyarrow where it is installed, else with the standard library.

pyarrow is only the faster of two readers. Whatever it refuses is read again by the plain one, which names row and
column.
"""

from __future__ import annotations

import csv
import importlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import path_errors
from caveat.errors import InputError
from caveat.outputs.keys import VECTORS
from caveat.outputs.tables import Table, different

__all__ = ["TEXT", "TextTable"]

Array = NDArray[Any]

TEXT = (".csv", ".tsv")
_ROWS = 4096  # parsed at once by the plain reader
_CHUNK = 2**20  # bytes
_TRUTH = {"true": True, "false": False}


@final
class TextTable(Table):
    """A CSV or TSV file in UTF-8, with a header."""

    def __init__(self, path: Path) -> None:
        self.path, self._delimiter = path, "\t" if path.suffix.lower() == ".tsv" else ","
        with self._lines() as lines:
            header = next(lines, [])
        for sign in {";", "\t", ","} - {self._delimiter}:
            if len(header) == 1 and header[0].count(sign) > 0:
                raise InputError(f"{path} has one column, whose name holds {sign!r}: columns of a {path.suffix} file "
                                 f"are separated by {self._delimiter!r}. Write it with "
                                 f"table.to_csv(path, sep={self._delimiter!r}).")  # fmt: skip
        self.names = different(header, path)

    @cached_property
    def n(self) -> int:
        if (count := _plain_lines(self.path)) is not None:
            return count - 1
        with self._lines() as lines:
            return sum(1 for line in lines if line) - 1

    def width(self, name: str) -> int | None:
        return None

    def dtype(self, name: str) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def blocks(self, names: Sequence[str], rows: range, size: int) -> Iterator[tuple[int, Mapping[str, Array]]]:
        try:
            yield from self._by_pyarrow(names, rows, "float64")
        except MemoryError:
            raise
        except Exception:  # not installed, or a value that it refuses: the plain reader says which
            for start, texts in self._texts(names, rows):
                yield start, {name: self._numbers(texts[name], name, start) for name in names}

    def read(self, fields: Mapping[str, tuple[str, ...]], rows: range | None = None) -> dict[str, Array]:
        if self.n < 1:
            raise InputError(f"{self.path} must have a header and at least one row, got {self.n + 1} lines.")
        words = {field: columns for field, columns in fields.items() if field in VECTORS - {"confidence"}}
        arrays = super().read({field: columns for field, columns in fields.items() if field not in words}, rows)
        rows = range(self.n) if rows is None else rows
        for field, columns in words.items():
            self.shape(field, columns)
            cells = self._cells(columns[0], rows)[rows.start : rows[-1] + 1 : rows.step]
            arrays[field] = self._classes(cells, columns[0], rows)
        return {field: arrays[field] for field in fields}

    def _cells(self, name: str, rows: range) -> Array:
        """A column as text, up to the last of the rows."""
        try:
            blocks = [block[name] for _, block in self._by_pyarrow([name], rows, "string")]
        except MemoryError:
            raise
        except Exception:  # as in blocks
            blocks = [block[name] for _, block in self._texts([name], rows)]
        return np.concatenate(blocks)

    def _by_pyarrow(self, names: Sequence[str], rows: range, kind: str) -> Iterator[tuple[int, dict[str, Array]]]:
        reader = importlib.import_module("pyarrow.csv")
        batches = reader.open_csv(
            str(self.path),
            read_options=reader.ReadOptions(use_threads=False, block_size=8 * _CHUNK),
            parse_options=reader.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
            convert_options=reader.ConvertOptions(
                include_columns=list(names), column_types=dict.fromkeys(names, kind), null_values=[""]
            ),
        )
        start = 0
        for batch in batches:
            if any(column.null_count for column in batch.columns):
                raise ValueError("a value is missing")
            yield start, {name: batch.column(name).to_numpy(zero_copy_only=False) for name in names}
            start += batch.num_rows
            if start > rows[-1]:
                return
        raise ValueError(f"it has {start} rows")

    def _texts(self, names: Sequence[str], rows: range) -> Iterator[tuple[int, dict[str, Array]]]:
        """Blocks of cells as text."""
        places = [self.names.index(name) for name in names]
        with self._lines() as lines:
            next(lines)
            filled = (line for line in lines if line)
            for start in itertools.count(0, _ROWS):
                block = list(itertools.islice(filled, _ROWS))
                if not block or start > rows[-1]:
                    return
                for row, line in enumerate(block, start):
                    if len(line) != len(self.names):
                        raise InputError(f"{self.path} has {len(self.names)} columns, but row {row} has {len(line)} "
                                         "values (counted from 0 below the header).")  # fmt: skip
                yield start, {name: np.array([line[place] for line in block], dtype=object)
                              for name, place in zip(names, places, strict=True)}  # fmt: skip

    def _numbers(self, cells: Array, name: str, start: int) -> Array:
        try:
            return cells.astype(np.float64)
        except ValueError:
            row = next(row for row, cell in enumerate(cells) if not _is_number(cell))
            if not cells[row].strip():
                raise self.missing(name, start + row) from None
            raise InputError(f"{self.path}: column '{name}' must hold numbers, got '{cells[row][:40]}' at row "
                             f"{start + row}.") from None  # fmt: skip

    def _classes(self, cells: Array, name: str, rows: range) -> Array:
        """Classes as whole numbers or truth values where all cells are such, else as text."""
        texts = [cell.strip() for cell in cells]
        if "" in texts:
            raise self.missing(name, rows[texts.index("")])
        if all(text.lower() in _TRUTH for text in texts):
            return np.array([_TRUTH[text.lower()] for text in texts])
        if all(map(_is_number, texts)):
            numbers = np.array(texts, dtype=object).astype(np.float64)
            return numbers.astype(np.int64) if (np.abs(numbers) < 2**53).all() and (numbers % 1 == 0).all() else numbers
        return np.array(texts)

    @contextmanager
    def _lines(self) -> Iterator[Iterator[list[str]]]:
        try:
            with path_errors(self.path, "read"), self.path.open(newline="", encoding="utf-8-sig") as stream:
                yield csv.reader(stream, delimiter=self._delimiter, strict=True)
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{self.path} cannot be read as a text table in UTF-8 ({error}). "
                             "Write it again.") from None  # fmt: skip


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _plain_lines(path: Path) -> int | None:
    """Lines of a file that has neither quotes nor empty lines nor old line ends; None: they must be parsed."""
    count, last = 0, b"\n"
    with path_errors(path, "read"), path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            text = (last[-3:] + chunk).replace(b"\r\n", b"\n")
            if b'"' in chunk or b"\r" in text.removesuffix(b"\r") or b"\n\n" in text:
                return None
            count += chunk.count(b"\n")
            last = chunk if len(chunk) > 2 else last + chunk
    return count + (not last.endswith(b"\n"))
