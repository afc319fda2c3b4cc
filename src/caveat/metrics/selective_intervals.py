"""Intervals for selective metrics: the bootstrap, on a curve that is sorted once."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from caveat._checks import as_count, as_level
from caveat.metrics._resampling import AREAS, Cells, resample
from caveat.metrics.binomial import proportion_interval
from caveat.metrics.selective import augrc, aurc, scored_answers
from caveat.results import Estimate

__all__ = ["augrc_interval", "aurc_interval"]


def augrc_interval(
    *, score: ArrayLike, correct: ArrayLike, rng: np.random.Generator, delta: float = 0.05, resamples: int = 1000
) -> Estimate:
    """AUGRC with a percentile bootstrap interval.

    Where every answer is right, or every one is wrong, a resample can only repeat that; the interval then follows from
    the exact one of the error rate and the worst and best order of the errors.

    Examples
    --------
    >>> score, correct = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 1, 0, 0]
    >>> print(augrc_interval(score=score, correct=correct, rng=np.random.default_rng(0)))
    0.153 [0.014, 0.403] (95 % bootstrap, n = 6)
    """
    return _interval("augrc", score, correct, rng=rng, delta=delta, resamples=resamples)


def aurc_interval(
    *, score: ArrayLike, correct: ArrayLike, rng: np.random.Generator, delta: float = 0.05, resamples: int = 1000
) -> Estimate:
    """AURC with a percentile bootstrap interval; see :func:`augrc_interval`.

    Examples
    --------
    >>> score, correct = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 1, 0, 0]
    >>> print(aurc_interval(score=score, correct=correct, rng=np.random.default_rng(0)))
    0.206 [0.014, 0.854] (95 % bootstrap, n = 6)
    """
    return _interval("aurc", score, correct, rng=rng, delta=delta, resamples=resamples)


def _interval(
    metric: Literal["augrc", "aurc"],
    score: ArrayLike,
    correct: ArrayLike,
    *,
    rng: np.random.Generator,
    delta: float,
    resamples: int,
) -> Estimate:
    as_level(delta, "delta")
    as_count(resamples, "resamples")
    values, right = scored_answers(score, correct)
    value = (augrc if metric == "augrc" else aurc)(score=values, correct=right)
    if right.all() or not right.any():
        return _one_sided(metric, value, right.size, wrong=not right.any(), delta=delta)
    areas = resample((Cells(values, right),), AREAS[metric], resamples=resamples, rng=rng, strata=None)
    lower, upper = np.quantile(areas, [delta / 2, 1 - delta / 2])
    return Estimate(value, float(lower), float(upper), level=1 - delta, n=right.size, method="bootstrap")


def _one_sided(metric: str, value: float, n: int, *, wrong: bool, delta: float) -> Estimate:
    rate = proportion_interval(n if wrong else 0, n, delta=delta)
    error = rate.lower if wrong else rate.upper
    if metric == "augrc":  # errors last of all, and errors first of all
        best, worst = error**2 / 2, error - error**2 / 2
    else:
        best, worst = error + (1 - error) * np.log(1 - error), error - error * np.log(error)
    what = "wrong" if wrong else "right"
    caveat = f"Every answer is {what}; the interval is that of the error rate, with the errors in the "
    caveat += "best order." if wrong else "worst order."
    lower, upper = (float(best), value) if wrong else (value, float(worst))
    return Estimate(value, lower, upper, level=1 - delta, n=n, method="Clopper-Pearson", caveat=caveat)
