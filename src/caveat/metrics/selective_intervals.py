r"""Intervals for AURC and AUGRC: by default from standard errors without resampling, on request by the bootstrap.

With T the area, m its largest possible value (1/2 for AUGRC, 1 for AURC), s its standard error and $\nu$ the degrees of
freedom of :mod:`caveat.metrics.selective_influence`, the ends are those of

$$ \operatorname{logit}(T / m) \pm t_{\nu, 1 - \delta/2} \, \frac{s / m}{(T / m)(1 - T / m)} . $$

The logit keeps them within 0 and m and allows for the skew of an area that rests on few errors; the plain normal
interval and the percentile bootstrap miss large values too often (``studies/selective_intervals``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit

from caveat._internal.checks import Rng, as_count, as_level, as_list, as_rng, check_known
from caveat.metrics._resampling import AREAS, Cells, resample
from caveat.metrics.selective import Steps, scored_answers
from caveat.metrics.selective_influence import Spread, area_spreads
from caveat.results import Estimate, proportion_interval

__all__ = ["augrc_interval", "aurc_interval", "selective_intervals", "step_intervals"]

Method = Literal["influence", "bootstrap"]

# Where most samples get no caveat by the first two, intervals of 95 % covered 94 to 97 %, elsewhere 83 to 99 %
# (studies/selective_intervals). The bootstrap covered 67 to 92, 72 to 92 and 87 to 94 % with 5, 15 and 20 errors.
_FEW, _FEW_DEGREES, _FEW_TO_RESAMPLE = 10, 15, 30  # errors, degrees of freedom, errors
_LARGEST: Mapping[str, float] = {"augrc": 0.5, "aurc": 1.0}


def augrc_interval(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    delta: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 1000,
) -> Estimate:
    """AUGRC with its interval, as :func:`selective_intervals` computes it.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.
    delta
        Allowed failure of the interval.
    method
        ``"influence"`` needs no resampling. ``"bootstrap"``: percentiles of resamples, which cover less.
    rng, resamples
        Seed, or a generator, and number of resamples of the bootstrap.

    Returns
    -------
    Estimate
        The area and its interval; the caveat warns of few errors.

    Examples
    --------
    >>> score, correct = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 1, 0, 0]
    >>> print(augrc_interval(score=score, correct=correct))
    0.153 [0.013, 0.441] (95 % influence function, n = 6) It rests on 3 errors: too few, the interval may be too short.
    """
    return selective_intervals(
        score=score, correct=correct, metrics=["augrc"], delta=delta, method=method, rng=rng, resamples=resamples
    )["augrc"]


def aurc_interval(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    delta: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 1000,
) -> Estimate:
    """AURC with its interval, as :func:`selective_intervals` computes it.

    Parameters
    ----------
    score
        Shape (n,): samples with a small score are accepted first.
    correct
        Shape (n,): whether the answer was right.
    delta
        Allowed failure of the interval.
    method
        ``"influence"`` needs no resampling. ``"bootstrap"``: percentiles of resamples, which cover less.
    rng, resamples
        Seed, or a generator, and number of resamples of the bootstrap.

    Returns
    -------
    Estimate
        The area and its interval; the caveat warns of few errors.

    Examples
    --------
    >>> score, correct = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 1, 0, 0]
    >>> print(aurc_interval(score=score, correct=correct))
    0.206 [0.015, 0.811] (95 % influence function, n = 6) It rests on 3 errors: too few, the interval may be too short.
    """
    return selective_intervals(
        score=score, correct=correct, metrics=["aurc"], delta=delta, method=method, rng=rng, resamples=resamples
    )["aurc"]


def selective_intervals(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    metrics: Sequence[str] = ("aurc", "augrc"),
    delta: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 1000,
) -> dict[str, Estimate]:
    """AURC and AUGRC, or those named, with their intervals from one sort.

    Where every answer is right, or every one is wrong, no row shows how much the area varies; the interval then follows
    from the exact one of the error rate and the worst and best order of the errors.

    Parameters
    ----------
    score, correct
        Shape (n,): the score, and whether the answer was right.
    metrics
        ``"aurc"``, ``"augrc"`` or both.
    delta
        Allowed failure of each interval.
    method
        ``"influence"`` needs no resampling. ``"bootstrap"``: percentiles of resamples, which cover less.
    rng, resamples
        Of the bootstrap; both areas see the same resamples.

    Returns
    -------
    dict
        Name of the metric -> Estimate.

    Examples
    --------
    >>> score, correct = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 1, 0, 0]
    >>> {name: round(found.value, 3) for name, found in selective_intervals(score=score, correct=correct).items()}
    {'aurc': 0.206, 'augrc': 0.153}
    """
    delta = as_level(delta, "delta")
    check_known(method, ("influence", "bootstrap"), "method")
    as_count(resamples, "resamples")
    rng = as_rng(rng)
    metrics = as_list(metrics, "metrics")
    for name in metrics:
        check_known(name, _LARGEST, "selective metric")
    values, right = scored_answers(score, correct)
    steps = Steps.of(values, right)
    if method == "influence" or right.all() or not right.any():
        return step_intervals(steps, metrics, delta=delta)
    errors, caveat = int(steps.wrong[-1]), ""
    if errors < _FEW_TO_RESAMPLE:
        caveat = (
            f"It rests on {errors} error{'s' if errors > 1 else ''}: too few, the bootstrap interval is too narrow."
        )
    areas = [AREAS[name] for name in metrics]
    drawn = resample([Cells(values, right)], areas, resamples=resamples, rng=rng)[:, 0]
    lower, upper = np.quantile(drawn, [delta / 2, 1 - delta / 2], axis=0).tolist()
    totals = {"augrc": steps.augrc(), "aurc": steps.aurc()}
    return {
        name: Estimate(totals[name], low, high, level=1 - delta, n=right.size, method="bootstrap", caveat=caveat)
        for name, low, high in zip(metrics, lower, upper, strict=True)
    }


def step_intervals(steps: Steps, metrics: Sequence[str], *, delta: float) -> dict[str, Estimate]:
    """The intervals of rows that were sorted already, without resampling."""
    n, errors = int(steps.accepted[-1]), int(steps.wrong[-1])
    if errors in (0, n):
        areas = {"augrc": steps.augrc(), "aurc": steps.aurc()}
        return {name: _one_sided(name, areas[name], n, wrong=errors > 0, delta=delta) for name in metrics}
    return {name: _logit_interval(name, *area, steps, delta) for name, area in area_spreads(metrics, steps).items()}


def _logit_interval(metric: str, area: float, spread: Spread, steps: Steps, delta: float) -> Estimate:
    largest = _LARGEST[metric]
    share = area / largest
    reach = spread.reach(delta) / (largest * share * (1 - share))
    lower, upper = (largest * float(expit(logit(share) + side * reach)) for side in (-1, 1))
    return Estimate(area, lower, upper, level=1 - delta, n=int(steps.accepted[-1]), method="influence function",
                    caveat=_caveat(steps, spread.degrees))  # fmt: skip


def _caveat(steps: Steps, degrees: float) -> str:
    if (errors := int(steps.wrong[-1])) < _FEW:
        return f"It rests on {errors} error{'s' if errors > 1 else ''}: too few, the interval may be too short."
    return "A few rows carry most of it: the interval may be too short." if degrees < _FEW_DEGREES else ""


def _one_sided(metric: str, value: float, n: int, *, wrong: bool, delta: float) -> Estimate:
    rate = proportion_interval(n if wrong else 0, n, delta=delta)
    error = rate.lower if wrong else rate.upper
    if metric == "augrc":  # errors last of all, and errors first of all
        best, worst = error**2 / 2, error - error**2 / 2
    else:
        best, worst = error + (1 - error) * np.log(1 - error), error - error * np.log(error)
    what, order = ("wrong", "best") if wrong else ("right", "worst")
    caveat = f"Every answer is {what}; the interval is that of the error rate, with the errors in the {order} order."
    lower, upper = (float(best), value) if wrong else (value, float(worst))
    return Estimate(value, lower, upper, level=1 - delta, n=n, method="Clopper-Pearson", caveat=caveat)
