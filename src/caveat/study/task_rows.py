"""What a task of a plan may return: records that a report can draw, or rows in columns of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from caveat._internal.checks import as_kind
from caveat.errors import InputError
from caveat.evaluation.records import RECORDS, Record

__all__ = ["Row", "as_content"]

Row = dict[str, Any]
_PLAIN = {str, int, float, bool, type(None)}


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
    found: list[Row] = []
    for row in rows:
        as_kind(row, Mapping, "a row of a task", what="a dict or a record")
        plain = {key: value for key, value in params.items() if key not in row} | dict(row)
        found.append({name: _plain(name, value) for name, value in plain.items()})
        if list(found[-1]) != list(found[0]):
            raise InputError(f"all rows of a task must have the same columns, got {', '.join(found[0])} and "
                             f"{', '.join(found[-1])}.")  # fmt: skip
    return found


def _plain(name: str, value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    item = getattr(value, "item", None)  # a numpy number
    value = item() if callable(item) and getattr(value, "shape", None) == () else value
    return as_kind(value, (str, bool, int, float), f"column '{name}' of a row", what="text, a number or a truth value")
