r"""An accept threshold with a promised error rate among the accepted: Learn then Test along a fixed sequence.

Walk from the surest inputs towards the least sure. At the threshold $t_j$, $m_j$ calibration rows score below it and
$k_j$ of them are answered wrongly; the next step is taken while

$$ P(\mathrm{Bin}(m_j, r) \le k_j) \le \delta $$

and the last threshold that passes is the answer. One test follows the other, so no correction for many tests is needed:
Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then Test", Annals of Applied Statistics 2025, arXiv:2110.01052,
section 4. "The last point of the risk curve below r" breaks r in about half of all draws.

The walk begins at the first threshold below which $m_j \ge \log\delta / \log(1 - r)$ rows lie: fewer cannot pass. Where
the counts of the calibration rows decide that, the promise is exact if the error rate among the accepted does not fall
as less sure rows are accepted. Where thresholds and start come from tuning rows, it is exact without that condition.

A second promise, of at most a share a of abstentions, needs no second walk. The share above a threshold only falls as
the threshold rises, so with probability $1 - \delta_a$ it is at most a at every threshold with
$P(\mathrm{Bin}(n, a) \le \text{rows not accepted}) \le \delta_a$, also at one that the labels chose.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, betainc

from caveat._internal.checks import as_comparable, as_level, as_mask, as_vector, check_shape, same_length
from caveat.conformal.threshold import step_above
from caveat.errors import InputError
from caveat.results import Promise, RiskThreshold, proportion_interval

__all__ = ["least_rows", "threshold_for_risk"]

GRID = 200  # thresholds tried: fewer lose coverage, more steps each risk an early stop
FIRST_SHARE = 0.15  # of the rows below the first threshold, at least: a walk that starts at fewer often stops at once
_FACTORS = 1.05 ** np.arange(142)  # times as many rows, up to a thousand: a remedy that asks for more is none

SLACK = 1e-12  # of a level in floats: 1 - .99 is a little more than .01

Counts = NDArray[np.intp]


def threshold_for_risk(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    risk: float = 0.05,
    delta: float = 0.05,
    thresholds: ArrayLike | None = None,
    tuning: ArrayLike | None = None,
    abstention: float | None = None,
    abstention_delta: float | None = None,
) -> RiskThreshold:
    """The largest threshold below which at most ``risk`` of the answers are wrong, with probability 1 - delta.

    Accept a row while its score is below the threshold. ``-inf`` where nothing can be promised: nothing is accepted,
    and the promise says how many rows would be needed.

    With ``abstention``, two promises: at most ``risk`` of the accepted are wrong, and at most ``abstention`` of the
    rows are not accepted, both together with probability 1 - delta. Where the rows carry the first promise only, that
    one is kept, and ``result.abstention`` says why the second cannot be made.

    Parameters
    ----------
    score
        Calibration scores, shape (n,); larger is less sure. Rows that neither trained nor chose the score.
    correct
        Whether each answer is right, shape (n,).
    risk
        Allowed share of wrong answers among the accepted.
    delta
        Allowed chance that the calibration rows mislead; with ``abstention``, in either promise.
    thresholds
        Thresholds to try, fixed without these labels. Default: 200 quantiles of ``score``, from 15 % of the rows up; a
        model that can answer only fewer rows at this risk needs lower ones. The promise is exact if the error rate
        does not fall as less sure rows are accepted; with a single threshold always.
    tuning
        Scores of other rows, shape (k,), that fix the thresholds and the start in place of ``score``. The promise is
        then exact also where the error rate falls; a little less is accepted.
    abstention
        Allowed share of rows that are not accepted.
    abstention_delta
        The part of ``delta`` that is spent on the promise about abstentions. Default: half.

    Returns
    -------
    RiskThreshold
        ``threshold``, the ``coverage`` it leaves and the ``promise``; with ``abstention`` a second promise.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> doubt = rng.random(5000)
    >>> right = rng.random(5000) > doubt / 2
    >>> accept = threshold_for_risk(score=doubt, correct=right, risk=0.1, delta=0.05)
    >>> 0.3 < accept.threshold < 0.4
    True
    >>> print(accept.promise)
    At most 10 % of the accepted answers are wrong, with 95 % confidence (n = 5000 calibration rows).
    >>> both = threshold_for_risk(score=doubt, correct=right, risk=0.2, delta=0.05, abstention=0.4)
    >>> print(both.abstention, both.confidence)
    At most 40 % of the rows are left without an answer, with 97.5 % confidence (n = 5000 calibration rows). 0.95
    """
    values, right = as_vector(score, "score", allow_infinite=True), as_mask(correct, "correct")
    n = same_length(score=values, correct=right)
    risk, delta = as_level(risk, "risk"), as_level(delta, "delta")
    abstention = None if abstention is None else as_level(abstention, "abstention")
    spent_on_abstention = _spent(delta, abstention, abstention_delta)
    left = delta - spent_on_abstention
    least = least_rows(risk, left)
    tried, by_counts = _thresholds(values, thresholds, tuning, risk, left)
    accepted, wrong = _below(values, ~right, tried)
    start = _start(accepted, least) if by_counts else 0  # from the counts alone, never from the labels
    enough = accepted[start:] >= min(least, n + 1)
    passes = enough & (bdtr(wrong[start:], np.maximum(accepted[start:], 1), risk) <= left * (1 + SLACK))
    steps = int(passes.size if passes.all() else np.argmin(passes))
    last = start + steps - 1
    errors = Promise(
        what="errors among the accepted", bound=risk, confidence=1 - left, n=n,
        method="Learn then Test, fixed sequence, started "
        + ("by the counts of the calibration rows" if by_counts else "where the first threshold was fixed before"),
        assumption=_assumption(monotone=by_counts),
        remedy="" if steps else _error_remedy(accepted[start:], wrong[start:], n, risk, left, least),
    )  # fmt: skip
    kept = int(accepted[last]) if steps else 0
    threshold = float(tried[last]) if steps else -math.inf
    unanswered = None
    if abstention is not None:
        carried = steps > 0 and bdtr(n - kept, n, abstention) <= spent_on_abstention * (1 + SLACK)
        unanswered = Promise(
            what="abstentions", bound=abstention, confidence=1 - spent_on_abstention, n=n,
            method="order statistic, exact", assumption=_assumption(monotone=False),
            remedy="" if carried
            else _joint_remedy(accepted, wrong, n, kept, (risk, left), (abstention, spent_on_abstention)),
        )  # fmt: skip
    return RiskThreshold(threshold, proportion_interval(kept, n, delta=delta), errors, unanswered)


def least_rows(risk: float, delta: float, errors: int = 0) -> int:
    """How many accepted rows carry the promise: the smallest m with P(Bin(m, risk) <= errors) <= delta.

    Without errors that is the smallest m with (1 - risk)^m <= delta.

    >>> least_rows(0.05, 0.05), least_rows(0.01, 0.05), least_rows(0.05, 0.05, errors=1)
    (59, 299, 93)
    """
    low = math.ceil(math.log(delta) / math.log1p(-risk) * (1 - SLACK))
    if errors == 0:
        return low
    high = low = max(low, errors)
    while _chance(errors, high, risk) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance(errors, middle, risk) <= delta else (middle, high)
    return high


def _chance(errors: ArrayLike, rows: ArrayLike, risk: float) -> NDArray[np.float64]:
    """P(Bin(rows, risk) <= errors), for counts between whole numbers too."""
    hits, trials = np.asarray(errors, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    return np.asarray(np.where(hits < trials, betainc(np.maximum(trials - hits, 1e-9), hits + 1, 1 - risk), 1.0))


@lru_cache(maxsize=256)
def first_rows(n: int, risk: float, delta: float) -> int:
    """How many of n rows should lie below the first threshold; from n alone, so that no label has a part in it.

    At least 15 %, and as many as carry the promise with one, two, three ... errors: a single error among the surest
    rows, a wrong label for instance, must not end the walk, and at exactly such a number the first test spends all of
    delta. Where that takes more than half of the rows, as many as carry the promise without an error.

    >>> first_rows(1000, 0.05, 0.05), first_rows(200, 0.05, 0.05), first_rows(150, 0.05, 0.05)
    (153, 93, 59)
    """
    least = least_rows(risk, delta)
    if least > n:
        return least
    fewer = math.ceil(FIRST_SHARE * n) - 1
    low, high = 0, n  # between them lies the number of errors that fewer than 15 % of the rows tolerate
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance(middle, fewer, risk) > delta else (middle, high)
    wanted = least_rows(risk, delta, errors=low + 1)
    return wanted if 2 * wanted <= n else least


def _spent(delta: float, abstention: float | None, wanted: float | None) -> float:
    """The part of delta for the promise about abstentions."""
    if abstention is None:
        if wanted is not None:
            raise InputError("abstention_delta is the part of delta for abstention, and abstention is None. Give it.")
        return 0.0
    if wanted is None:
        return delta / 2
    if as_level(wanted, "abstention_delta") >= delta:
        raise InputError(f"abstention_delta is a part of delta and must be below it, got {wanted} and {delta}.")
    return float(wanted)


def _thresholds(
    values: NDArray[np.float64], thresholds: ArrayLike | None, tuning: ArrayLike | None, risk: float, delta: float
) -> tuple[NDArray[np.float64], bool]:
    """The thresholds to try, ascending, and whether the counts of the calibration rows decide where to start."""
    n = values.size
    if thresholds is not None:
        if tuning is not None:
            raise InputError("thresholds and tuning both fix the thresholds. Give one of them.")
        tried = np.unique(as_comparable(thresholds, "thresholds"))
        check_shape(tried, "thresholds", 1, "vector")
        return tried, tried.size > 1
    first = first_rows(n, risk, delta)
    if tuning is None:
        return _grid(values, first / n), True
    others = as_vector(tuning, "tuning", allow_infinite=True)
    if np.array_equal(others, values):
        raise InputError("tuning must hold scores of other rows, got those of score. Split the rows, or leave it out.")
    # Enough of the n calibration rows will lie below a quantile of the tuning rows, but for chance (two deviations).
    chance = 1 + n / others.size
    share = min(1.0, (math.sqrt(chance) + math.sqrt(chance + first)) ** 2 / n)
    tried = _grid(others, share)
    below = _below(others, np.zeros(others.size, dtype=np.bool_), tried)[0]
    ample = below >= share * others.size - 1e-9  # not so at a tie: all of its rows lie at the threshold, none below
    return tried[ample] if ample.any() else tried[-1:], False


def _grid(values: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Scores at evenly spread ranks, with this share of the rows or more below them, and a threshold above them all."""
    n, top = values.size, step_above(float(values.max()), values)
    first = math.ceil(share * n - 1e-9)
    if first >= n:
        return np.array([top])
    ranks = np.unique(np.linspace(first, n - 1, min(GRID, n - first)).astype(np.intp))
    return np.unique(np.append(np.partition(values, ranks)[ranks], top))


