"""Detection: how well a score tells outliers from inliers.

Only the order of the scores counts, so infinite scores are allowed; NaN has no rank and is refused.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal import ranking
from caveat._internal.checks import as_share, as_vector, check_known, exact_level

__all__ = ["aupr", "auroc", "conservative_auroc", "detection_error", "detection_threshold", "fpr_at_tpr", "roc_curve"]

Positive = Literal["outlier", "inlier"]


def auroc(*, inlier: ArrayLike, outlier: ArrayLike) -> float:
    r"""Chance that a random outlier scores above a random inlier; ties count one half.

    $$ P(S_{out} > S_{in}) + \tfrac12 P(S_{out} = S_{in}) $$

    Higher is better; 0.5 is a coin. Hanley and McNeil, Radiology 143(1), 1982.

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> auroc(inlier=[0, 1, 2], outlier=[1, 3])
    0.75
    """
    return ranking.auroc(*_both(inlier, outlier))


def conservative_auroc(*, inlier: ArrayLike, outlier: ArrayLike) -> float:
    r"""Chance that a random outlier scores strictly above a random inlier: a tie is a failure.

    $$ P(S_{out} > S_{in}) $$

    Higher is better. A constant score gets 0 here and 0.5 from :func:`auroc`, which matters where a bound saturates and
    many scores coincide. Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of
    Out-of-Distribution Data", NeurIPS 2020, appendix, eq. (17).

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.

    Returns
    -------
    float
        Between 0 and 1, at most the AUROC.

    Examples
    --------
    >>> round(conservative_auroc(inlier=[0, 1, 2], outlier=[1, 3]), 4)
    0.6667
    """
    inliers, outliers = _both(inlier, outlier)
    return ranking.wins(inliers, outliers)[0] / (inliers.size * outliers.size)


def aupr(*, inlier: ArrayLike, outlier: ArrayLike, positive: Positive = "outlier") -> float:
    r"""Average precision: the precision at each recall step, weighted by the step.

    $$ \sum_k (R_k - R_{k-1}) P_k $$

    over the distinct scores, strangest first for ``positive="outlier"`` and least strange first for
    ``positive="inlier"``. Higher is better; a constant score gets the share of positives. No trapezoid: a line between
    two points of a precision-recall curve is not achievable (Davis and Goadrich, ICML 2006).

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.
    positive
        The class whose precision and recall are measured, ``"outlier"`` or ``"inlier"``.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(aupr(inlier=[0, 1, 2], outlier=[1, 3]), 4)
    0.75
    >>> round(aupr(inlier=[0, 1, 2], outlier=[1, 3], positive="inlier"), 4)
    0.8056
    """
    check_known(positive, ("outlier", "inlier"), "positive class")
    negatives, positives = map(np.sort, _both(inlier, outlier))
    if positive == "inlier":
        negatives, positives = -positives[::-1], -negatives[::-1]
    return average_precision(negatives, positives)


def average_precision(negatives: NDArray[np.float64], positives: NDArray[np.float64]) -> float:
    """The same from ascending scores."""
    first = np.concatenate([[True], positives[1:] != positives[:-1]])
    cuts = positives[first]  # recall only moves at scores of positives
    caught = positives.size - np.flatnonzero(first)
    false = negatives.size - np.searchsorted(negatives, cuts, side="left")
    step = caught - np.append(caught[1:], 0)
    return float(np.sum(step * (caught / (caught + false))) / positives.size)


def detection_threshold(*, inlier: ArrayLike, outlier: ArrayLike, tpr: float, positive: Positive = "outlier") -> float:
    """The strictest threshold whose true-positive rate is at least ``tpr``.

    ``positive="outlier"``: flag scores >= the threshold. ``positive="inlier"``: accept scores <= the threshold.

    Examples
    --------
    >>> detection_threshold(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=0.75)
    5.0
    """
    check_known(positive, ("outlier", "inlier"), "positive class")
    name, values = ("outlier", outlier) if positive == "outlier" else ("inlier", inlier)
    side = as_vector(values, name, allow_infinite=True)
    k = threshold_place(side.size, as_share(tpr, "tpr"), positive)
    return float(np.partition(side, k)[k])


def threshold_place(n: int, tpr: float, positive: Positive) -> int:
    """Place of that threshold among the n ascending scores of the positive class."""
    # Exact: 0.95 * 20 must be 19, not 19.000000000000004.
    caught = n if tpr == 1 else math.ceil(exact_level(tpr, "tpr") * n)
    return n - caught if positive == "outlier" else caught - 1


def fpr_at_tpr(*, inlier: ArrayLike, outlier: ArrayLike, tpr: float = 0.95, positive: Positive = "outlier") -> float:
    """False-positive rate at the strictest threshold that reaches the true-positive rate. Lower is better.

    Two conventions share this name in the literature, and the same scores can give 0.97 under one and 0.33 under the
    other. ``positive="outlier"`` (OpenOOD): the share of inliers rejected when ``tpr`` of the outliers are caught.
    ``positive="inlier"`` (ODIN, ViM): the share of outliers accepted when ``tpr`` of the inliers are kept.
    Tied scores stay together; nothing is interpolated.

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.
    tpr
        True-positive rate that the threshold must reach, between 0 and 1.
    positive
        The class that counts as positive, ``"outlier"`` or ``"inlier"``.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> fpr_at_tpr(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=0.75)
    0.0
    >>> fpr_at_tpr(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=1.0)
    0.5
    >>> fpr_at_tpr(inlier=[0, 1, 2, 3], outlier=[2, 5, 6, 7], tpr=1.0, positive="inlier")
    0.25
    """
    threshold = detection_threshold(inlier=inlier, outlier=outlier, tpr=tpr, positive=positive)
    if positive == "outlier":
        return float(np.mean(as_vector(inlier, "inlier", allow_infinite=True) >= threshold))
    return float(np.mean(as_vector(outlier, "outlier", allow_infinite=True) <= threshold))


def detection_error(*, inlier: ArrayLike, outlier: ArrayLike) -> float:
    r"""Smallest error of a threshold when inliers and outliers are equally likely. Lower is better; 0.5 is a coin.

    $$ \min_\tau \tfrac12 P(S_{in} \ge \tau) + \tfrac12 P(S_{out} < \tau) $$

    Liang, Li and Srikant, "Enhancing the Reliability of Out-of-distribution Image Detection in Neural Networks",
    ICLR 2018, section 4.2. Never above 0.5: flagging nothing is among the choices.

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.

    Returns
    -------
    float
        Between 0 and 0.5.

    Examples
    --------
    >>> round(detection_error(inlier=[0, 1, 2], outlier=[1, 3]), 4)
    0.25
    """
    fpr, tpr = roc_curve(inlier=inlier, outlier=outlier)
    return float(np.min(fpr + 1 - tpr) / 2)


def roc_curve(*, inlier: ArrayLike, outlier: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """False- and true-positive rates over all thresholds, outliers positive, from (0, 0) to (1, 1).

    Parameters
    ----------
    inlier, outlier
        Scores, shapes (n,) and (m,); larger is stranger.

    Returns
    -------
    tuple of two arrays
        False-positive and true-positive rates, both increasing, one entry per distinct score and one for flagging
        nothing.

    Examples
    --------
    >>> fpr, tpr = roc_curve(inlier=[0, 1], outlier=[1, 2])
    >>> fpr.tolist(), tpr.tolist()
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    inliers, outliers = map(np.sort, _both(inlier, outlier))
    cuts = np.unique(np.concatenate([inliers, outliers]))[::-1]
    fpr = 1 - np.searchsorted(inliers, cuts, side="left") / inliers.size
    tpr = 1 - np.searchsorted(outliers, cuts, side="left") / outliers.size
    return np.concatenate([[0.0], fpr]), np.concatenate([[0.0], tpr])


def _both(inlier: ArrayLike, outlier: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return as_vector(inlier, "inlier", allow_infinite=True), as_vector(outlier, "outlier", allow_infinite=True)
