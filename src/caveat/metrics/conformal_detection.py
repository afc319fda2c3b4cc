r"""AUROC and FPR at a true-positive rate with finite-sample bounds.

The false-positive rate is known only from n inliers. A band around it (``FPRBand``) that holds at all thresholds at
once bounds every number made from it. Because AUROC = 1 - mean over outliers of FPR(score):

$$ AUROC_{lower} = 1 - \tfrac1m \sum_j FPR^+(s_j), \qquad AUROC_{upper} = 1 - \tfrac1m \sum_j FPR^-(s_j) $$

"Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction", section 4.4; the lower bound is the
paper's AUROC+, the upper its AUROC-. Ties count one half as in ``auroc``: the band is read at s and just above s, and
averaged. These bounds hold for the outliers given. ``ood="population"`` (ours) spends half of delta on the
outliers too, and bounds what further outliers of the same kind would give.

A band holds at all thresholds at once, which one number does not need. Given the outliers, AUROC is the mean over
inliers of g(x), the share of outliers above x with half of the ties: n independent values in [0, 1].
``method="betting"`` bounds that mean (``conformal.mean_bounds``), at about half the length.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_level, as_vector, check_known
from caveat._internal.ranking import share_above
from caveat.conformal.betting import mean_bounds
from caveat.conformal.boundary import METHODS
from caveat.conformal.fpr_band import FPRBand
from caveat.conformal.hoeffding import hoeffding_lower
from caveat.conformal.threshold import safe_rank
from caveat.metrics.detection import detection_threshold
from caveat.results import Estimate, proportion_interval

__all__ = ["conformal_auroc", "conformal_fpr_at_tpr"]

Vector = NDArray[np.float64]
Ood = Literal["sample", "population"]


def conformal_auroc(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    delta: float = 0.05,
    method: str | ArrayLike = "exact",
    ood: Ood = "sample",
    two_sided: bool = False,
    rng: Rng = 0,
) -> Estimate:
    """AUROC with a conservative lower and a permissive upper bound that hold for every n. Higher is better.

    With probability 1 - delta over the inliers, the AUROC of these outliers against *all* inliers is above ``lower``.
    A boundary promises that together with the false-positive rates at all thresholds; ``"betting"`` promises this one
    number, and its bounds are about half as far away.

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger. The inliers must be independent of each other and of training.
    delta
        Allowed failure of each bound, or of both together if ``two_sided``.
    method
        The boundary, by name or as values; see ``FPRBand``. Or ``"betting"``.
    ood
        ``"sample"``: the outliers are given, only the inliers are random. ``"population"``: the outliers are
        independent draws too; half of delta goes to a Dvoretzky-Kiefer-Wolfowitz bound of their distribution, with
        ``"betting"`` to Hoeffding's bound of their mean.
    two_sided
        False: each bound alone has the level, as in the paper. True: the interval has it.
    rng
        Of ``"betting"``: seed, or a generator, of the order in which the inliers are bet on.

    Returns
    -------
    Estimate
        ``level`` is the exact level of the boundary (see ``FPRBand.level``), or with ``"betting"`` 1 - delta.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> inlier, outlier = rng.normal(size=1000), rng.normal(1.5, size=500)
    >>> print(conformal_auroc(inlier=inlier, outlier=outlier))
    0.872 [0.846, 0.893] (95 % exact band, each side, n = 1000)
    >>> print(conformal_auroc(inlier=inlier, outlier=outlier, ood="population", two_sided=True))
    0.872 [0.776, 0.934] (95 % exact band and DKW, n = 1500)
    >>> print(conformal_auroc(inlier=inlier, outlier=outlier, method="betting"))
    0.872 [0.859, 0.882] (95 % betting, each side, n = 1000)
    """
    if isinstance(method, str) and check_known(method, (*METHODS, "betting"), "method") == "betting":
        return _bet(inlier, outlier, delta, ood, two_sided, rng)
    band, outlier_delta = _band(inlier, delta, method, ood, two_sided)
    scores = np.sort(as_vector(outlier, "outlier", allow_infinite=True))  # sorted queries keep the search in cache
    m, n = scores.size, band.n
    at_least, above = band.count_both(scores)
    value = 1 - (at_least.sum() + above.sum()) / 2 / (n * m)
    worst, best = 1 - band.upper_at(at_least), 1 - band.lower_at(at_least)  # both rise with the score
    if above is not at_least:  # ties count one half
        worst, best = (worst + 1 - band.upper_at(above)) / 2, (best + 1 - band.lower_at(above)) / 2
    if ood == "sample":
        lower, upper = float(worst.mean()), float(best.mean())
    else:
        # Massart's one-sided constant. At worst a share epsilon of the strangest outliers is really the least strange.
        epsilon = math.sqrt(math.log(1 / outlier_delta) / (2 * m))
        lower = _mean_without_first(worst[::-1], epsilon)
        upper = 1 - _mean_without_first(1 - best, epsilon)
    return _estimate((float(value), lower, upper), band, outlier_delta=outlier_delta, m=m, outlier_method="DKW")


def conformal_fpr_at_tpr(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    tpr: float = 0.95,
    positive: Literal["outlier", "inlier"] = "outlier",
    delta: float = 0.05,
    method: str | ArrayLike = "exact",
    ood: Ood = "sample",
    two_sided: bool = False,
) -> Estimate:
    """False-positive rate at a true-positive rate, with bounds that hold for every n. Lower is better.

    ``positive="outlier"``: the share of inliers rejected at the strictest threshold that catches ``tpr`` of the
    outliers, with the band of the false-positive rate there. ``positive="inlier"``: the share of outliers accepted at
    the strictest threshold that keeps ``tpr`` of all inliers; the band says between which scores that threshold lies.

    Parameters
    ----------
    inlier, outlier
        As in ``conformal_auroc``.
    tpr
        True-positive rate that the threshold must reach.
    positive
        Which class is positive; both conventions are in use, see ``fpr_at_tpr``.
    delta, method
        As in ``conformal_auroc``, without ``"betting"``.
    ood
        ``"sample"``: for these outliers. ``"population"``: for the distribution they are drawn from, with half of
        delta spent on an exact binomial bound of their share.
    two_sided
        As in ``conformal_auroc``.

    Returns
    -------
    Estimate
        The false-positive rate and its bounds; ``level`` is their exact level.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> inlier, outlier = rng.normal(size=1000), rng.normal(3, size=500)
    >>> print(conformal_fpr_at_tpr(inlier=inlier, outlier=outlier))
    0.064 [0.043, 0.091] (95 % exact band, each side, n = 1000)
    >>> print(conformal_fpr_at_tpr(inlier=inlier, outlier=outlier, positive="inlier"))
    0.060 [0.048, 0.112] (95 % exact band, each side, n = 1000)
    """
    band, outlier_delta = _band(inlier, delta, method, ood, two_sided)
    scores = np.sort(as_vector(outlier, "outlier", allow_infinite=True))
    threshold = detection_threshold(inlier=inlier, outlier=scores, tpr=tpr, positive=positive)
    bound = _bound_outlier_positive if positive == "outlier" else _bound_inlier_positive
    bounds = bound(band, scores, tpr, threshold, outlier_delta)
    return _estimate(bounds, band, outlier_delta=outlier_delta, m=scores.size, outlier_method="binomial")


def _bound_outlier_positive(
    band: FPRBand, outlier: Vector, tpr: float, threshold: float, outlier_delta: float
) -> tuple[float, float, float]:
    value = float(band.empirical(threshold))
    if outlier_delta == 0:
        return value, float(band.lower(threshold)), float(band.upper(threshold))
    # The threshold that catches tpr of all such outliers lies between two order statistics of these.
    m = outlier.size
    missed = safe_rank(m, 1 - tpr, outlier_delta) if tpr < 1 else 0  # it is at or above the missed-th smallest
    caught = safe_rank(m, tpr, outlier_delta) if tpr < 1 else m  # and at or below the caught-th largest
    upper = float(band.upper(outlier[missed - 1])) if missed else 1.0
    lower = float(band.lower(outlier[m - caught])) if caught else 0.0
    return value, lower, upper


def _bound_inlier_positive(
    band: FPRBand, outlier: Vector, tpr: float, threshold: float, outlier_delta: float
) -> tuple[float, float, float]:
    m = outlier.size
    accepted = int(np.searchsorted(outlier, threshold, side="right"))
    least, most = band.threshold_range(1 - tpr)
    low = int(np.searchsorted(outlier, least, side="right"))
    high = int(np.searchsorted(outlier, most, side="right"))
    if outlier_delta == 0:
        return accepted / m, low / m, high / m
    lower = proportion_interval(low, m, delta=2 * outlier_delta).lower  # each end of an interval has half of its delta
    return accepted / m, lower, proportion_interval(high, m, delta=2 * outlier_delta).upper


def _bet(inlier: ArrayLike, outlier: ArrayLike, delta: float, ood: str, two_sided: bool, rng: Rng) -> Estimate:
    """Bounds of this one number: of the mean over inliers of the share of outliers above them."""
    check_known(ood, ("sample", "population"), "ood")
    delta = as_level(delta, "delta")
    outliers = as_vector(outlier, "outlier", allow_infinite=True)
    shares = share_above(as_vector(inlier, "inlier", allow_infinite=True), outliers)
    if ood == "sample":
        return mean_bounds(shares, delta=delta, two_sided=two_sided, rng=rng)
    bounds = mean_bounds(shares, delta=delta / 2, two_sided=two_sided, rng=rng)
    # Given all inliers, AUROC is a mean over outliers, too. Its sample value is known up to the bounds above.
    m, side = outliers.size, delta / (4 if two_sided else 2)
    return replace(
        bounds, lower=hoeffding_lower(bounds.lower, m, side), upper=1 - hoeffding_lower(1 - bounds.upper, m, side),
        level=1 - delta, n=bounds.n + m, method=bounds.method.replace("betting", "betting and Hoeffding"),
    )  # fmt: skip


def _band(inlier: ArrayLike, delta: float, method: str | ArrayLike, ood: str, two_sided: bool) -> tuple[FPRBand, float]:
    """The band, and what each side may spend on the outliers (0: they are given)."""
    check_known(ood, ("sample", "population"), "ood")
    as_level(delta, "delta")
    if ood == "sample":
        return FPRBand(inlier, delta=delta, method=method, two_sided=two_sided), 0.0
    return FPRBand(inlier, delta=delta / 2, method=method, two_sided=two_sided), delta / (4 if two_sided else 2)


def _mean_without_first(values: Vector, share: float) -> float:
    """Mean of the values after the first ``share`` of them has been set to 0."""
    dropped = share * values.size
    whole = math.floor(dropped)
    if whole >= values.size:
        return 0.0
    return float((values[whole:].sum() - (dropped - whole) * values[whole]) / values.size)


def _estimate(
    bounds: tuple[float, float, float], band: FPRBand, *, outlier_delta: float, m: int, outlier_method: str
) -> Estimate:
    name, n, level = band.name, band.n, band.level
    if outlier_delta > 0:
        name = name.replace(" band", f" band and {outlier_method}")
        n += m
        level = max(0.0, level - outlier_delta * (2 if band.two_sided else 1))
    return Estimate(*bounds, level=level, n=n, method=name, caveat=band.caveat)
