"""Export: the verdicts of an audit trail as a table, a few records at a time in memory."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import orjson

from caveat._internal.files import replacing_file
from caveat.errors import InputError, MissingExtraError
from caveat.serve.audit.record import Record
from caveat.serve.audit.store import AuditStore, Damaged
from caveat.serve.audit.verify import anchor

__all__ = ["COLUMNS", "export_trail"]

COLUMNS = ("id", "at", "kind", "prediction", "score", "doubt", "p_value", "conditional_p_value", "set", "label")
_ROWS = 50_000  # in memory, and in a row group of a Parquet file
_FLOATS = ("score", "doubt", "p_value", "conditional_p_value")

Progress = Callable[[str, int, int], None]
Columns = dict[str, list[Any]]
Write = Callable[[Columns], None]


def export_trail(
    store: AuditStore, path: str | os.PathLike[str], *, since: str = "", until: str = "~",
    progress: Progress | None = None,
) -> int:  # fmt: skip
    """Write one row per verdict to a ``.parquet``, ``.csv`` or ``.jsonl`` file.

    Parameters
    ----------
    store
        The audit trail; a service may go on writing to it.
    path
        The file. Its ending names the format; Parquet needs the extra ``stats``.
    since, until
        Times, UTC, as in the records: verdicts from ``since`` on and before ``until``. Default: all.
    progress
        Called with what is done, the steps so far and all steps.

    Returns
    -------
    int
        Number of rows written.

    Examples
    --------
    >>> import tempfile
    >>> from caveat.serve import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(f"{folder}/audit.sqlite")
    ...     export_trail(store, f"{folder}/verdicts.csv")
    ...     store.close()
    0
    """
    target = Path(path)
    writers: dict[str, Callable[[Path], AbstractContextManager[Write]]] = {
        ".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl,
    }  # fmt: skip
    if target.suffix not in writers:
        raise InputError(f"the file must end in {', '.join(writers)}, got {target.name}.")
    with store.reading(), replacing_file(target) as temporary, writers[target.suffix](temporary) as write:
        header, last = store.header(), store.last()
        first, rows = anchor(store)[0], 0
        columns = _empty()
        for record in store.records(first):
            if record.entry.kind == "verdicts" and since <= record.entry.at < until:
                for part in _parts(record, header.get("chain", "")):
                    for name, values in part.items():
                        columns[name] += values
                    if len(columns["id"]) >= _ROWS:
                        rows += _flush(store, columns, write)
            if progress is not None and last is not None and record.seq % 256 == 0:
                progress("exporting", record.seq - first, last.seq - first)
        return rows + _flush(store, columns, write)


def _empty() -> Columns:
    return {name: [] for name in COLUMNS}


def _parts(record: Record, chain: str) -> Iterator[Columns]:
    """The columns of a record; ``label`` holds the row, whose label is looked up later."""
    n, entry = record.entry.rows, record.entry
    try:
        body = orjson.loads(entry.body)
        columns = {name: [None] * n if body[name] is None else body[name] for name in COLUMNS if name in body}
        for name in _FLOATS:
            columns[name] = [float(value) if isinstance(value, str) else value for value in columns[name]]
    except (ValueError, KeyError, TypeError) as error:
        raise Damaged(f"its content cannot be read ({type(error).__name__})", seq=record.seq) from None
    rows = range(entry.first_row, entry.first_row + n)
    columns |= {"id": [f"{chain}-{row}" for row in rows], "at": [entry.at] * n, "label": list(rows)}
    for start in range(0, n, _ROWS):
        yield {name: columns[name][start : start + _ROWS] for name in COLUMNS}


def _flush(store: AuditStore, columns: Columns, write: Write) -> int:
    labels = store.labels_of(columns["label"])
    columns["label"] = [labels.get(row) for row in columns["label"]]
    rows = len(columns["id"])
    if rows:
        write(columns)
    columns.update(_empty())
    return rows


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("a .parquet file (.csv and .jsonl need nothing more)", extra="stats") from None
    types = {"id": pa.string(), "at": pa.timestamp("ms", tz="UTC"), "kind": pa.string(), "prediction": pa.int64(),
             "set": pa.list_(pa.int64()), "label": pa.int64()} | dict.fromkeys(_FLOATS, pa.float64())  # fmt: skip
    schema = pa.schema([(name, types[name]) for name in COLUMNS])
    with pq.ParquetWriter(path, schema, write_page_checksum=True) as writer:

        def write(columns: Columns) -> None:
            text = pa.array([at.removesuffix("Z") for at in columns["at"]])
            arrays = {name: pa.array(columns[name], types[name]) for name in COLUMNS if name != "at"}
            arrays["at"] = text.cast(pa.timestamp("ms")).cast(types["at"])
            writer.write_table(pa.table([arrays[name] for name in COLUMNS], schema=schema))

        yield write


@contextmanager
def _csv(path: Path) -> Iterator[Write]:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)

        def write(columns: Columns) -> None:
            sets = ["" if labels is None else " ".join(map(str, labels)) for labels in columns["set"]]
            writer.writerows(zip(*((columns | {"set": sets})[name] for name in COLUMNS), strict=True))

        yield write


@contextmanager
def _jsonl(path: Path) -> Iterator[Write]:
    with path.open("wb") as stream:

        def write(columns: Columns) -> None:
            for row in zip(*(columns[name] for name in COLUMNS), strict=True):
                # orjson writes infinity as null, which would read as "no score"
                values = [str(value) if value in (float("inf"), float("-inf")) else value for value in row]
                stream.write(orjson.dumps(dict(zip(COLUMNS, values, strict=True)), option=orjson.OPT_APPEND_NEWLINE))

        yield write
