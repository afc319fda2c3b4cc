"""Reproduce the CIFAR columns of Tables 4 and 5 of "Exploring the Link Between Out-of-Distribution Detection and
Conformal Prediction" from their published marginal values, and say what level the published correction really has.

    caveat reproduce openood-corrections

Reads published.csv, transcribed from the paper.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from caveat.conformal import boundary, violation_probability

HERE = Path(__file__).parent
N = 9000  # inliers that OpenOOD tests on for CIFAR-10 and CIFAR-100: 10,000 less 1,000 for validation


@dataclass(frozen=True)
class Row:
    """One published pair, in percent, and what Caveat says about it."""

    table: int
    delta: float
    dataset: str
    ood: str
    detector: str
    marginal: float
    published: float
    reproduced: float  # min(simes, asymptotic), both at delta: what the paper's numbers are
    difference: float
    promised_level: float
    exact_level: float  # of that correction, at n = 9000
    exact_band: float  # upper band of method "exact", whose level is the promised one


def published() -> list[dict[str, str]]:
    with (HERE / "published.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def corrections() -> list[Row]:
    """One row per published pair."""
    known: dict[float, tuple[np.ndarray, np.ndarray, float]] = {}
    rows = []
    for pair in published():
        delta, marginal, corrected = float(pair["delta"]), float(pair["marginal"]), float(pair["published"])
        if delta not in known:
            smaller = np.minimum(boundary(N, delta, "simes"), boundary(N, delta, "asymptotic"))
            known[delta] = smaller, boundary(N, delta, "exact"), 1 - violation_probability(smaller)
        smaller, exact, level = known[delta]
        reproduced = _at(smaller, marginal)
        rows.append(
            Row(
                int(pair["table"]), delta, pair["dataset"], pair["ood"], pair["detector"], marginal, corrected,
                round(reproduced, 3), round(reproduced - corrected, 3),
                round(1 - delta, 2), round(level, 5), round(_at(exact, marginal), 3),
            )
        )  # fmt: skip
    return rows


def _at(b: np.ndarray, percent: float) -> float:
    """The upper band where ``percent`` of the N inliers are flagged; a mean over data sets falls between two ranks."""
    return float(100 * np.interp(percent / 100 * N, np.arange(N + 1), np.append(b, 1.0)))


def one(delta: float) -> list[dict[str, Any]]:
    """The rows of one table."""
    return [asdict(row) for row in corrections() if row.delta == delta]
