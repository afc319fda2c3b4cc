r"""Standard errors of AURC and AUGRC without resampling: how far each row moves the area.

Both areas are smooth functions of the weights of the rows. The rows are sorted once into groups of tied scores; group g
ends at coverage $a_g$ and generalized risk $b_g$, its selective risk is $r_g = b_g / a_g$, and $a_0 = b_0 = 0$. The
trapezoid rule reads $AUGRC = \sum_g (a_g - a_{g-1})(b_g + b_{g-1}) / 2$ and $AURC = \sum_g c_g r_g$, where
$c_g = (a_{g+1} - a_{g-1}) / 2$, in the last group $(a_g - a_{g-1}) / 2$, and in the first $a_1 / 2$ more, because the
first risk is held from coverage 0. Their derivatives by the weight of a row in group q, wrong (e = 1) or right (e = 0),
are its influence; over all rows it adds up to 0:

$$ u^{AUGRC} = e \Big(1 - \frac{a_q + a_{q-1}}{2}\Big) + \frac{b_q + b_{q-1}}{2} - 2\,AUGRC $$
$$ u^{AURC} = \sum_{g \ge q} \frac{c_g}{a_g} (e - r_g) + \frac{r_q + r_{q-1}}{2} - AURC, \quad r_0 = r_1 $$
$$ \widehat{\operatorname{var}} = \frac{1}{n (n - 1)} \sum_i u_i^2 $$

This is the infinitesimal jackknife (Jaeckel, "The Infinitesimal Jackknife", Bell Laboratories MM 72-1215-11, 1972). For
AUGRC, the mean over all pairs of rows of "the first is wrong and accepted no later than the second", u is twice the
Hajek projection (Hoeffding, Annals of Mathematical Statistics 19(3), 1948). The difference of two scores or two models
on the same rows has the difference of their influences.

A few errors can carry most of an area, and then the variance itself is uncertain. Its degrees of freedom follow from
the kurtosis $\kappa$ of u: $\nu = 2 n / (\kappa - 1)$, at least 1 and at most n - 1 (Satterthwaite, Biometrics Bulletin
2(6), 1946); intervals use Student's t with as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from caveat._internal.arrays import read_only
from caveat.metrics.selective import Steps

__all__ = ["INFLUENCES", "Spread", "area_spreads", "row_influence", "spread"]

Floats = NDArray[np.float64]
_KEPT = 2**19  # rows up to which weights are kept: 8 MB for one number of rows


class Spread(NamedTuple):
    """Standard error of an area or of a difference, and the degrees of freedom of its variance."""

    error: float
    degrees: float

    def reach(self, delta: float) -> float:
        """Half the length of an interval of level 1 - delta: the standard error times the quantile of Student's t."""
        return self.error * float(-stdtrit(self.degrees, delta / 2))


class Influence(NamedTuple):
    """An area, and the influence of a right and of a wrong answer in each group of ties."""

    area: float
    of_right: Floats
    of_wrong: Floats


def _augrc(steps: Steps) -> Influence:
    area, n = steps.augrc(), steps.accepted[-1]
    of_right = _middle(steps.wrong / n)
    of_right -= 2 * area
    of_wrong = _middle(steps.accepted / n)
    np.subtract(1, of_wrong, out=of_wrong)
    of_wrong += of_right
    return Influence(area, of_right, of_wrong)


def _aurc(steps: Steps) -> Influence:
    area, accepted = steps.aurc(), steps.accepted
    risk = steps.wrong / accepted
    middle = _middle(risk)
    middle[0] = risk[0]  # held from coverage 0
    n = accepted.size
    share, gained = _without_ties(n) if n <= _KEPT and accepted[-1] == n else _weights(accepted)
    lost = np.multiply(risk, share, out=risk)
    np.cumsum(lost[::-1], out=lost[::-1])  # in place, from the last group to the first
    middle -= area
    of_wrong = gained - lost
    of_wrong += middle  # all wrong: exactly 0
    middle -= lost
    return Influence(area, middle, of_wrong)


def _weights(accepted: Floats) -> tuple[Floats, Floats]:
    """c_g / a_g of each group, and its sum from each group to the last."""
    share = _widths(accepted)
    share /= 2
    first = share[0]
    share[:-1] += share[1:]
    share[0] += first
    share /= accepted
    return share, np.cumsum(share[::-1])[::-1]


@lru_cache(maxsize=4)  # three sets of an evaluation
def _without_ties(n: int) -> tuple[Floats, Floats]:
    """The same where every row is a group: it depends on their number alone, and all scores of a set share it."""
    share, gained = _weights(np.arange(1, n + 1, dtype=np.float64))
    return read_only(share), read_only(gained)


INFLUENCES: Mapping[str, Callable[[Steps], Influence]] = {"augrc": _augrc, "aurc": _aurc}


def area_spreads(metrics: Iterable[str], steps: Steps) -> dict[str, tuple[float, Spread]]:
    """Areas and their standard errors."""
    wrong, right = _widths(steps.wrong), _widths(steps.accepted)
    right -= wrong
    spreads = {}
    for metric in metrics:
        area, *influences = INFLUENCES[metric](steps)
        sums = [0.0, 0.0]  # of the second and the fourth powers
        for count, values in zip((right, wrong), influences, strict=True):
            for power in range(2):
                np.square(values, out=values)
                sums[power] += float(np.dot(count, values))
        spreads[metric] = area, _spread(int(steps.accepted[-1]), *sums)
    return spreads


def row_influence(metric: str, steps: Steps, values: Floats, right: NDArray[np.bool_]) -> tuple[float, Floats]:
    """An area and the influence of each row, in the order of ``values``, the scores that ``steps`` were made from."""
    influence = INFLUENCES[metric](steps)
    group = np.searchsorted(steps.score, values)
    return influence.area, np.where(right, influence.of_right[group], influence.of_wrong[group])


def spread(influence: Floats) -> Spread:
    """Standard error of an area from the influence of its rows.

    >>> spread(np.array([-1.0, 1.0, 0.0, 0.0]))
    Spread(error=0.408248290463863, degrees=3.0)
    """
    squares = influence**2
    return _spread(influence.size, float(squares.sum()), float(np.dot(squares, squares)))


def _spread(n: int, second: float, fourth: float) -> Spread:
    """From the sums of the second and fourth powers of the influences of n rows."""
    if n < 2 or second == 0:
        return Spread(0.0, 1.0)
    excess = n * fourth / second**2 - 1  # the kurtosis less 1; 0 where all rows weigh the same
    degrees = min(n - 1.0, max(1.0, 2 * n / excess)) if excess > 0 else n - 1.0
    return Spread(float(np.sqrt(second / (n * (n - 1)))), degrees)


def _middle(values: Floats) -> Floats:
    """Mean of each value and the one before, 0 before the first."""
    middle = values.copy()
    middle[1:] += values[:-1]
    middle /= 2
    return middle


def _widths(ends: Floats | NDArray[np.intp]) -> Floats:
    widths = np.empty(ends.size)
    widths[0] = ends[0]
    np.subtract(ends[1:], ends[:-1], out=widths[1:])
    return widths
