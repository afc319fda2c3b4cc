"""What a task of a plan may return: records that a report can draw, or rows in columns of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
    if not isinstance(rows, (list, tuple)):
        raise InputError(f"{task} must return a list of dicts or of records, got {type(returned).__name__}.")
    if rows and all(type(row).__name__ in RECORDS for row in rows):
        return list(rows)
    return _uniform(rows, params)


def _uniform(rows: Iterable[Any], params: Mapping[str, Any]) -> list[Row]:
    found: list[Row] = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise InputError(f"a task must give rows as dicts, or records, got {type(row).__name__}.")
        plain = {key: value for key, value in params.items() if key not in row} | dict(row)
        found.append({name: _plain(name, value) for name, value in plain.items()})
    if found and any(list(row) != list(found[0]) for row in found):
        names = next(row for row in found if list(row) != list(found[0]))
        raise InputError(
            f"all rows of a task must have the same columns, got {', '.join(found[0])} and {', '.join(names)}."
        )
    return found


def _plain(name: str, value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    item = getattr(value, "item", None)  # a numpy number
    value = item() if callable(item) and getattr(value, "shape", None) == () else value
    if isinstance(value, (str, bool, int, float)):
        return value
    raise InputError(f"column '{name}' of a row must be text, a number or a truth value, got {type(value).__name__}.")
