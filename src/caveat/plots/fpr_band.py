"""False-positive rate over the threshold, with its guaranteed band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from caveat.conformal import FPRBand
from caveat.errors import InputError
from caveat.plots._axes import COLORS, DASHES, INK, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["fpr_band"]

MOST_POINTS = 2000  # more than a figure has pixels


def fpr_band(band: FPRBand, ax: Axes | None = None) -> Axes:
    """Share of inliers at or above each threshold: observed, and the bounds that hold at all thresholds together.

    Parameters
    ----------
    band
        From ``conformal.FPRBand``; infinite scores have no place on the axis and are left out.
    ax
        Axes to draw on; None: a new figure. ``ax.set_yscale("log")`` shows small rates.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = fpr_band(FPRBand(np.arange(1000), delta=0.05))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['upper bound', 'observed on 1000 inliers', 'lower bound', '95 % band, each side']
    """
    inlier = np.asarray(band.inlier)
    finite = np.unique(inlier[np.isfinite(inlier)])
    if not finite.size:
        raise InputError("fpr_band needs a band with finite inlier scores, and all of them are infinite.")
    if finite.size > 2 * MOST_POINTS:  # even in the rate and even in the threshold: no pixel lacks its step
        by_value = np.searchsorted(finite, np.linspace(finite[0], finite[-1], MOST_POINTS))
        finite = finite[np.union1d(np.linspace(0, finite.size - 1, MOST_POINTS).astype(int), by_value)]
    ax = prepare(ax, "fpr_band")
    margin = 0.04 * (finite[-1] - finite[0]) or 1.0
    thresholds = np.concatenate([[finite[0] - margin], finite, [finite[-1] + margin]])
    upper, lower = band.upper(thresholds), band.lower(thresholds)
    each = "" if band.two_sided else ", each side"
    # The share of scores >= t is constant up to and including each score: steps hold to the left ("pre").
    for label, rate, color, dashes, width in (
        ("upper bound", upper, COLORS[1], DASHES[1], 1.3),
        (f"observed on {band.n} inliers", band.empirical(thresholds), INK, "solid", 1.6),
        ("lower bound", lower, COLORS[0], DASHES[2], 1.3),
    ):
        ax.plot(thresholds, rate, drawstyle="steps-pre", color=color, linestyle=dashes, linewidth=width, label=label)
    ax.fill_between(
        thresholds, lower, upper, step="pre", color=COLORS[0], alpha=0.15, linewidth=0,
        label=f"{100 * band.level:.4g} % band{each}",
    )  # fmt: skip
    ax.set(xlim=(thresholds[0], thresholds[-1]), ylim=(-0.01, 1.01))
    ax.set(xlabel="Threshold on the score", ylabel="Inliers at or above it (false-positive rate)")
    ax.legend(loc="upper right", fontsize="small")
    return ax
