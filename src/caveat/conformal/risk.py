r"""An accept threshold with a promised error rate among the accepted: Learn then Test along a fixed sequence.

Walk from the surest inputs towards the least sure. At the threshold $t_j$, $m_j$ calibration rows score below it and
$k_j$ of them are answered wrongly; the next step is taken while

$$ P(\mathrm{Bin}(m_j, r) \le k_j) \le \delta $$

and the last threshold that passes is the answer. One test follows the other, so no correction for many tests is needed:
Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then Test", Annals of Applied Statistics 2025, arXiv:2110.01052,
section 4. "The last point of the risk curve below r" breaks r in about half of all draws.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from caveat._internal.checks import as_comparable, as_level, as_mask, as_vector, check_shape, same_length
from caveat.results import Promise, RiskThreshold, proportion_interval

__all__ = ["threshold_for_risk"]

GRID = 200  # thresholds tried: fewer lose coverage, more steps each risk an early stop


def threshold_for_risk(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    risk: float = 0.05,
    delta: float = 0.05,
    thresholds: ArrayLike | None = None,
) -> RiskThreshold:
    """The threshold below which at most ``risk`` of the answers are wrong, with probability 1 - delta.

    Accept a row while its score is below the threshold. ``-inf`` where nothing can be promised: nothing is accepted,
    and the promise says how many rows would be needed.

    Parameters
    ----------
    score
        Calibration scores, shape (n,); larger is less sure. Rows that neither trained nor chose the score.
    correct
        Whether each answer is right, shape (n,).
    risk
        Allowed share of wrong answers among the accepted.
    delta
        Allowed chance that the calibration rows mislead.
    thresholds
        Thresholds to try, fixed without these labels. Default: 200 quantiles of ``score``. Ranks of the scores say
        nothing about the labels, so the promise is exact if the error rate does not fall as less sure rows are
        accepted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> doubt = rng.random(5000)
    >>> found = threshold_for_risk(score=doubt, correct=rng.random(5000) > doubt / 2, risk=0.1, delta=0.05)
    >>> 0.3 < found.threshold < 0.4
    True
    >>> print(found.promise)
    At most 10 % of the accepted answers are wrong, with 95 % confidence (n = 5000 calibration rows).
    """
    values, right = as_vector(score, "score", allow_infinite=True), as_mask(correct, "correct")
    n = same_length(score=values, correct=right)
    risk, delta = as_level(risk, "risk"), as_level(delta, "delta")
    tried = _grid(values) if thresholds is None else np.unique(as_comparable(thresholds, "thresholds"))
    check_shape(tried, "thresholds", 1, "vector")
    accepted, wrong = _below(values, ~right, tried)
    least = least_rows(risk, delta)
    start = int(np.searchsorted(accepted, least))  # from the counts alone, never from the labels
    passes = bdtr(wrong[start:], accepted[start:], risk) <= delta
    steps = int(passes.size if passes.all() else np.argmin(passes))
    promise = Promise(
        what="errors among the accepted", bound=risk, confidence=1 - delta, n=n,
        method="Learn then Test, fixed sequence",
        assumption="calibration rows and future rows are exchangeable; the error rate does not fall as less sure rows "
        "are accepted",
        remedy="" if steps else _remedy(accepted[start:], wrong[start:], n, risk, delta, least),
    )  # fmt: skip
    if not steps:
        return RiskThreshold(-math.inf, proportion_interval(0, n, delta=delta), promise)
    last = start + steps - 1
    return RiskThreshold(float(tried[last]), proportion_interval(int(accepted[last]), n, delta=delta), promise)


def least_rows(risk: float, delta: float) -> int:
    """How many accepted rows, all answered rightly, carry the promise: the smallest m with (1 - risk)^m <= delta.

    >>> least_rows(0.05, 0.05), least_rows(0.01, 0.05)
    (59, 299)
    """
    return math.ceil(math.log(delta) / math.log1p(-risk) * (1 - 1e-12))


def _grid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores at evenly spread ranks, and a threshold above all of them."""
    ranks = np.unique(np.linspace(0, values.size - 1, min(GRID, values.size)).astype(np.intp))
    chosen = np.partition(values, ranks)[ranks]
    return np.unique(np.append(chosen, np.nextafter(chosen[-1], np.inf)))


def _below(
    values: NDArray[np.float64], wrong: NDArray[np.bool_], tried: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """How many rows lie below each threshold, and how many of them are wrong."""
    place = np.searchsorted(tried, values, side="right")  # the first threshold above the row
    rows = np.bincount(place, minlength=tried.size + 1)[: tried.size].cumsum()
    errors = np.bincount(place[wrong], minlength=tried.size + 1)[: tried.size].cumsum()
    return rows, errors


def _remedy(accepted: NDArray[np.intp], wrong: NDArray[np.intp], n: int, risk: float, delta: float, least: int) -> str:
    """What would carry the promise: more rows, or a larger risk."""
    if not accepted.size:
        return f"{n} rows carry {100 * (1 - delta ** (1 / n)):.2g} % at best; {least} would carry {100 * risk:g} %."
    rates = wrong / accepted
    best = int(np.argmin(rates))
    if rates[best] >= risk:
        return f"Even among the surest rows {100 * rates[best]:.2g} % are wrong: allow more, or improve the model."
    factor = 1.0
    while bdtr(int(factor * wrong[best]), math.ceil(factor * accepted[best]), risk) > delta:
        factor *= 1.1
    return f"About {math.ceil(factor * n):,} rows with errors as rare as in these would do."
