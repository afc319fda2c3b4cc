r"""Selective prediction: what an automatic system gets wrong if it answers only when it is not too strange.

Samples are accepted from the least to the most strange. Selective risk is the error rate among the accepted;
generalised risk is P(error and accepted). One point per distinct score: tied samples are accepted together.

AURC: Geifman, Uziel and El-Yaniv, ICLR 2019. AUGRC: Traub, Bungert, Lueth, Baumgartner, Maier-Hein, Maier-Hein and
Jaeger, "Overcoming Common Flaws in the Evaluation of Selective Classification Systems", NeurIPS 2024.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat import _ranking
from caveat._checks import as_count, as_level, as_mask, as_vector
from caveat.errors import InputError
from caveat.results import Estimate

__all__ = ["RiskCurve", "augrc", "augrc_interval", "aurc", "risk_curve"]


@final
@dataclass(frozen=True, eq=False)
class RiskCurve:
    """Risk against coverage, one point per distinct score, from coverage 0 to 1."""

    coverage: NDArray[np.float64]
    selective: NDArray[np.float64]
    generalized: NDArray[np.float64]


def risk_curve(*, score: ArrayLike, correct: ArrayLike) -> RiskCurve:
    """Selective and generalised risk at every coverage that a threshold can give.

    Examples
    --------
    >>> curve = risk_curve(score=[0.1, 0.2, 0.3, 0.4], correct=[True, True, False, True])
    >>> curve.coverage.tolist(), curve.generalized.tolist()
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.0, 0.25, 0.25])
    """
    groups, n = _tied_groups(score, correct)
    accepted, wrong = np.cumsum(groups[:, 0]), np.cumsum(groups[:, 1])
    selective = wrong / accepted
    return RiskCurve(
        coverage=np.concatenate([[0.0], accepted / n]),
        selective=np.concatenate([selective[:1], selective]),  # no sample accepted: the first risk is held
        generalized=np.concatenate([[0.0], wrong / n]),
    )


def aurc(*, score: ArrayLike, correct: ArrayLike) -> float:
    """Area under selective risk against coverage (trapezoid). Lower is better.

    Examples
    --------
    >>> round(aurc(score=[0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], correct=[1, 1, 1, 0, 1, 1, 0, 0]), 7)
    0.1174851
    """
    curve = risk_curve(score=score, correct=correct)
    return float(np.trapezoid(curve.selective, curve.coverage))


def augrc(*, score: ArrayLike, correct: ArrayLike) -> float:
    r"""Area under generalised risk against coverage (trapezoid). Lower is better.

    The chance that a random sample is wrong and at least as readily accepted as another random one. Exactly
    $(1 - AUROC_f)\,a(1 - a) + (1 - a)^2 / 2$ with accuracy a and $AUROC_f$ that of errors against correct answers.

    Examples
    --------
    >>> augrc(score=[0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], correct=[1, 1, 1, 0, 1, 1, 0, 0])
    0.09375
    """
    return _ranking.augrc(*_checked(score, correct))


def augrc_interval(
    *, score: ArrayLike, correct: ArrayLike, rng: np.random.Generator, delta: float = 0.05, resamples: int = 1000
) -> Estimate:
    """AUGRC with a percentile bootstrap interval: multinomial weights on a curve that is sorted once.

    Examples
    --------
    >>> score, correct = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 1, 0, 0]
    >>> print(augrc_interval(score=score, correct=correct, rng=np.random.default_rng(0)))
    0.153 [0.014, 0.403] (95 % bootstrap, n = 6)
    """
    as_level(delta, "delta")
    as_count(resamples, "resamples")
    groups, n = _tied_groups(score, correct)
    wrong, right = groups[:, 1], groups[:, 0] - groups[:, 1]
    # A resample only changes how often each (score, right or wrong) cell occurs, so cells are drawn, not samples.
    cells = np.concatenate([right, wrong]) / n
    areas = np.empty(resamples)
    step = max(1, 2**22 // cells.size)
    for start in range(0, resamples, step):
        stop = min(start + step, resamples)
        drawn = rng.multinomial(n, cells, size=stop - start)
        drawn_wrong = drawn[:, right.size :]
        accepted = drawn[:, : right.size] + drawn_wrong
        before = np.cumsum(drawn_wrong, axis=1) - drawn_wrong / 2
        areas[start:stop] = (before * accepted).sum(axis=1) / n**2
    lower, upper = np.quantile(areas, [delta / 2, 1 - delta / 2])
    value = augrc(score=score, correct=correct)
    return Estimate(value, float(lower), float(upper), level=1 - delta, n=n, method="bootstrap")


def _tied_groups(score: ArrayLike, correct: ArrayLike) -> tuple[NDArray[np.float64], int]:
    """(samples, errors) of each distinct score, from the least to the most strange; and n."""
    values, right = _checked(score, correct)
    return np.column_stack(_ranking.tied_groups(values, right)), values.size


def _checked(score: ArrayLike, correct: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values, right = as_vector(score, "score", allow_infinite=True), as_mask(correct, "correct")
    if values.size != right.size:
        raise InputError(f"score and correct must have the same length, got {values.size} and {right.size}.")
    return values, right
