"""Outputs from a table of pandas, polars or pyarrow, or from a map of columns, without importing any of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_list, check_known
from caveat.errors import InputError
from caveat.outputs.keys import class_columns, named_columns
from caveat.outputs.outputs import Outputs

__all__ = ["chosen_columns", "outputs_from_frame"]

Array = NDArray[Any]
_MATRICES = ("logits", "probs", "features", "embeddings")
_VECTORS = ("labels", "predictions", "confidence")
_AS_THEY_ARE = ("head", "class_names", "check")


def outputs_from_frame(frame: Any, **columns: Any) -> Outputs:
    """One sample per row of a table: :meth:`Outputs.from_frame`.

    Parameters
    ----------
    frame
        A table with ``columns`` or ``column_names`` whose columns numpy can read, or a map from names to columns.
    columns
        ``logits``, ``probs``, ``features`` and ``embeddings``: ``prefix*``, which is columns in the order of the table,
        or of their numbers where ``*`` stands for numbers without gaps; a list of names, or ``"a,b,c"``; or one name,
        of a binary problem or of a column of lists. ``labels``, ``predictions``, ``confidence``: one name. ``head``,
        ``class_names`` and ``check`` go to ``Outputs``. Where labels are text and ``*`` stands for their names, as in
        ``prob_*`` for ``prob_cat`` and ``prob_dog``, it also gives the order of the classes.

    Returns
    -------
    Outputs
        With one sample per row.

    Examples
    --------
    >>> frame = {"logit_0": [2.0, 0.0], "logit_1": [0.0, 1.0], "y": [0, 1]}
    >>> outputs_from_frame(frame, logits="logit_*", labels="y")
    Outputs(n=2, logits 2x2 float64, labels 2)
    """
    for field in columns:
        check_known(field, (*_MATRICES, *_VECTORS, *_AS_THEY_ARE), "field of a table")
    names = _names(frame)
    fields: dict[str, Any] = {name: value for name, value in columns.items() if name in _AS_THEY_ARE}
    suffixes: tuple[str, ...] | None = None
    for field, wanted in columns.items():
        if field in _VECTORS:
            fields[field] = _column(frame, _one_name(wanted, field, names))
        elif field in _MATRICES:
            chosen = chosen_columns(wanted, field, names)
            parts = [_column(frame, name) for name in chosen]
            fields[field] = _as_matrix(parts[0], field) if len(parts) == 1 else _joined(parts, field, chosen)
            if field in ("logits", "probs") and isinstance(wanted, str) and len(chosen) > 1:
                suffixes = class_columns(wanted, chosen)
    if fields.get("class_names") is None and suffixes is not None and _is_named(fields, suffixes):
        fields["class_names"] = suffixes
    return Outputs(**fields)


def chosen_columns(wanted: str | Iterable[str], field: str, names: list[str]) -> tuple[str, ...]:
    """The columns that a name, ``prefix*``, or several names stand for.

    Examples
    --------
    >>> chosen_columns("z*", "logits", ["z1", "z0", "y"]), chosen_columns(["y"], "logits", ["z", "y"])
    (('z0', 'z1'), ('y',))
    """
    if not isinstance(wanted, str):
        return tuple(_one_name(name, field, names) for name in as_list(wanted, field))
    columns = named_columns(wanted, names)
    if not columns:
        raise InputError(f"{field}='{wanted}' matches no column. The table has {', '.join(names[:10])}"
                         f"{', ...' if len(names) > 10 else ''}.")  # fmt: skip
    return columns


def _names(frame: Any) -> list[str]:
    if isinstance(frame, Mapping):
        names: Any = list(frame)
    else:
        names = getattr(frame, "column_names", None)  # pyarrow, where .columns are the values
        names = getattr(frame, "columns", None) if names is None else names
    if names is None or callable(names) or not hasattr(frame, "__getitem__"):
        raise InputError(f"frame must be a table of pandas, polars or pyarrow, or a map from names to columns, got "
                         f"{type(frame).__name__}.")  # fmt: skip
    if hasattr(frame, "collect_schema") and not hasattr(frame, "to_numpy"):
        raise InputError("frame must hold its rows, got a query that has not been run. Call collect() first.")
    return list(map(str, names))


def _one_name(name: Any, field: str, names: list[str]) -> str:
    if not isinstance(name, str):
        raise InputError(f"{field} must be the name of a column, got {name!r}.")
    return check_known(name, names, f"column for {field}")


def _column(frame: Any, name: str) -> Array:
    column = frame[name]
    if getattr(column, "ndim", 1) > 1:  # pandas gives a table for a name that stands twice
        raise InputError(f"the table has more than one column '{name}'. Rename them.")
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _as_matrix(column: Array, field: str) -> Array:
    """A column of numbers, or of lists that all have one length."""
    if column.dtype.kind != "O":
        return column
    rows = [np.asarray(row) for row in column.tolist()]
    if len({row.shape for row in rows}) > 1:
        raise InputError(f"{field} must be a column of lists of one length, got several lengths.")
    return np.array(rows)


def _joined(parts: list[Array], field: str, names: Sequence[str]) -> Array:
    for part, name in zip(parts, names, strict=True):
        if part.dtype.kind not in "biuf":
            raise InputError(f"{field} must be columns of numbers, got {part.dtype} in '{name}'.")
    return np.column_stack(parts)


def _is_named(fields: Mapping[str, Any], suffixes: tuple[str, ...]) -> bool:
    """Whether labels or predictions are text, and all of them are what * stands for."""
    texts = [fields[name] for name in ("labels", "predictions") if name in fields]
    values = {value for column in texts for value in column.tolist()}
    return bool(values) and all(isinstance(value, str) for value in values) and values <= set(suffixes)
