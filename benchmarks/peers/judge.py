"""What a result delivers: error, size and agreement, computed in the same way for every package. Needs numpy only."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["agreement", "outcome", "summary"]

Columns = dict[str, float]
SURE = "false alarms, 90 % sure"  # the name of a method whose promise has a confidence
ON_GRID = "wsr, alpha on the grid"


def outcome(family: str, name: str, result: Any, truth: Any) -> Columns:
    """``error`` (to be compared with the promise) and ``size`` of the result of one draw."""
    return OUTCOMES[family](name, result, truth)


def summary(rows: list[Columns]) -> dict[str, Any]:
    """Mean of each column over the draws, with its standard error."""
    table = {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}
    answer: dict[str, Any] = {"draws": len(rows)}
    for name, values in table.items():
        finite = values[np.isfinite(values)]
        if finite.size:
            spread = finite.std(ddof=1) / np.sqrt(finite.size) if finite.size > 1 else 0.0
            answer[name], answer[f"{name}_se"] = float(finite.mean()), float(spread)
    return answer


def agreement(family: str, name: str, result: Any, truth: Any, folder: Path, *, reference: bool) -> dict[str, Any]:
    """What the timed run delivers; for OOD scores AUROC and the rank correlation with the reference scores."""
    if family != "ood":
        return outcome(family, name, result, truth)
    scores = np.asarray(result, dtype=np.float64)
    path = folder / f"reference_{name.replace(' ', '_')}.npy"
    if reference:
        np.save(path, scores)
    outlier = np.arange(scores.size) >= truth.inliers
    columns: dict[str, Any] = {"auroc": auroc(scores[~outlier], scores[outlier])}
    if path.exists():
        columns["rank_correlation"] = float(np.corrcoef(ranks(scores), ranks(np.load(path)))[0, 1])
    return columns


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Mid-ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def auroc(inlier: NDArray[Any], outlier: NDArray[Any]) -> float:
    """Chance that an outlier scores above an inlier, ties one half, by comparison of sorted scores."""
    ordered = np.sort(inlier)
    wins = np.searchsorted(ordered, outlier, "left") + np.searchsorted(ordered, outlier, "right")
    return float(wins.mean() / (2 * inlier.size))


def _sets(_: str, member: Any, truth: Any) -> Columns:
    member = np.asarray(member, dtype=bool)
    hit = member[np.arange(len(member)), truth.test_labels]
    return {"error": 1 - float(hit.mean()), "size": float(member.sum(axis=1).mean())}


def _intervals(_: str, bounds: Any, truth: Any) -> Columns:
    bounds = np.asarray(bounds, dtype=np.float64)
    inside = (bounds[:, 0] <= truth.test_y) & (truth.test_y <= bounds[:, 1])
    return {"error": 1 - float(inside.mean()), "size": float((bounds[:, 1] - bounds[:, 0]).mean())}


def _selection(name: str, result: Any, truth: Any) -> Columns:
    """What ``name`` promises to bound, and the share of the outliers that is found.

    A threshold (a number) is judged by its true false-alarm rate, which is known: inliers are standard normal.
    """
    if name == SURE:
        return {"error": float(normal_tail(result) > truth.false_alarm), "size": normal_tail(result - truth.shift)}
    selected = np.asarray(result, dtype=bool)
    outlier = np.arange(selected.size) >= truth.inliers
    false = int((selected & ~outlier).sum())
    error = false / (truth.inliers if name == "false alarms" else max(1, int(selected.sum())))
    return {"error": error, "size": float(selected[outlier].mean())}


def normal_tail(threshold: float) -> float:
    """Chance that a standard normal score is at or above a threshold."""
    return math.erfc(float(threshold) / math.sqrt(2)) / 2


def _risk(name: str, threshold: Any, truth: Any) -> Columns:
    """Whether the true risk at the chosen threshold is above alpha (for crc: that risk); the labels kept per row.

    The probability of a true label is uniform on [0, 1 / slope], that of a false one the cube of a uniform number, so
    risk and size are known exactly.
    """
    t = float(threshold)
    risk = min(1.0, max(0.0, truth.slope * t))
    kept = truth.true_labels * (1 - risk) + truth.false_labels * (1 - np.cbrt(min(1.0, max(0.0, t))))
    alpha = truth.candidate if name == ON_GRID else truth.alpha
    return {"error": risk if name == "crc" else float(risk > alpha * (1 + 1e-9)), "size": float(kept)}


def _drift(_: str, alarms: Any, truth: Any) -> Columns:
    """Whether the quiet stream rang, and points from the change of the other stream to its alarm."""
    quiet, *changed = (int(alarm) for alarm in alarms)
    columns = {"error": float(quiet >= 0)}
    if changed:
        delay = changed[0] - truth.change
        # an alarm before the change is false, so the draw says nothing about the delay; no alarm counts as the end
        columns["size"] = truth.points - truth.change if changed[0] < 0 else delay if delay >= 0 else np.nan
    return columns


def _ranks(_: str, p_values: Any, truth: Any) -> Columns:
    """Whether methods that are alike are told apart: in the first table all are alike, in the second the first two."""
    alike, *others = (np.asarray(matrix, dtype=np.float64) for matrix in p_values)
    columns = {"error": float((alike[np.triu_indices(len(alike), 1)] < truth.alpha).any())}
    if others:
        columns["error_among_others"] = float(others[0][0, 1] < truth.alpha)
        pairs = [(i, j) for i in range(len(others[0])) for j in range(i + 1, len(others[0])) if (i, j) != (0, 1)]
        columns["size"] = float(np.mean([others[0][pair] < truth.alpha for pair in pairs]))
    return columns


def _metrics(_: str, values: Any, truth: Any) -> Columns:
    """Difference from the exact values; where there is a lower bound, whether it is above the true AUROC."""
    columns: Columns = {}
    if "auroc" in values:
        columns["difference"] = abs(values["auroc"] - auroc(truth.inlier, truth.outlier))
    if "fpr95" in values:
        # share of inliers at or above the highest threshold that at least 95 % of the outliers reach
        outlier = np.sort(truth.outlier)
        cut = outlier[outlier.size - int(np.ceil(0.95 * outlier.size - 1e-9))]
        columns["difference"] = abs(values["fpr95"] - float((truth.inlier >= cut).mean()))
    if "lower" in values:
        # inliers are standard normal, rounded to a grid: the AUROC of these outliers against all of them is known
        below = [math.erf((x - truth.step / 2) / math.sqrt(2)) for x in truth.outlier.tolist()]
        at_most = [math.erf((x + truth.step / 2) / math.sqrt(2)) for x in truth.outlier.tolist()]
        true_value = 0.5 + (sum(below) + sum(at_most)) / (4 * truth.outlier.size)
        columns["error"] = float(values["lower"] > true_value)
        columns["size"] = true_value - values["lower"]
    return columns


def _definitions(name: str, result: Any, truth: Any) -> Columns:
    """Whether the answer differs from the exact one, whether it is too small, and the difference."""
    if name == "threshold":  # the ceil((n + 1)(1 - alpha))-th smallest score, alpha as it is written
        n, alpha = int(truth.size), Fraction(str(float(truth.alpha)))
        exact = float(math.ceil((n + 1) * (1 - alpha)))
    elif name == "ece":  # bins (0, 1/M], ..., ((M - 1)/M, 1]
        where = np.ceil(truth.confidence * truth.bins).astype(int)
        gaps = np.bincount(where, weights=truth.correct - truth.confidence, minlength=truth.bins + 1)
        exact = float(np.abs(gaps).sum() / truth.confidence.size)
    else:  # no set covers the slab
        if getattr(truth, "draw", 0) >= truth.slabs:
            return {"error": np.nan, "below": np.nan, "size": np.nan}
        return {"error": float(result > 0.5), "below": 0.0, "size": float(result)}
    away = float(result) - exact
    return {"error": float(abs(away) > 1e-6), "below": float(away < -1e-6), "size": away}


OUTCOMES = {
    "sets": _sets, "intervals": _intervals, "selection": _selection, "risk": _risk, "drift": _drift, "ranks": _ranks,
    "metrics": _metrics, "definitions": _definitions,
}  # fmt: skip
