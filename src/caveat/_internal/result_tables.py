"""Results as a table on disk: always CSV, and the same as Parquet where pyarrow is installed."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from caveat._internal.files import replacing_file
from caveat.errors import InputError, MissingExtraError

__all__ = ["plain_cell", "write_csv", "write_parquet", "write_tables"]


def write_tables(
    rows: Sequence[Mapping[str, Any]], folder: Path, name: str = "results", *, columns: Sequence[str] = ()
) -> Path:
    """Write rows as ``name.csv``, and as ``name.parquet`` where pyarrow is installed; returns the path of the CSV file.

    Without rows the CSV file has the header ``columns`` alone. An older ``name.parquet`` that cannot be replaced is
    removed: both files always hold the same results.
    """
    target = folder / f"{name}.csv"
    if not rows:
        if not columns:
            raise InputError("rows must hold at least one result, got none.")
        with replacing_file(target) as temporary:
            temporary.write_text(",".join(columns) + "\n", encoding="utf-8", newline="\n")
        target.with_suffix(".parquet").unlink(missing_ok=True)
        return target
    write_csv([{column: plain_cell(value) for column, value in row.items()} for row in rows], target)
    if find_spec("pyarrow") is not None:
        write_parquet(rows, target.with_suffix(".parquet"))
    else:
        target.with_suffix(".parquet").unlink(missing_ok=True)
    return target


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a CSV file, with every column that a row has. What is missing is empty."""
    with replacing_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=_columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a Parquet file with the columns of the CSV file. A column of several types becomes text."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("a .parquet file (.csv needs nothing more)", extra="stats") from None

    def column(name: str) -> Any:
        values = [row.get(name) for row in rows]
        try:
            return pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return pa.array([None if value is None else str(value) for value in values])

    table = pa.table({name: column(name) for name in _columns(rows)})
    with replacing_file(path) as temporary:
        pq.write_table(table, temporary, write_page_checksum=True)


def plain_cell(value: Any) -> Any:
    """A value as it stands in a CSV file: NaN is empty, truth values are true and false."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if isinstance(value, float) and math.isnan(value) else value


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))