def _below(values: NDArray[np.float64], wrong: NDArray[np.bool_], tried: NDArray[np.float64]) -> tuple[Counts, Counts]:
    """How many rows lie below each threshold, and how many of them are wrong."""
    place = np.searchsorted(tried, values, side="right")  # the first threshold above the row
    rows = np.bincount(place, minlength=tried.size + 1)[: tried.size].cumsum()
    errors = np.bincount(place[wrong], minlength=tried.size + 1)[: tried.size].cumsum()
    return rows, errors


def _start(accepted: Counts, least: int) -> int:
    """The first threshold with enough rows below it; there may be none."""
    return accepted.size if least > accepted[-1] else int(np.searchsorted(accepted, least))


def _assumption(*, monotone: bool) -> str:
    draws = "calibration rows and future rows are independent draws from one distribution"
    return draws + ("; the error rate does not fall as less sure rows are accepted" if monotone else "")


def _rows_needed(accepted: Counts, wrong: Counts, risk: float, delta: float) -> tuple[float, float]:
    """About how many rows would carry the promise on errors, ``inf`` if none; and the error rate this rests on."""
    rates = wrong / accepted
    # The walk must pass its first threshold; where that one is out of reach, the best one says what is possible.
    best = 0 if rates[0] < risk else int(np.argmin(rates))
    if rates[best] < risk:
        first = accepted[best] * _FACTORS
        carried = _chance(rates[best] * first, first, risk) <= delta
        if carried.any():
            return float(first[np.argmax(carried)]) / FIRST_SHARE, float(rates[best])
    return math.inf, float(rates[best])


