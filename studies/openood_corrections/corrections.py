"""Reproduce Tables 4 and 5 of "Exploring the Link Between Out-of-Distribution Detection and
Conformal Prediction" from their published marginal values, and compute the exact level of the published correction.

    caveat reproduce openood-corrections

Reads published.csv, transcribed from the paper.

The far columns are means over outlier sets (four for CIFAR) whose rates are not published. The last columns try one
explanation of the CIFAR values: each set was corrected by itself, and one of the four is easier than the others. How
much easier is found from the value of Table 4; the value of Table 5 then follows without a free parameter.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from caveat.conformal import boundary, violation_probability

HERE = Path(__file__).parent
N = 9000  # inliers that OpenOOD tests on in every column: 10,000 less 1,000 for validation


@dataclass(frozen=True)
class Row:
    """One published pair, in percent, and the corrections that Caveat computes for it."""

    table: int
    delta: float
    dataset: str
    ood: str
    detector: str
    marginal: float
    published: float
    reproduced: float  # min(simes, asymptotic), both at delta: matches the paper's numbers
    difference: float
    promised_level: float
    exact_level: float  # of that correction, at n = 9000
    exact_band: float  # upper band of method "exact", whose level is the promised one
    easy_set: float  # CIFAR, far: rate on the easiest set that explains Table 4; others: NaN, as the rest
    other_sets: float  # and on each of the three others
    by_set: float  # mean of the four corrections; in Table 5 a prediction
    by_set_difference: float


def published() -> list[dict[str, str]]:
    with (HERE / "published.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def corrections() -> list[Row]:
    """One row per published pair."""
    known: dict[float, tuple[np.ndarray, np.ndarray, float]] = {}
    split: dict[tuple[str, str], np.ndarray] = {}
    rows = []
    for pair in published():
        delta, marginal, corrected = float(pair["delta"]), float(pair["marginal"]), float(pair["published"])
        if delta not in known:
            smaller = np.minimum(boundary(N, delta, "simes"), boundary(N, delta, "asymptotic"))
            known[delta] = smaller, boundary(N, delta, "exact"), 1 - violation_probability(smaller)
        smaller, exact, level = known[delta]
        reproduced = float(_at(smaller, marginal))
        by_set = (np.nan,) * 4
        if pair["ood"] == "far" and pair["dataset"].startswith("CIFAR"):
            key = pair["dataset"], pair["detector"]
            if pair["table"] == "4":
                split[key] = one_easy_set(smaller, marginal, corrected)
            mean = _at(smaller, split[key]).mean()
            by_set = tuple(round(float(x), 3) for x in (*split[key][:2], mean, mean - corrected))
        rows.append(
            Row(
                int(pair["table"]), delta, pair["dataset"], pair["ood"], pair["detector"], marginal, corrected,
                round(reproduced, 3), round(reproduced - corrected, 3),
                round(1 - delta, 2), round(level, 5), round(float(_at(exact, marginal)), 3), *by_set,
            )
        )  # fmt: skip
    return rows


def _at(b: np.ndarray, percent: np.ndarray | float) -> np.ndarray:
    """The upper band where ``percent`` of the N inliers are flagged; a mean over data sets falls between two ranks."""
    return 100 * np.interp(np.asarray(percent) / 100 * N, np.arange(N + 1), np.append(b, 1.0))


def one_easy_set(b: np.ndarray, marginal: float, corrected: float) -> np.ndarray:
    """Four rates with this mean, three of them equal and one lower, whose mean correction comes nearest."""
    gaps = np.linspace(0, min(marginal / 3, 100 - marginal), 20_001)
    means = (_at(b, marginal - 3 * gaps) + 3 * _at(b, marginal + gaps)) / 4
    gap = gaps[np.argmin(np.abs(means - corrected))]
    return marginal + gap * np.array([-3.0, 1.0, 1.0, 1.0])


def one(delta: float) -> list[dict[str, Any]]:
    """The rows of one table."""
    return [asdict(row) for row in corrections() if row.delta == delta]
