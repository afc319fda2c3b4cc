"""What a cell computes: the built-in tasks of score studies, and functions that a plan names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from caveat.errors import InputError
from caveat.study.cells import Cell
from caveat.study.functions import find_function
from caveat.study.model_cells import collapse_rows, proximity_rows, sets_rows
from caveat.study.schema import Row, make_row, uniform_rows
from caveat.study.score_cell import score_rows
from caveat.study.sources import Parts, load_source, save_source
from caveat.study.store import Store

__all__ = ["compute"]

_Task = Callable[[Cell, Parts], tuple[list[Row], dict[str, Any]]]
_BUILT_IN: Mapping[str, _Task] = {
    "score": score_rows,
    "sets": sets_rows,
    "collapse": collapse_rows,
    "proximity": proximity_rows,
}


def compute(cell: Cell, store: Store) -> tuple[list[Row], dict[str, Any]]:
    """The rows of a cell, and what else is to be known of it."""
    if cell.task == "outputs":
        return _make_outputs(cell, store), {}
    if cell.task in _BUILT_IN:
        return _BUILT_IN[cell.task](cell, load_source(cell, store))
    function = find_function(cell.task, cell.paths.get("task", ""))
    rows = function(**cell.params)
    if isinstance(rows, Mapping):
        rows = [rows]
    if not isinstance(rows, (list, tuple)):
        raise InputError(f"{cell.task} must return a list of dicts, got {type(rows).__name__}.")
    return uniform_rows(rows, cell.params), {}


def _make_outputs(cell: Cell, store: Store) -> list[Row]:
    """Call the task of a source and keep what it gives in the store."""
    told = cell.params
    function = find_function(told["function"], cell.paths.get("task", ""))
    given = function(seed=cell.seed, **told["params"])
    with store.writing():
        made = save_source(given, store.outputs(cell.key))
    return [
        make_row("data", "made", outputs.n, source=told["source"], seed=cell.seed, n=outputs.n, method=role)
        for role, outputs in made.roles().items()
    ]
