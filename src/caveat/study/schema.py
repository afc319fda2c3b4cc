"""The columns of a study's table: one row is one number, with what it is a number of.

====================  ==================================================================================================
kind                  what a row is
====================  ==================================================================================================
metric                a metric of a score against one outlier set: ``auroc``, ``conformal_auroc`` (guaranteed band),
                      ``fpr95_outlier_positive``, ``fpr95_inlier_positive``, ``aupr``, ``aurc``, ``augrc`` (outliers as
                      failures, inlier errors dropped). Without an outlier set: ``aurc``, ``augrc`` and ``auroc`` of the
                      model's own errors. Without a score: ``accuracy``, ``ece``, ``brier``, ``nll`` of the model
roc                   ``x`` false-positive rate, ``value`` true-positive rate, ``lower`` and ``upper`` its band
risk                  ``x`` coverage, ``value`` selective risk (times ``x``: generalised risk); without an outlier set
                      that of the model's own errors
histogram             ``x`` left edge of a bin, ``value`` share; ``metric`` is ``inlier`` or ``outlier``; the last row
                      of each has only the right edge. All sets of a score share their edges; the first and the last
                      bin also hold what lies beyond
sets                  prediction sets; ``score`` is the method: ``coverage``, ``mean_size``, ``size_hist`` (``x`` size,
                      ``value`` share), ``t_cv``, ``t_ss``, ``sscv``, ``size_by_difficulty``,
                      ``coverage_by_difficulty`` (``x`` bin, 0 is the hardest); with an outlier set: sizes on it
collapse              neural collapse of the training features, one row per quantity and projection
proximity             distance of an outlier set from the training data: ``frechet``, ``mmd``, ``centroid``
data                  ``metric`` ``n``: how many samples; ``method`` says the role (train, calibration, inlier, outlier)
adaptivity            numbers of adaptivity that a task measured
certificate           ``auc``, ``aauc``, ``gauc`` and others that a task measured; ``source`` is the method
====================  ==================================================================================================

Every row has every column: text that does not apply is empty, a number NaN, a count 0. Rows of a task that name no
``kind`` keep their own columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from caveat._checks import check_known
from caveat.errors import InputError
from caveat.results import Estimate

__all__ = ["COLUMNS", "KINDS", "REGIMES", "Row", "complete", "estimate_row", "make_row", "uniform_rows"]

Row = dict[str, Any]

KINDS = (
    "metric", "roc", "risk", "histogram", "sets", "collapse", "proximity", "data", "adaptivity", "certificate",
)  # fmt: skip
REGIMES = ("near", "mid", "far")
COLUMNS: Mapping[str, type] = {
    "kind": str,
    "source": str,
    "seed": int,
    "score": str,
    "projection": str,
    "params": str,
    "outlier": str,
    "regime": str,
    "metric": str,
    "x": float,
    "value": float,
    "lower": float,
    "upper": float,
    "level": float,
    "n": int,
    "method": str,
    "caveat": str,
}
_PLAIN = {str, int, float, bool, type(None)}
_EMPTY = {str: "", int: 0, float: math.nan}


def make_row(kind: str, metric: str, value: float = math.nan, **others: Any) -> Row:
    """A row with every column; those that are not named are empty.

    Examples
    --------
    >>> row = make_row("metric", "auroc", 0.9, outlier="svhn")
    >>> row["outlier"], row["value"], row["score"], row["lower"]
    ('svhn', 0.9, '', nan)
    """
    return complete({"kind": kind, "metric": metric, "value": value} | others)


def estimate_row(kind: str, metric: str, found: Estimate, **others: Any) -> Row:
    """A row that holds an estimate with its interval, level, n, method and caveat."""
    return make_row(
        kind, metric, found.value, lower=found.lower, upper=found.upper, level=found.level, n=found.n,
        method=found.method, caveat=found.caveat, **others,
    )  # fmt: skip


def complete(row: Mapping[str, Any]) -> Row:
    """The row with all columns in order and of their types; an unknown column or kind is an error."""
    for name in row:
        check_known(name, COLUMNS, "column of a study's row")
    check_known(str(row.get("kind")), KINDS, "kind of row")
    filled: Row = {}
    for name, kind in COLUMNS.items():
        value = row.get(name)
        try:
            filled[name] = _EMPTY[kind] if value is None else kind(value)
        except (TypeError, ValueError):
            raise InputError(f"column '{name}' of a row must be {kind.__name__}, got {value!r}.") from None
    filled["projection"] = filled["projection"] or "none"
    return filled


def uniform_rows(rows: Iterable[Mapping[str, Any]], given: Mapping[str, Any]) -> list[Row]:
    """Rows of a task: completed to the study's columns where they name a kind, else as they are.

    ``given`` are the parameters of the cell. They become columns in front of a task's own, or, in a row of the study's
    columns, fill those of the same name. Values are text, numbers or truth values.
    """
    found: list[Row] = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise InputError(f"a task must give rows as dicts, got {type(row).__name__}.")
        if "kind" in row:
            found.append(complete({k: v for k, v in given.items() if k in COLUMNS} | dict(row)))
            continue
        plain = {k: v for k, v in given.items() if k not in row} | dict(row)
        for name, value in plain.items():
            plain[name] = _plain(name, value)
        found.append(plain)
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