def _error_remedy(accepted: Counts, wrong: Counts, n: int, risk: float, delta: float, least: int) -> str:
    """What would carry the promise on errors: more rows, higher thresholds or a larger risk."""
    if n < least:
        return f"{n} rows carry {100 * (1 - delta ** (1 / n)):.2g} % at best; n = {least} would carry {100 * risk:g} %."
    if not accepted.size or accepted[-1] < least:
        below = int(accepted[-1]) if accepted.size else 0
        return f"It takes {least} of {n} rows below a threshold; there are {below}. Give higher thresholds."
    needed, rate = _rows_needed(accepted[accepted > 0], wrong[accepted > 0], risk, delta)
    if needed == math.inf:
        return f"Even among the surest rows {100 * rate:.2g} % are wrong: allow more, or improve the model."
    return f"About n = {math.ceil(max(needed, n + 1))} rows with errors as rare as in these would do."


def _joint_remedy(
    accepted: Counts, wrong: Counts, n: int, kept: int, errors: tuple[float, float], abstention: tuple[float, float]
) -> str:
    """What would carry both promises; ``errors`` and ``abstention`` are pairs of bound and delta."""
    (risk, delta), (share, spent) = errors, abstention
    lead = "The two cannot both be promised from these rows: " + (
        f"where errors are bounded, {100 * (1 - kept / n):.3g} % of the rows are not accepted."
        if kept
        else "no row can be accepted."
    )
    rows, hits = accepted[accepted > 0], wrong[accepted > 0]
    apart = np.flatnonzero((hits < risk * rows) & (n - rows < share * n))  # more rows would show these rates to be low
    apart = apart[:: max(1, apart.size // 20)]
    carried = _chance(np.outer(_FACTORS, hits[apart]), np.outer(_FACTORS, rows[apart]), risk) <= delta
    carried &= _chance(np.outer(_FACTORS, n - rows[apart]), n * _FACTORS[:, None], share) <= spent
    if carried.any():
        factor = float(_FACTORS[np.argmax(carried.any(axis=1))])
        needed = factor * n if kept else max(factor * n, _rows_needed(rows, hits, risk, delta)[0])
        if needed < math.inf:
            return f"{lead} About n = {math.ceil(max(needed, n + 1))} rows like these would do."
    enough = np.flatnonzero(rows >= (1 - share) * n)
    rate = f"{100 * hits[enough[0]] / rows[enough[0]]:.3g} %" if enough.size else "too many"
    return f"{lead} Of the surest {100 * (1 - share):.3g} %, {rate} are wrong: allow more errors or abstentions."
