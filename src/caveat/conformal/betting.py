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
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_flag, as_level, as_number, as_rng, as_vector, check_each
from caveat._internal.streams import stream
from caveat.errors import InputError
from caveat.results import Estimate

__all__ = ["Bets", "mean_bounds", "random_order"]

Vector = NDArray[np.float64]

# c, the share of the capital that one bet may lose. With 0.5 the bound of values near 1 is longer than the band's (at
# delta = 0.01); with 0.99 one small value ruins the capital.
CAP = 0.9
PRECISION = 1e-10  # of a bound, which is itself refuted
_LEAST_MEAN = 1e-9  # no smaller mean is refuted: the lower bound is 0 there
_COLUMN, _MANY = 16, 4096  # one logarithm for so many bets; a path this long is worth it. No product overflows: a bet
# multiplies the capital by at most 1 + CAP / _LEAST_MEAN.
_MOST_STEPS = 400  # every sixth halves what is left of [0, 1]


@final
class Bets:
    """Bets on values in [0, 1], in the order in which they stand, tuned to refute at level ``delta``.

    The order must not depend on the values: see ``random_order``.
    """

    def __init__(self, values: Vector, delta: float) -> None:
        self.values, self.delta = values, delta
        self._grids: tuple[Vector, Vector, Vector] | None = None  # what ``log_capital`` reads, and room for it
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
        other.values, other.delta, other.sizes, other._grids = 1 - self.values, self.delta, self.sizes, None
        if self._grids is not None:
            other._grids = self._grids[0], 1 - self._grids[1], self._grids[2]
        return other

    def log_capital(self, mean: float) -> float:
        """Largest log capital on the path of bets against "the mean is at most ``mean``", at least 0.

        ``exp(-log_capital)`` is a p-value of that claim.
        """
        if self.values.size < _MANY:
            growth = np.minimum(self.sizes, CAP / mean)
            growth *= self.values - mean
            np.log1p(growth, out=growth)
            return max(0.0, float(np.cumsum(growth, out=growth).max()))
        if self._grids is None:
            self._grids = _in_columns(self.sizes), _in_columns(self.values), np.empty((2, *_shape(self.values.size)))
        sizes, values, (growth, gap) = self._grids
        np.minimum(sizes, CAP / mean, out=growth)
        np.subtract(values, mean, out=gap)
        growth *= gap
        growth += 1
        for step in range(1, _COLUMN):  # the capital within a column, from 1 on
            growth[step] *= growth[step - 1]
        ends = np.cumsum(np.log(growth[-1]))
        ends[1:], ends[0] = ends[:-1].copy(), 0.0  # the log capital before each column
        ends += np.log(growth.max(axis=0))
        return max(0.0, float(ends.max()))

    def lower_bound(self) -> float:
        """Below the mean with probability at least 1 - delta."""
        target, n = math.log(1 / self.delta), self.values.size
        # The capital reaches its target about here, and falls from there by the sizes of all bets: a secant needs four
        # or five looks at the values, where a search between ends needs twice as many.
        here = float(self.values.mean()) - math.sqrt(2 * target * float(self.values.var()) / n)
        low, high, slope = _LEAST_MEAN, 1.0, -float(self.sizes.sum())  # refuted up to low, not from high on
        here, before, asked = min(max(here, low), high), (math.nan, math.nan), False
        for step in range(1, _MOST_STEPS):
            excess = self.log_capital(here) - target
            if excess >= 0:
                low, asked = here, True
            elif here <= _LEAST_MEAN:
                return 0.0
            else:
                high = here
            if high - low <= 2 * PRECISION:
                if asked:
                    break
                here = low  # the least mean of all, which was not looked at yet
                continue
            if step > 1 and here != before[0]:
                slope = (excess - before[1]) / (here - before[0])
            before = (here, excess)
            following = here - excess / slope if slope < 0 else math.nan
            if abs(following - here) < PRECISION:  # as good as there: the next look is on the other side
                following += PRECISION if excess >= 0 else -PRECISION
            if following <= low and not asked:
                here = low
            else:  # outside what is left, or slow, as where the first values were larger than the others: halve it
                here = following if low < following < high and step % 6 else (low + high) / 2
        return low


def _shape(n: int) -> tuple[int, int]:
    return _COLUMN, -(-n // _COLUMN)


def _in_columns(values: Vector) -> Vector:
    """Consecutive values in columns, so that one step of all columns is one step of numpy; ends with bets of 0."""
    rows, columns = _shape(values.size)
    grid = np.zeros((columns, rows))
    grid.reshape(-1)[: values.size] = values
    return np.ascontiguousarray(grid.T)


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
