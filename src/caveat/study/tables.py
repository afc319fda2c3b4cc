"""Results as a table on disk: Parquet where pyarrow is installed, CSV where it is not."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from caveat._internal.files import replacing_file
from caveat.errors import InputError

__all__ = ["write_csv", "write_table"]


def write_table(rows: Sequence[Mapping[str, Any]], folder: Path, name: str = "results") -> Path:
    """Write rows with equal keys as ``name.parquet``, or ``name.csv`` without pyarrow; returns the path."""
    if not rows:
        raise InputError("rows must hold at least one result, got none.")
    if find_spec("pyarrow") is not None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        target = folder / f"{name}.parquet"
        with replacing_file(target) as temporary:
            pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), temporary)
        return target
    target = folder / f"{name}.csv"
    write_csv(rows, target)
    return target


def write_csv(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write rows as a CSV file, with every column that a row has."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with replacing_file(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
