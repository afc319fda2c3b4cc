r"""Does the coverage seen on a test set agree with what was promised, given both sample sizes?

Given n calibration scores without ties and the threshold at rank k, coverage is Beta(k, n + 1 - k) over calibration
sets, and the number covered among m test samples is beta-binomial:

$$ P(X = x) = \binom{m}{x} \frac{B(k + x,\ n + 1 - k + m - x)}{B(k,\ n + 1 - k)} $$

Vovk, "Conditional validity of inductive conformal predictors", ACML 2012; Angelopoulos and Bates, "A Gentle
Introduction to Conformal Prediction", section 3.2, arXiv:2107.07511.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from caveat._internal.checks import as_count, as_level
from caveat.conformal.quantile import quantile_rank

__all__ = ["CoverageVerdict", "coverage_verdict"]


@final
@dataclass(frozen=True)
class CoverageVerdict:
    """Whether a number of covered samples is as chance allows, and the numbers that are.

    Parameters
    ----------
    verdict
        ``"as chance allows"``, ``"below"`` or ``"above"``.
    least, most
        The numbers covered that are as chance allows, both included.
    level
        Of that region: each side is left with probability (1 - level) / 2 at most.
    """

    verdict: Literal["as chance allows", "below", "above"]
    least: int
    most: int
    level: float


def coverage_verdict(covered: int, n: int, *, n_calibration: int, alpha: float, delta: float = 0.05) -> CoverageVerdict:
    """Judge ``covered`` of n test samples by the beta-binomial distribution of a threshold from ``n_calibration`` rows.

    The interval of the test set alone would say "below" too often: it leaves out that the calibration set is a draw
    too. Ties among scores only raise coverage, so that "above" may also mean ties.

    Parameters
    ----------
    covered, n
        How many of how many test samples have their true value in the set.
    n_calibration, alpha
        Rows that set the threshold, and the allowed error: the promise of marginal coverage at least 1 - alpha.
    delta
        Allowed failure of the verdict, half on each side.

    Examples
    --------
    >>> coverage_verdict(871, 1000, n_calibration=1000, alpha=0.1)
    CoverageVerdict(verdict='below', least=873, most=925, level=0.95)
    >>> coverage_verdict(871, 1000, n_calibration=500, alpha=0.1).verdict
    'as chance allows'
    """
    as_count(n, "n")
    as_count(covered, "covered", least=0, most=n)
    as_count(n_calibration, "n_calibration")
    as_level(delta, "delta")
    rank = quantile_rank(n_calibration, alpha)
    if rank > n_calibration:  # no threshold: every value is in the set
        least, most = n, n
    else:
        chance = _beta_binomial(n, rank, n_calibration + 1 - rank)
        at_most, at_least = np.cumsum(chance), np.cumsum(chance[::-1])
        least = int(np.searchsorted(at_most, delta / 2, side="right"))
        most = n - int(np.searchsorted(at_least, delta / 2, side="right"))
    verdict: Literal["as chance allows", "below", "above"] = (
        "below" if covered < least else "above" if covered > most else "as chance allows"
    )
    return CoverageVerdict(verdict, least, most, 1 - delta)


def _beta_binomial(n: int, a: int, b: int) -> NDArray[np.float64]:
    """Probabilities of 0, 1, ..., n."""
    x = np.arange(n + 1)
    choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    chance = np.exp(choose + betaln(a + x, b + n - x) - betaln(a, b))
    return np.asarray(chance / chance.sum())
