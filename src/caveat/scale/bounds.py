r"""AUROC and FPR of any number of rows between exact bounds, from two rank histograms against the same reference.

A row of smaller rank k (fewer reference scores at or above it) has the strictly larger score. Only pairs of equal rank
are undecided, so with shares $a_k$ of the outliers and $b_k$ of the inliers at rank k

$$ \sum_{j < k} a_j b_k \;\le\; \text{AUROC} \;\le\; \sum_{j \le k} a_j b_k $$

and the bounds are $\sum_k a_k b_k$ apart, about 1 / (n + 1) for n reference scores like the inliers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from caveat._internal.checks import as_kind, as_share, check_same, exact_level
from caveat.conformal import RankHistogram
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scale.fitting import Job, Progress
from caveat.scale.runner import running
from caveat.scale.scoring import rank_histogram
from caveat.scale.sources import Source
from caveat.scores import Score

__all__ = ["DetectionBounds", "detection", "detection_bounds"]


@final
@dataclass(frozen=True)
class DetectionBounds:
    """Bounds that hold for certain: the numbers of all rows lie between them.

    Parameters
    ----------
    auroc_lower, auroc_upper
        Around ``metrics.auroc`` of all scores.
    fpr_lower, fpr_upper
        Around ``metrics.fpr_at_tpr(..., tpr=tpr, positive="outlier")`` of all scores.
    tpr
        Share of the outliers that are caught.
    n_inlier, n_outlier, n_reference
        Rows that were counted, and reference scores.

    Examples
    --------
    >>> reference = np.arange(9.0)
    >>> inlier = RankHistogram.of(calibration=reference, test=[0.5, 1.5, 2.5, 3.5])
    >>> outlier = RankHistogram.of(calibration=reference, test=[3.4, 8.5])
    >>> bounds = detection_bounds(inlier=inlier, outlier=outlier)
    >>> bounds.tpr, bounds.n_inlier, bounds.n_outlier, bounds.n_reference
    (0.95, 4, 2, 9)
    """

    auroc_lower: float
    auroc_upper: float
    fpr_lower: float
    fpr_upper: float
    tpr: float
    n_inlier: int
    n_outlier: int
    n_reference: int


def detection_bounds(*, inlier: RankHistogram, outlier: RankHistogram, tpr: float = 0.95) -> DetectionBounds:
    """Exact bounds on AUROC and FPR at a TPR from merged histograms.

    These are bounds on what all rows together would give, not confidence intervals: they contain no doubt about
    further rows. They are equal where no inlier and outlier share a rank.

    Parameters
    ----------
    inlier, outlier
        Histograms against the same reference scores.
    tpr
        Share of the outliers that must be caught.

    Returns
    -------
    DetectionBounds
        ``auroc_lower``, ``auroc_upper``, ``fpr_lower`` and ``fpr_upper``.

    Examples
    --------
    >>> reference = np.arange(9.0)
    >>> inlier = RankHistogram.of(calibration=reference, test=[0.5, 1.5, 2.5, 3.5])
    >>> outlier = RankHistogram.of(calibration=reference, test=[3.4, 8.5])
    >>> bounds = detection_bounds(inlier=inlier, outlier=outlier)
    >>> bounds.auroc_lower, bounds.auroc_upper, bounds.fpr_lower, bounds.fpr_upper
    (0.875, 1.0, 0.0, 0.25)
    """
    for name, histogram in (("inlier", inlier), ("outlier", outlier)):
        if not as_kind(histogram, RankHistogram, name).m:
            raise InputError(f"{name} must count at least one row, got none.")
    check_same("reference scores", inlier=inlier.calibration, outlier=outlier.calibration)
    level = as_share(tpr, "tpr")
    inside, outside = inlier.counts.astype(object), outlier.counts.astype(object)  # whole numbers of any size
    pairs = inlier.m * outlier.m
    stranger = np.cumsum(outside) - outside  # outliers of smaller rank
    above, equal = int(stranger @ inside), int(outside @ inside)
    wanted = outlier.m if level == 1 else math.ceil(exact_level(level, "tpr") * outlier.m)
    caught = int(np.searchsorted(np.cumsum(outlier.counts), wanted, side="left"))
    rejected = np.concatenate([[0], np.cumsum(inlier.counts)])
    return DetectionBounds(
        above / pairs, (above + equal) / pairs, float(rejected[caught] / inlier.m),
        float(rejected[caught + 1] / inlier.m), level, inlier.m, outlier.m, inlier.n,
    )  # fmt: skip


def detection(
    score: Score,
    *,
    inlier: Source | Outputs | str | os.PathLike[str],
    outliers: Mapping[str, Source | Outputs | str | os.PathLike[str]],
    reference: ArrayLike,
    tpr: float = 0.95,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> dict[str, DetectionBounds]:
    """Bounds on AUROC and FPR of a score on sources, in one walk over each and without storing a score.

    Parameters
    ----------
    score
        A fitted score.
    inlier, outliers
        A source of inliers, and name -> source of outliers.
    reference
        Scores that cut the line into ranks, best of inliers: n of them give bounds about 1 / n apart.
    tpr, client, rows_per_task, progress
        As in ``detection_bounds`` and ``fit``.

    Returns
    -------
    dict
        Name of the outlier set -> DetectionBounds.

    Examples
    --------
    >>> from caveat.scores import Confidence
    >>> far, near = Outputs(confidence=[-5.0, -6.0]), Outputs(confidence=[0.3, 0.6])
    >>> bounds = detection(Confidence(), inlier=near, outliers={"far": far}, reference=[0.0])
    >>> bounds["far"].auroc_lower
    1.0
    """
    with running(client) as runner:
        histograms = {}
        for name, source in {"": inlier, **outliers}.items():
            job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
            histograms[name] = rank_histogram(job, f"ranks of {name or 'inliers'}", score, reference)
    inside = histograms.pop("")
    return {name: detection_bounds(inlier=inside, outlier=part, tpr=tpr) for name, part in histograms.items()}
