r"""Bounds of a mean by betting against it: valid for every n, and shorter where the values vary little.

Bet against "the mean is at most m" on one value after the other. The capital

$$ K_t(m) = \prod_{i \le t} \bigl(1 + \lambda_i(m) (x_i - m)\bigr), \qquad
   \lambda_i(m) = \min\Bigl(\sqrt{2 \log(1/\delta) \big/ (n \hat\sigma^2_{i-1})},\; c / m\Bigr) $$

cannot be expected to grow if that is true, because a bet looks at earlier values only. So it reaches 1 / delta anywhere
on the path with probability at most delta (Ville), and every m whose capital does is refuted. The capital falls with m:
the refuted means are those below one number, the lower bound. The upper bound is the same for 1 - x.

Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", Journal of the Royal Statistical
Society B 86(1), 2024, arXiv:2010.09686, theorem 3, with the bets for a fixed n. The capital is one product over the
whole path. To add the largest log capitals of two halves breaks the promise.
"""

from __future__ import annotations

import hashlib
import math
from functools import cache
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from caveat._internal.checks import Rng, as_flag, as_level, as_number, as_rng, as_vector, check_each
from caveat._internal.streams import stream
from caveat.errors import InputError
from caveat.results import Estimate

__all__ = ["Bets", "mean_bounds", "random_order"]

Vector = NDArray[np.float64]

# c, the share of the capital that one bet may lose. With 0.5 the bound of values near 1 is longer than the band's (at
# delta = 0.01); with 0.99 one small value ruins the capital.
CAP = 0.9
PRECISION = 1e-10  # of a bound; it is rounded to the safe side
_LEAST_MEAN = 1e-9  # no smaller mean is refuted: the lower bound is 0 there


@final
class Bets:
    """Bets on values in [0, 1], in the order in which they stand, tuned to refute at level ``delta``.

    The order must not depend on the values: see ``random_order``.
    """

    def __init__(self, values: Vector, delta: float) -> None:
        self.values, self.delta = values, delta
        steps = np.arange(2, values.size + 2)
        squares = values - (np.cumsum(values) + 0.5) / steps  # from the running mean, which starts at 1/2
        squares *= squares
        variances = np.cumsum(squares, out=squares)
        variances += 0.25  # the largest that values in [0, 1] can have, as one value before the first
        variances /= steps
        before = np.concatenate([[0.25], variances[:-1]])  # what is known when the bet is placed
        self.sizes = np.sqrt(2 * math.log(1 / delta) / values.size / before)

    def upside_down(self) -> Bets:
        """The bets on 1 - x: they have the same sizes, because the variance is the same."""
        other = object.__new__(Bets)
        other.values, other.delta, other.sizes = 1 - self.values, self.delta, self.sizes
        return other

    def log_capital(self, mean: float) -> float:
        """Largest log capital on the path of bets against "the mean is at most ``mean``", at least 0.

        ``exp(-log_capital)`` is a p-value of that claim.
        """
        growth = np.minimum(self.sizes, CAP / mean)
        growth *= self.values - mean
        np.log1p(growth, out=growth)
        return max(0.0, float(np.cumsum(growth, out=growth).max()))

    def lower_bound(self) -> float:
        """Below the mean with probability at least 1 - delta."""
        target = math.log(1 / self.delta)

        @cache  # the search asks for the ends again
        def excess(mean: float) -> float:
            return self.log_capital(mean) - target

        average, n = float(self.values.mean()), self.values.size
        reach = 2 * math.sqrt(2 * target * float(self.values.var()) / n) + 2 * target / n
        low, high = max(_LEAST_MEAN, average - reach), min(1.0, max(average, 2 * _LEAST_MEAN))
        if excess(low) < 0:
            low, high = _LEAST_MEAN, low
            if excess(low) < 0:
                return 0.0
        elif high < 1 and excess(high) >= 0:  # the first values were larger than the others
            low, high = high, 1.0
        root = brentq(excess, low, high, xtol=PRECISION)
        return max(0.0, float(root) - 2 * PRECISION)


def random_order(values: NDArray[np.float64], rng: Rng) -> NDArray[np.intp]:
    """A random order of the rows. A seed is joined with a hash of the values, so that each data set has its own order.

    One fixed order for all data sets would keep the promise for rows in the order in which they were drawn, but not for
    sorted ones: its first bet would always be on the same rank.
    """
    generator = as_rng(rng)
    if not isinstance(rng, np.random.Generator):
        digest = hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()
        generator = stream(int(rng), "order of bets", digest)
    return generator.permutation(len(values))


def mean_bounds(
    values: ArrayLike,
    *,
    delta: float = 0.05,
    low: float = 0.0,
    high: float = 1.0,
    two_sided: bool = False,
    rng: Rng = 0,
) -> Estimate:
    """Mean of independent bounded values with bounds that hold for every n, by betting.

    The values are bet on in a random order that depends on the seed and on the values, so that sorted values do no
    harm. Another seed gives another bound, a fifth longer or shorter: do not choose the seed by its result.

    Parameters
    ----------
    values
        Shape (n,), independent draws from one distribution, between ``low`` and ``high``.
    delta
        Allowed failure of each bound, or of both together if ``two_sided``.
    low, high
        Ends of the range that a value can have, known beforehand.
    two_sided
        False: each bound alone has the level. True: the interval has it, with delta / 2 for each side.
    rng
        Seed, or a generator, of the order of the bets.

    Returns
    -------
    Estimate
        ``value`` is the mean, ``lower`` and ``upper`` are its bounds.

    Examples
    --------
    >>> shares = np.random.default_rng(0).beta(8, 2, size=1000)
    >>> print(mean_bounds(shares, delta=0.05))
    0.806 [0.798, 0.814] (95 % betting, each side, n = 1000)
    """
    numbers = as_vector(values, "values")
    low, high = as_number(low, "low"), as_number(high, "high")
    if not low < high:
        raise InputError(f"low must be below high, got {low:g} and {high:g}.")
    check_each(numbers, (numbers >= low) & (numbers <= high), "values", f"lie between {low:g} and {high:g}")
    delta, both = as_level(delta, "delta"), as_flag(two_sided, "two_sided")
    scaled = (numbers - low) / (high - low)
    bets = Bets(scaled[random_order(scaled, rng)], delta / 2 if both else delta)
    lower, upper = bets.lower_bound(), 1 - bets.upside_down().lower_bound()
    average = float(numbers.mean())
    # A path that began far off can refute its own average; an interval holds its value.
    ends = min(average, low + (high - low) * lower), max(average, low + (high - low) * upper)
    return Estimate(average, *ends, level=1 - delta, n=numbers.size, method="betting" + ("" if both else ", each side"))
