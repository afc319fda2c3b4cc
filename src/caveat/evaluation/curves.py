"""Curves and histograms of a score, as few numbers as a picture needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from caveat.conformal import FPRBand
from caveat.metrics.selective import Steps

__all__ = ["Histogram", "RocBand", "histogram", "most_flagged", "risk_points", "roc_at", "roc_band"]

POINTS = 101  # of a curve
BINS = 40
TAIL = 0.005  # share of each sample that may lie beyond the ends of a histogram and counts in its end bins

Floats = NDArray[np.float64]


class RocBand(NamedTuple):
    """True-positive rate over false-positive rate, as observed and as guaranteed."""

    fpr: Floats
    tpr: Floats
    lower: Floats
    upper: Floats


class Histogram(NamedTuple):
    """Shares of each sample in common bins: ``edges`` has one value more than there are bins."""

    edges: Floats
    shares: Mapping[str, Floats]
    center: float = 0.0
    unit: float = 0.0  # the edges are equally far apart in asinh((x - center) / unit); 0: in x

    def place(self, values: Floats) -> Floats:
        """Values on an axis where all bins are equally wide."""
        return np.asarray(np.arcsinh((values - self.center) / self.unit) if self.unit else values)

    def value(self, places: Floats) -> Floats:
        """The inverse of ``place``."""
        return np.asarray(self.center + self.unit * np.sinh(places) if self.unit else places)


def roc_band(band: FPRBand, outlier: NDArray[np.float64], points: int = POINTS) -> RocBand:
    r"""The ROC curve of a score with a band that holds at all thresholds at once, for these outliers.

    At the false-positive rate x the curve reads the outliers above the lowest threshold that lets at most the share x
    of the inliers through. Of the true rate only $FPR^- \le FPR \le FPR^+$ is known, so that the true-positive rate at
    a true false-positive rate of x lies between those at the thresholds where $FPR^+ \le x$ and where $FPR^- \le x$.

    The grid is finer at small rates: x is the square of an even grid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> band = FPRBand(rng.normal(size=1000), delta=0.05, two_sided=True)
    >>> curve = roc_band(band, rng.normal(2, size=500), points=11)
    >>> [round(float(part[5]), 3) for part in curve]
    [0.25, 0.926, 0.894, 0.942]
    """
    x = np.linspace(0, 1, points) ** 2
    return roc_at(x, most_flagged(band, x), np.asarray(band.inlier), np.sort(outlier))


def most_flagged(band: FPRBand, x: Floats) -> NDArray[np.intp]:
    """How many inliers may be flagged at each rate of x, as observed and by each side of the band; shape (3, points).

    It depends on the number of inliers only. -1: not even none.
    """
    flagged = np.arange(band.n + 1)
    rates = (flagged / band.n, band.upper_at(flagged), band.lower_at(flagged))
    return np.array([np.searchsorted(rate, x * (1 + 1e-12), side="right") - 1 for rate in rates])


def roc_at(x: Floats, most: NDArray[np.intp], inlier: Floats, outlier: Floats) -> RocBand:
    """The curve of sorted inliers and outliers where at most so many inliers may be flagged."""
    # With k inliers flagged at most, the lowest threshold lies just above the (k + 1)-th largest of them.
    cuts = inlier[np.clip(inlier.size - 1 - most, 0, inlier.size - 1)]
    caught = 1 - np.searchsorted(outlier, cuts, side="right") / outlier.size
    caught[most == inlier.size] = 1.0  # every inlier may be flagged: so is every outlier
    caught[most < 0] = 0.0
    return RocBand(x, *caught)


def risk_points(steps: Steps, points: int = POINTS) -> tuple[Floats, Floats]:
    """Coverage and selective risk at about ``points`` of the coverages that a threshold can give.

    >>> x, risk = risk_points(Steps.of(np.array([1.0, 2, 3, 4]), np.array([True, True, False, True])), points=3)
    >>> x.tolist(), risk.tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.0, 0.25])
    """
    accepted, n = steps.accepted, steps.accepted[-1]
    wanted = np.linspace(0, 1, points)[1:] * (1 - 1e-12)
    rows = np.unique(np.searchsorted(accepted / n, wanted).clip(max=accepted.size - 1))
    risk = steps.wrong[rows] / accepted[rows]
    return np.append(0.0, accepted[rows] / n), np.append(steps.wrong[0] / accepted[0], risk)  # the first risk is held


def histogram(samples: Mapping[str, Floats], bins: int = BINS) -> Histogram:
    """Histograms of several samples in common bins; the first sample is that of the inliers.

    The bins are of equal width. Where outliers lie so far out that half of the inliers would share half a bin, the
    bins widen away from the inliers (equal in asinh). The end bins hold what lies beyond.

    >>> bins = histogram({"inlier": np.array([0.0, 1, 2, 3]), "a": np.array([2.5, 4])}, bins=4)
    >>> bins.edges.round(2).tolist(), bins.shares["a"].tolist()
    ([0.02, 1.01, 2.0, 3.0, 3.99], [0.0, 0.0, 0.5, 0.5])
    """
    samples = {name: values if _ascends(values) else np.sort(values) for name, values in samples.items()}
    inlier = next(iter(samples.values()))
    ends = np.array([_quantiles(values, [TAIL, 1 - TAIL]) for values in samples.values()])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not high > low:  # a constant score
        low, high = low - max(1.0, abs(low)) / 2, low + max(1.0, abs(low)) / 2
    first, center, last = _quantiles(inlier, [0.25, 0.5, 0.75])
    unit = float(last - first)
    crowded = 0 < unit < (high - low) / (2 * bins)
    scale = Histogram(np.empty(0), {}, float(center), unit) if crowded else Histogram(np.empty(0), {})
    low, high = scale.place(np.array([low, high])).tolist()
    shares = {name: _shares(scale.place(values), low, high, bins) for name, values in samples.items()}
    return scale._replace(edges=scale.value(np.linspace(low, high, bins + 1)), shares=shares)


def _ascends(values: Floats) -> bool:
    return bool((values[1:] >= values[:-1]).all())


def _quantiles(ascending: Floats, shares: list[float]) -> Floats:
    """``np.quantile`` of ascending values, from the few of them that it rests on.

    >>> _quantiles(np.array([1.0, 2, 4, 8]), [0.25, 0.5, 1.0]), np.quantile([1.0, 2, 4, 8], [0.25, 0.5, 1.0])
    (array([1.75, 3.  , 8.  ]), array([1.75, 3.  , 8.  ]))
    """
    place = (ascending.size - 1) * np.array(shares)
    below = np.floor(place).astype(np.intp)
    above = np.minimum(below + 1, ascending.size - 1)
    low, high, part = ascending[below], ascending[above], place - below
    return np.asarray(np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part)))


def _shares(values: Floats, low: float, high: float, bins: int) -> Floats:
    place = ((values - low) / (high - low) * bins).clip(0, bins - 1)  # by place: edges near 1e17 are not distinct
    return np.asarray(np.bincount(place.astype(np.intp), minlength=bins) / values.size)
