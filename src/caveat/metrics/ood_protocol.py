"""Outliers as failures: the protocol by which selective metrics judge OOD detection.

A correctly classified inlier should be accepted, an outlier should not. Misclassified inliers are dropped, so that a
score is not rewarded for flagging ordinary errors as if they were outliers; misclassification detection is a question
of its own, asked with the same functions on the inliers alone. Claros-Olivares and Brockmeier, "A Systematic Analysis
of Out-of-Distribution Detection Under Representation and Training Paradigm Shifts", section 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_vector
from caveat.errors import InputError
from caveat.metrics.auroc_intervals import auroc_interval
from caveat.metrics.detection import fpr_at_tpr
from caveat.metrics.selective import scored_answers
from caveat.metrics.selective_intervals import Method, selective_intervals
from caveat.results import Estimate

__all__ = ["FailureDetection", "misclassification", "ood_failures", "ood_protocol"]


@final
@dataclass(frozen=True)
class FailureDetection:
    """How well one score tells failures from right answers.

    Parameters
    ----------
    aurc, augrc
        Areas under the risk-coverage curves, with their intervals; lower is better.
    auroc
        Chance that a failure scores above a right answer, with its interval; None where all answers are of one kind.
    fpr95
        Share of right answers rejected when 95 % of the failures are caught; None where auroc is.
    n_right, n_failures
        Number of right answers and of failures.
    n_dropped
        Number of misclassified inliers that the OOD protocol leaves out.

    Examples
    --------
    >>> judged = misclassification(score=[1, 2, 3, 9], correct=[1, 1, 1, 0])
    >>> judged.n_right, judged.n_failures, judged.fpr95
    (3, 1, 0.0)
    """

    aurc: Estimate
    augrc: Estimate
    auroc: Estimate | None  # None where there is only one kind of answer
    fpr95: float | None  # share of right answers rejected when 95 % of the failures are caught
    n_right: int
    n_failures: int
    n_dropped: int  # misclassified inliers that the OOD protocol leaves out


def ood_failures(
    *, inlier: ArrayLike, correct: ArrayLike, outlier: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores and right-or-wrong of the protocol's samples: right inliers, then all outliers as failures.

    Parameters
    ----------
    inlier, correct
        Shape (n,): score of the inliers, and whether the classifier was right about each.
    outlier
        Shape (m,): score of the outliers.

    Returns
    -------
    tuple of two arrays
        The scores, and whether each is of a right answer; misclassified inliers are left out.

    Examples
    --------
    >>> score, correct = ood_failures(inlier=[0.1, 0.9], correct=[1, 0], outlier=[0.5])
    >>> score.tolist(), correct.tolist()
    ([0.1, 0.5], [True, False])
    """
    values, right = scored_answers(inlier, correct)
    outliers = as_vector(outlier, "outlier", allow_infinite=True)
    if not right.any():
        raise InputError("correct must hold at least one right answer: the protocol compares outliers with those.")
    kept = values[right]
    return np.concatenate([kept, outliers]), np.arange(kept.size + outliers.size) < kept.size


def ood_protocol(
    *,
    inlier: ArrayLike,
    correct: ArrayLike,
    outlier: ArrayLike,
    delta: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 1000,
) -> FailureDetection:
    """AURC, AUGRC, AUROC and FPR@95 of outliers against correctly classified inliers.

    Parameters
    ----------
    inlier
        Shape (n,): score of the inliers; larger is stranger.
    correct
        Shape (n,): whether the classifier was right about each inlier.
    outlier
        Shape (m,): score of the outliers, which all count as failures.
    delta
        Allowed failure of each interval.
    method, rng, resamples
        As for :func:`selective_intervals`.

    Returns
    -------
    FailureDetection
        ``aurc``, ``augrc`` and ``auroc`` are Estimates, ``fpr95`` is a share, ``n_dropped`` counts the misclassified
        inliers, which are left out.

    Examples
    --------
    >>> judged = ood_protocol(inlier=[1, 2, 3, 9], correct=[1, 1, 1, 0], outlier=[3, 4])
    >>> judged.n_dropped, round(judged.augrc.value, 3), round(judged.auroc.value, 3)
    (1, 0.1, 0.917)
    """
    score, right = ood_failures(inlier=inlier, correct=correct, outlier=outlier)
    dropped = int(scored_answers(inlier, correct)[1].size - right.sum())
    return _measure(score, right, dropped=dropped, delta=delta, method=method, rng=rng, resamples=resamples)


def misclassification(
    *,
    score: ArrayLike,
    correct: ArrayLike,
    delta: float = 0.05,
    method: Method = "influence",
    rng: Rng = 0,
    resamples: int = 1000,
) -> FailureDetection:
    """AURC, AUGRC, AUROC and FPR@95 of the classifier's own errors against its right answers, on inliers alone.

    Parameters
    ----------
    score
        Shape (n,): score of the inliers; larger is stranger.
    correct
        Shape (n,): whether the classifier was right.
    delta
        Allowed failure of each interval.
    method, rng, resamples
        As for :func:`selective_intervals`.

    Returns
    -------
    FailureDetection
        ``aurc``, ``augrc`` and ``auroc`` are Estimates, ``fpr95`` is a share.

    Examples
    --------
    >>> judged = misclassification(score=[1, 2, 3, 9], correct=[1, 1, 1, 0])
    >>> judged.augrc.value, judged.auroc.value
    (0.03125, 1.0)
    """
    values, right = scored_answers(score, correct)
    return _measure(values, right, dropped=0, delta=delta, method=method, rng=rng, resamples=resamples)


def _measure(
    score: NDArray[np.float64], right: NDArray[np.bool_], *, dropped: int, delta: float, **options: Any
) -> FailureDetection:
    both = bool(right.any() and not right.all())
    answers, failures = score[right], score[~right]
    areas = selective_intervals(score=score, correct=right, delta=delta, **options)
    return FailureDetection(
        aurc=areas["aurc"],
        augrc=areas["augrc"],
        auroc=auroc_interval(inlier=answers, outlier=failures, delta=delta) if both else None,
        fpr95=fpr_at_tpr(inlier=answers, outlier=failures, tpr=0.95) if both else None,
        n_right=answers.size,
        n_failures=failures.size,
        n_dropped=dropped,
    )
