r"""A band around the false-positive rate that holds at every threshold at once.

With k(t) of n calibration inliers at or above t and a boundary b with $b_{n+1} = 1$:

$$ FPR^+(t) = b_{k+1}, \qquad FPR^-(t) = 1 - b_{n+1-k} \ (0 \text{ where } k = 0) $$

$$ P(FPR \le FPR^+ \text{ everywhere}) \ge 1 - \delta, \qquad P(FPR \ge FPR^- \text{ everywhere}) \ge 1 - \delta $$

"Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction", eq. (11) and (13). Two slips there
are corrected: h+(t) is b at ceil((n+1)t), not at ceil((n+1)(1-t)), and h- is taken at k, not at the marginal p-value,
which would be one rank too high and lose the guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import (
    Rng,
    as_boundary,
    as_comparable,
    as_level,
    as_number,
    as_vector,
    check_each,
    check_known,
    same_length,
)
from caveat._internal.html import small_table
from caveat.conformal.boundary import METHODS, boundary, boundary_violation
from caveat.conformal.local_levels import EXACT_UP_TO
from caveat.conformal.violation import violation_probability

__all__ = ["FPRBand"]

Vector = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class FPRBand:
    """Upper and lower bounds of P(inlier score >= t), for all thresholds t together.

    The inliers must be independent draws from the distribution that the detector will meet, and must not have trained
    it. Ties are allowed: the band then holds as it stands. The true rate is below ``upper`` everywhere with probability
    ``level`` over the calibration inliers, and above ``lower`` everywhere with probability ``level``.

    Parameters
    ----------
    inlier
        Calibration scores, shape (n,); larger is stranger.
    delta
        Allowed failure of each side, or of both together if ``two_sided``.
    method
        Name of a boundary (see ``boundary``; default ``"exact"``), or a boundary of your own, shape (n,), for example
        from ``calibrate_shape``. Its exact level is reported whatever it is.
    lower_method
        The same for the lower side, if it is to differ.
    two_sided
        Spend delta / 2 on each side, so that both hold together with probability 1 - delta.
    rng
        Source of randomness of ``"monte_carlo"``; None: a fixed stream.

    Examples
    --------
    >>> band = FPRBand(np.arange(1000), delta=0.05)
    >>> [round(float(rate), 3) for rate in (band.lower(950), band.empirical(950), band.upper(950), band.level)]
    [0.032, 0.05, 0.074, 0.95]
    """

    inlier: ArrayLike
    delta: float = 0.05
    method: str | ArrayLike = "exact"
    lower_method: str | ArrayLike | None = None
    two_sided: bool = False
    rng: Rng | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        as_level(self.delta, "delta")
        object.__setattr__(self, "inlier", np.sort(as_vector(self.inlier, "inlier", allow_infinite=True)))
        for name in ("method", "lower_method"):
            chosen = getattr(self, name)
            if isinstance(chosen, str):
                check_known(chosen, METHODS, "boundary")
            elif chosen is not None or name == "method":
                same_length(**{name: as_boundary(chosen, name), "inlier": self._sorted})

    @property
    def n(self) -> int:
        """How many inliers the band rests on."""
        return int(self._sorted.size)

    def _repr_html_(self) -> str:
        rows = []
        for rate in (0.01, 0.05, 0.1, 0.2):
            t = float(self._sorted[max(0, self.n - max(1, round(rate * self.n)))])
            rates = (100 * float(side(t)) for side in (self.lower, self.empirical, self.upper))
            rows.append((f"{t:.6g}", *(f"{percent:.2f} %" for percent in rates)))
        head = ("threshold", "at least", "measured", "at most")
        return small_table(f"False-positive rate, {self.name}, n = {self.n}", rows, head=head)

    def count(self, t: ArrayLike) -> NDArray[np.intp]:
        """How many of the calibration inliers score t or more.

        Parameters
        ----------
        t
            Thresholds of any shape.

        Returns
        -------
        integer array
            Of the shape of t.
        """
        return np.asarray(self.n - np.searchsorted(self._sorted, as_comparable(t, "t"), side="left"))

    def count_both(self, t: ArrayLike) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """How many of the calibration inliers score t or more, and how many strictly more (one array if none ties).

        Parameters
        ----------
        t
            Thresholds of any shape.

        Returns
        -------
        tuple of two integer arrays
            Each of the shape of t.
        """
        values = as_comparable(t, "t")
        at_least = self.count(values)
        tied = self._sorted[np.minimum(self.n - at_least, self.n - 1)] == values
        if not tied.any():
            return at_least, at_least
        above = at_least.copy()
        above[tied] = self.n - np.searchsorted(self._sorted, values[tied], side="right")
        return at_least, above

    def empirical(self, t: ArrayLike) -> Vector:
        """Share of the calibration inliers at or above t. No guarantee.

        Parameters
        ----------
        t
            Thresholds of any shape.

        Returns
        -------
        array
            Of the shape of t.
        """
        return np.asarray(self.count(t) / self.n)

    def upper(self, t: ArrayLike) -> Vector:
        """Above the true false-positive rate at every threshold, with probability ``level``.

        Parameters
        ----------
        t
            Thresholds of any shape.

        Returns
        -------
        array
            Of the shape of t.
        """
        return self.upper_at(self.count(t))

    def lower(self, t: ArrayLike) -> Vector:
        """Below the true false-positive rate at every threshold, with probability ``level``.

        Parameters
        ----------
        t
            Thresholds of any shape.

        Returns
        -------
        array
            Of the shape of t.
        """
        return self.lower_at(self.count(t))

    def upper_at(self, k: ArrayLike) -> Vector:
        """Upper band where k of the n inliers are flagged.

        Parameters
        ----------
        k
            Numbers of flagged inliers, 0 to n, of any shape.

        Returns
        -------
        array
            Of the shape of k.
        """
        return np.asarray(self._extended[0][self._flagged(k)])

    def lower_at(self, k: ArrayLike) -> Vector:
        """Lower band where k of the n inliers are flagged.

        Parameters
        ----------
        k
            Numbers of flagged inliers, 0 to n, of any shape.

        Returns
        -------
        array
            Of the shape of k.
        """
        return np.asarray(1 - self._extended[1][self.n - self._flagged(k)])

    def _flagged(self, k: ArrayLike) -> NDArray[np.intp]:
        counts = as_comparable(k, "k")
        whole = (counts >= 0) & (counts <= self.n) & (counts == np.round(counts))
        check_each(counts, whole, "k", f"be whole numbers from 0 to n = {self.n}")
        return counts.astype(np.intp)

    def threshold_range(self, rate: float) -> tuple[float, float]:
        """Between which scores the strictest threshold with P(inlier score > threshold) <= rate lies.

        Each end holds with probability ``level``, and for all rates at once; infinite where n is too small to say.

        Parameters
        ----------
        rate
            False-positive rate.

        Returns
        -------
        tuple of two float
            The smallest and the largest such threshold.
        """
        rate = as_number(rate, "rate", least=0, most=1)
        upper, lower = self._extended
        flagged_most = int(np.searchsorted(upper, rate, side="right")) - 1
        flagged_least = int(np.searchsorted(1 - lower[::-1], rate, side="right"))
        least = float(self._sorted[self.n - flagged_least]) if flagged_least <= self.n else -math.inf
        most = float(self._sorted[self.n - flagged_most - 1]) if 0 <= flagged_most < self.n else math.inf
        return least, most

    @cached_property
    def level(self) -> float:
        """The level actually achieved: exact for n up to 1,000,000, nominal above.

        Of each side alone (the worse one), or of both together (a lower bound: 1 minus the sum) if ``two_sided``.
        """
        failures = [self._violation(side) for side in (0, 1)]
        return max(0.0, 1 - (sum(failures) if self.two_sided else max(failures)))

    @cached_property
    def caveat(self) -> str:
        """A sentence where the band is weaker than it looks, else empty."""
        if self.n > EXACT_UP_TO:
            if "exact" in self._names:
                return f"n = {self.n} is above {EXACT_UP_TO}: the local level is extrapolated from smaller n."
            if set(self._names) - {"simes", "dkwm"}:  # these two hold for every n
                return f"n = {self.n} is above {EXACT_UP_TO}: the level is nominal, not checked."
        if self.level < 1 - self.delta - 1e-9:
            return f"The level is {self.level:.5f}, below the {1 - self.delta:g} asked for. Use method 'exact'."
        return ""

    @property
    def name(self) -> str:
        """How the band was made, for a result: the method, and whether its level is that of each side."""
        return f"{' and '.join(dict.fromkeys(self._names))} band" + ("" if self.two_sided else ", each side")

    @property
    def _sorted(self) -> Vector:
        assert isinstance(self.inlier, np.ndarray)
        return self.inlier

    @property
    def _chosen(self) -> tuple[str | ArrayLike, str | ArrayLike]:
        return self.method, self.method if self.lower_method is None else self.lower_method

    @property
    def _names(self) -> list[str]:
        return [chosen if isinstance(chosen, str) else "own" for chosen in self._chosen]

    @property
    def _side_delta(self) -> float:
        return self.delta / 2 if self.two_sided else self.delta

    @cached_property
    def _extended(self) -> list[Vector]:
        """b_1, ..., b_n and b_{n+1} = 1, for the upper and for the lower side."""
        upper = self._with_one(self.method)
        return [upper, upper if self.lower_method is None else self._with_one(self.lower_method)]

    def _with_one(self, chosen: str | ArrayLike) -> Vector:
        b = boundary(self.n, self._side_delta, chosen, rng=self.rng) if isinstance(chosen, str) else chosen
        return np.append(np.asarray(b, dtype=np.float64), 1.0)

    def _violation(self, side: int) -> float:
        """How often the upper (0) or the lower (1) side fails."""
        chosen = self._chosen[side]
        if isinstance(chosen, str) and chosen != "monte_carlo":
            chance = boundary_violation(self.n, self._side_delta, chosen)
        else:
            chance = math.nan if self.n > EXACT_UP_TO else violation_probability(self._extended[side][:-1])
        return self._side_delta if math.isnan(chance) else chance
