r"""Boundaries: five ways to stay above all order statistics of n uniforms with probability 1 - delta.

$$ P(U_{(i)} \le b_i \text{ for all } i) \ge 1 - \delta $$

| method | b_i | keeps the promise |
|---|---|---|
| ``exact`` | Beta(i, n+1-i) quantile at 1 - eta, eta from the exact violation probability | exactly, for every n |
| ``simes`` | $b_{n+1-i} = 1 - \delta^{1/k} (i \cdots (i-k+1) / (n \cdots (n-k+1)))^{1/k}$, k = n // 2 | exactly |
| ``dkwm`` | $\min(1, i/n + \sqrt{\log(2/\delta) / (2n)})$ | with most of delta unspent |
| ``asymptotic`` | $\min(1, i/n + c_n(\delta) \sqrt{i(n-i)} / n^{1.5})$, flat for i > n/2 | as n grows only |
| ``monte_carlo`` | the smaller of simes and asymptotic, both at a delta found by simulation | up to the simulation |

Bates, Candes, Lei, Romano and Sesia, "Testing for outliers with conformal p-values", Annals of Statistics 51(1), 2023;
in the form of "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction", appendix B, eq. (19)
to (23). ``exact`` is ours.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from caveat._internal.blocks import row_blocks
from caveat._internal.cache import remembered
from caveat._internal.checks import Rng, as_count, as_level, as_rng, check_known
from caveat.conformal.local_levels import EXACT_UP_TO, equal_levels, local_level
from caveat.conformal.violation import violation_probability
from caveat.errors import InputError

__all__ = ["METHODS", "Method", "boundary", "boundary_violation"]

Method = Literal["exact", "simes", "dkwm", "asymptotic", "monte_carlo"]
METHODS: tuple[str, ...] = ("exact", "simes", "dkwm", "asymptotic", "monte_carlo")
LEAST_ASYMPTOTIC = 16  # log log log n must not be negative

Vector = NDArray[np.float64]


def boundary(n: int, delta: float, method: str = "exact", *, rng: Rng | None = None, draws: int = 10_000) -> Vector:
    """A boundary b_1 <= ... <= b_n that the order statistics of n uniforms stay at or below with probability 1 - delta.

    ``b[k]`` is the upper band of a false-positive rate where k of n inliers are flagged. Smaller is tighter; the chance
    that a boundary is crossed is ``violation_probability(b)``.

    Parameters
    ----------
    n
        How many calibration scores.
    delta
        Allowed failure of the band.
    method
        ``"exact"`` (default), ``"simes"``, ``"dkwm"``, ``"asymptotic"`` or ``"monte_carlo"``.
    rng, draws
        Of ``"monte_carlo"``: its source of randomness (None: a fixed stream, the same call gives the same boundary) and
        how many samples of size n it draws.

    Returns
    -------
    array of shape (n,)
        The boundary, non-decreasing.

    Examples
    --------
    >>> boundary(4, 0.1).round(3)
    array([0.574, 0.786, 0.922, 0.992])
    >>> [round(float(boundary(1000, 0.1, method)[50]), 4) for method in ("exact", "simes", "dkwm", "asymptotic")]
    [0.0721, 0.0736, 0.0897, 0.0718]
    """
    n, delta = as_count(n, "n"), as_level(delta, "delta")
    check_known(method, METHODS, "boundary")
    if method == "exact":
        return equal_levels(n, local_level(n, delta)[0])
    if method == "simes":
        return _simes(n, delta)
    if method == "dkwm":
        return np.minimum(1.0, np.arange(1, n + 1) / n + math.sqrt(math.log(2 / delta) / (2 * n)))
    if n < LEAST_ASYMPTOTIC:
        raise InputError(f"method '{method}' needs n of at least {LEAST_ASYMPTOTIC}, got {n}. Use 'exact'.")
    if method == "asymptotic":
        return _asymptotic(n, delta)
    simulate = _fixed_simulated_delta if rng is None else partial(_simulated_delta, rng=as_rng(rng))
    shared = simulate(n, delta, draws=as_count(draws, "draws"))
    return np.minimum(_simes(n, shared), _asymptotic(n, shared))


@lru_cache(maxsize=256)
def boundary_violation(n: int, delta: float, method: str) -> float:
    """Exact violation probability of a deterministic boundary; NaN above n = 1,000,000. Kept on disk."""
    if method == "exact":
        return local_level(n, delta)[1]
    if n > EXACT_UP_TO:
        return math.nan
    return remembered(
        f"bands/v1-{method}-n{n}-delta{delta!r}",
        lambda: {"violation": violation_probability(boundary(n, delta, method))},
    )["violation"]


def _simes(n: int, delta: float) -> Vector:
    k, log_ratio = _simes_ratio(n)
    b = np.ones(n)
    b[: log_ratio.size] = -np.expm1((math.log(delta) + log_ratio) / k)
    return b


def _simes_ratio(n: int) -> tuple[int, Vector]:
    """k, and the log of the ratio of products for b_1, b_2, ... as long as these are below 1."""
    k = max(1, n // 2)
    i = np.arange(n, k - 1, -1, dtype=np.float64)  # b_1 belongs to i = n
    return k, np.asarray(gammaln(i + 1) - gammaln(i - k + 1) - gammaln(n + 1) + gammaln(n - k + 1))


def _asymptotic(n: int, delta: float) -> Vector:
    scale = (_gumbel_shift(n) - math.log(-math.log1p(-delta))) / math.sqrt(2 * math.log(math.log(n)))  # eq. (21)
    return np.clip(np.arange(1, n + 1) / n + scale * _half_widths(n), 0.0, 1.0)


def _half_widths(n: int) -> Vector:
    i = np.minimum(np.arange(1, n + 1), n / 2)  # held at its maximum beyond the middle, so that b does not fall
    return np.asarray(np.sqrt(i * (n - i)) / n**1.5)


def _gumbel_shift(n: int) -> float:
    log_log = math.log(math.log(n))
    return 2 * log_log + math.log(log_log) / 2 - math.log(math.pi) / 2


@lru_cache(maxsize=64)
def _fixed_simulated_delta(n: int, delta: float, *, draws: int) -> float:
    return _simulated_delta(n, delta, rng=np.random.default_rng(0), draws=draws)


def _simulated_delta(n: int, delta: float, *, rng: np.random.Generator, draws: int) -> float:
    """The largest delta at which at most a share ``delta`` of the simulated samples crosses simes or asymptotic.

    Both boundaries are taken at that delta: Simes at delta itself spends all of delta already. The delta at which a
    sample starts to cross has a closed form, so one pass and one quantile replace a search.
    """
    i, half_widths, (k, log_ratio) = np.arange(1, n + 1), _half_widths(n), _simes_ratio(n)
    starts = np.empty(draws)
    for block in row_blocks(draws, row_bytes=8 * n):
        gaps = rng.standard_exponential((block.stop - block.start, n + 1))
        sums = np.cumsum(gaps, axis=1)
        ordered = sums[:, :-1] / sums[:, -1:]
        scale = ((ordered - i / n) / half_widths).max(axis=1)
        asymptotic = -np.expm1(-np.exp(_gumbel_shift(n) - scale * math.sqrt(2 * math.log(math.log(n)))))
        simes = np.exp((k * np.log1p(-ordered[:, : log_ratio.size]) - log_ratio).min(axis=1))
        starts[block] = np.minimum(asymptotic, simes)
    allowed = int(delta * draws)
    if allowed == 0:
        raise InputError(f"draws must be at least 1 / delta = {math.ceil(1 / delta)} to see a violation, got {draws}.")
    # A further sample starts below the allowed-th smallest with chance allowed / (draws + 1): at most delta on average
    # over simulations, too.
    return float(min(np.partition(starts, allowed - 1)[allowed - 1], 1 - 1e-12))
