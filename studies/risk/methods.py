"""Accept thresholds for a wanted error rate: Caveat's, and three others to compare it with.

Every method takes calibration scores in ascending order, whether each row is wrong, the risk, delta and a generator; it
returns the threshold below which rows are accepted, ``-inf`` for none.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr

from caveat.conformal import threshold_for_risk

GRID = 200


def caveat(score: np.ndarray, wrong: np.ndarray, risk: float, delta: float, rng: np.random.Generator) -> float:
    """Learn then Test from 15 % of the rows up: the default."""
    return threshold_for_risk(score=score, correct=~wrong, risk=risk, delta=delta).threshold


def tuning_split(score: np.ndarray, wrong: np.ndarray, risk: float, delta: float, rng: np.random.Generator) -> float:
    """The same with half of the rows fixing thresholds and start: no condition on the error rate."""
    half = rng.permutation(score.size) < score.size // 2
    return threshold_for_risk(
        score=score[half], correct=~wrong[half], risk=risk, delta=delta, tuning=score[~half]
    ).threshold


def earliest_start(score: np.ndarray, wrong: np.ndarray, risk: float, delta: float, rng: np.random.Generator) -> float:
    """The same from the fewest rows that can pass at all, log(delta) / log(1 - risk)."""
    return threshold_for_risk(
        score=score, correct=~wrong, risk=risk, delta=delta, thresholds=quantiles(score)
    ).threshold


def bonferroni(score: np.ndarray, wrong: np.ndarray, risk: float, delta: float, rng: np.random.Generator) -> float:
    """The last of 200 quantiles whose test passes at delta / 200."""
    tried = quantiles(score)
    rows = np.searchsorted(score, tried)
    errors = np.append(0, np.cumsum(wrong))[rows]
    passing = np.flatnonzero((rows > 0) & (bdtr(errors, np.maximum(rows, 1), risk) <= delta / tried.size))
    return float(tried[passing[-1]]) if passing.size else -math.inf


def sgr(score: np.ndarray, wrong: np.ndarray, risk: float, delta: float, rng: np.random.Generator) -> float:
    """Binary search over the rows, delta / ceil(log2 n) for each bound.

    Geifman and El-Yaniv, "Selective Classification for Deep Neural Networks", NeurIPS 2017, algorithm 1. The bound is
    the exact binomial one, so it is at most the risk where the test below passes. Of the thresholds that the search
    visits the last one that passes is taken.
    """
    n = score.size
    steps = math.ceil(math.log2(n))
    errors = np.cumsum(wrong)
    low, high, threshold = 0, n - 1, -math.inf  # row numbers from the surest
    for _ in range(steps + 1):
        middle = (low + high) // 2
        rows = int(np.searchsorted(score, score[middle], side="right"))  # ties are accepted together
        if bdtr(errors[rows - 1], rows, risk) <= delta / steps:
            low, threshold = min(middle + 1, n - 1), max(threshold, _above(score[middle]))
        else:
            high = middle
    return threshold


def naive(score: np.ndarray, wrong: np.ndarray, risk: float, delta: float, rng: np.random.Generator) -> float:
    """The last point of the risk curve at or below the risk."""
    ends = np.append(score[1:] > score[:-1], True)  # rows after which a threshold can lie
    passing = np.flatnonzero(ends & (np.cumsum(wrong) <= risk * np.arange(1, score.size + 1)))
    return _above(score[passing[-1]]) if passing.size else -math.inf


def quantiles(score: np.ndarray) -> np.ndarray:
    """200 scores at evenly spread ranks, and a threshold above all."""
    ranks = np.linspace(0, score.size - 1, min(GRID, score.size)).astype(np.intp)
    return np.unique(np.append(score[ranks], _above(score[-1])))


def _above(value: float) -> float:
    return float(np.nextafter(value, np.inf))


METHODS: dict[str, Callable[[np.ndarray, np.ndarray, float, float, np.random.Generator], float]] = {
    "caveat": caveat,
    "tuning split": tuning_split,
    "earliest start": earliest_start,
    "SGR": sgr,
    "Bonferroni": bonferroni,
    "naive": naive,
}
