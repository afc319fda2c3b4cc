"""What a cell stores: records, one struct column per kind with its schema from the dataclass, or rows of a task."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from caveat._internal.checks import as_kind
from caveat.errors import InputError
from caveat.evaluation.records import RECORDS, Record

__all__ = ["Row", "as_content", "is_record_table", "records_in", "records_of_tables", "records_table"]

Row = dict[str, Any]
_PLAIN = {str, int, float, bool, type(None)}
_TOGETHER = 32 * 2**20  # bytes of tables that are decoded at once


def records_table(records: Iterable[Record]) -> Any:
    """A ``pyarrow.Table`` that holds the records in their order."""
    import pyarrow as pa

    kept = list(records)
    kinds = [kind for kind in RECORDS if any(type(record).__name__ == kind for record in kept)]
    columns = {}
    for kind in kinds:
        rows = [_encode(record) if type(record).__name__ == kind else None for record in kept]
        columns[kind] = pa.array(rows, type=_arrow_type(RECORDS[kind]))
    return pa.table(columns) if columns else pa.table({"Data": pa.array([], type=_arrow_type(RECORDS["Data"]))})


def is_record_table(schema: Any) -> bool:
    """Whether a schema is that of records; one that should be and differs from the dataclasses is damaged."""
    names = schema.names
    if not names or any(name not in RECORDS for name in names):
        return False
    for name in names:
        if schema.field(name).type != _arrow_type(RECORDS[name]):
            raise InputError(f"the records of kind {name} have other fields than this version of Caveat writes.")
    return True


def records_in(table: Any, kinds: Iterable[type[Any]] | None = None) -> Iterator[Record]:
    """The records of a table in their order, of the wanted kinds."""
    wanted = None if kinds is None else {kind.__name__ for kind in kinds}
    columns = [
        _decode(RECORDS[name], table.column(name).combine_chunks())
        for name in table.column_names
        if wanted is None or name in wanted
    ]
    for row in zip(*columns, strict=True):
        yield from (record for record in row if record is not None)


def records_of_tables(tables: Iterable[Any], kinds: Iterable[type[Any]] | None = None) -> Iterator[Record]:
    """The records of several tables, one table after the other; tables of other rows than records have none.

    Tables are joined before they are decoded: the cells of a study are small, and the calls into Arrow take longer
    than the values.
    """
    import pyarrow as pa

    wanted = None if kinds is None else tuple(kinds)
    waiting: list[Any] = []
    room = _TOGETHER
    for table in tables:
        if not is_record_table(table.schema):
            continue
        waiting.append(table.replace_schema_metadata(None))
        room -= table.get_total_buffer_size()
        if room <= 0:
            yield from records_in(pa.concat_tables(waiting, promote_options="default"), wanted)
            waiting, room = [], _TOGETHER
    if waiting:
        yield from records_in(pa.concat_tables(waiting, promote_options="default"), wanted)


# -- types ------------------------------------------------------------------------------------------------------------


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _plain(hint: Any) -> Any:
    """The type without None, and text for a literal."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    return str if get_origin(hint) is Literal else hint


@cache
def _arrow_type(hint: Any) -> Any:
    import pyarrow as pa

    hint = _plain(hint)
    simple = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if hint in simple:
        return simple[hint]
    if is_dataclass(hint):
        return pa.struct([pa.field(name, _arrow_type(kind)) for name, kind in _hints(hint).items()])  # type: ignore[arg-type]
    if get_origin(hint) is np.ndarray:
        return pa.list_(pa.float64())
    return pa.string()  # tuples of names and of parameters, as JSON


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return value.item() if isinstance(value, np.generic) else value


def _decode(hint: Any, array: Any) -> list[Any]:
    """The values of an Arrow array, None where one is missing: by columns, since a call for each value takes longer."""
    if not array.null_count:
        return _decoder(hint)(array)
    present = iter(_decoder(hint)(array.drop_null()))
    return [next(present) if there else None for there in array.is_valid().to_pylist()]


@cache
def _decoder(hint: Any) -> Callable[[Any], list[Any]]:
    """What makes values of this type from an Arrow array without missing ones."""
    hint = _plain(hint)
    if is_dataclass(hint):
        return partial(_decode_records, hint)
    if get_origin(hint) is np.ndarray:
        return _decode_vectors
    return _decode_tuples if get_origin(hint) is tuple else lambda array: array.to_pylist()


def _decode_records(kind: Any, array: Any) -> list[Any]:
    parts = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
    columns = [_decode(hint, parts[name]) for name, hint in _hints(kind).items()]  # in the order of the fields
    return [kind(*row) for row in zip(*columns, strict=True)]


def _decode_vectors(array: Any) -> list[Any]:
    flat = array.flatten().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    ends = np.cumsum(array.value_lengths().to_numpy(zero_copy_only=False)).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _decode_tuples(array: Any) -> list[Any]:
    lists = map(json.loads, array.to_pylist())
    return [tuple(tuple(item) if isinstance(item, list) else item for item in items) for items in lists]


# -- what a task returns ----------------------------------------------------------------------------------------------


def as_content(returned: Any, params: Mapping[str, Any], task: str) -> list[Record] | list[Row]:
    """Records as they are; rows with the parameters of the cell as columns in front.

    >>> as_content({"error": 0.1}, {"k": 5}, "run.py:one")
    [{'k': 5, 'error': 0.1}]
    """
    rows = [returned] if isinstance(returned, Mapping) else returned
    as_kind(rows, (list, tuple), f"what {task} returns", what="a list of dicts or of records")
    if rows and all(type(row).__name__ in RECORDS for row in rows):
        return list(rows)
    return _uniform(rows, params)


def _uniform(rows: Iterable[Any], params: Mapping[str, Any]) -> list[Row]:
    table: list[Row] = []
    for row in rows:
        as_kind(row, Mapping, "a row of a task", what="a dict or a record")
        plain = {key: value for key, value in params.items() if key not in row} | dict(row)
        table.append({name: _plain_value(name, value) for name, value in plain.items()})
        if list(table[-1]) != list(table[0]):
            raise InputError(f"all rows of a task must have the same columns, got {', '.join(table[0])} and "
                             f"{', '.join(table[-1])}.")  # fmt: skip
    return table


def _plain_value(name: str, value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    item = getattr(value, "item", None)  # a numpy number
    value = item() if callable(item) and getattr(value, "shape", None) == () else value
    return as_kind(value, (str, bool, int, float), f"column '{name}' of a row", what="text, a number or a truth value")
