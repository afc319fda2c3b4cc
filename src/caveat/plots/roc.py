"""ROC curve, with the band that holds at all thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from caveat._internal.checks import as_vector
from caveat.conformal import FPRBand
from caveat.metrics import auroc, roc_curve
from caveat.plots._axes import COLORS, MUTED, draw_curve, plain, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["roc"]

BAND_POINTS = 401


def roc(
    *,
    inlier: ArrayLike,
    outlier: ArrayLike,
    delta: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """ROC curve of a score: outliers caught (true-positive rate) over inliers rejected (false-positive rate).

    Call it once per score with the same ``ax`` to compare scores. The legend has the AUROC.

    Parameters
    ----------
    inlier, outlier
        Scores of in-distribution samples, shape (n,), and of outliers, shape (m,). The larger, the stranger.
    delta
        If set, draw the band that holds the curve at all thresholds together with probability 1 - delta over the
        inliers (``conformal.FPRBand``, two-sided). The outliers are taken as they are.
    label
        Name of the score in the legend.
    ax
        Axes to draw on; None: a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = roc(inlier=[0, 1, 2, 3], outlier=[2, 4, 5], label="knn")
    >>> ax.get_legend().get_texts()[0].get_text()
    'knn: AUROC 0.875'
    """
    inside = as_vector(inlier, "inlier", allow_infinite=True)
    outside = as_vector(outlier, "outlier", allow_infinite=True)
    ax = prepare(ax, "roc", size=(4.8, 4.6))
    area = f"AUROC {auroc(inlier=inside, outlier=outside):.3f}"
    name = area if label is None else f"{plain(label)}: {area}"
    i = draw_curve(ax, *roc_curve(inlier=inside, outlier=outside), name)
    if i == 0:
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, zorder=1)
    if delta is not None:
        from caveat.evaluation.curves import roc_band

        band = roc_band(FPRBand(inside, delta=delta, two_sided=True), outside, points=BAND_POINTS)
        # Between two grid points the true bounds lie between those of the two: draw the outer ones.
        x, lower, upper = (np.repeat(part, 2) for part in (band.fpr, band.lower, band.upper))
        ax.fill_between(
            x[1:-1], lower[:-2], upper[2:], color=COLORS[i % len(COLORS)], alpha=0.2, linewidth=0, zorder=1,
            label=f"{100 * (1 - delta):g} % band for all thresholds",
        )  # fmt: skip
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.01), aspect="equal")
    ax.set(xlabel="Inliers rejected (false-positive rate)", ylabel="Outliers caught (true-positive rate)")
    ax.legend(loc="lower right", fontsize="small")
    return ax
