"""Reliability diagram: is a confidence of 80 % right in 80 % of the cases?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from caveat.errors import InputError
from caveat.metrics import proportion_interval
from caveat.metrics import reliability as bin_by_confidence
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.plots._axes import COLORS, INK, MUTED, legend_above, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["reliability"]

MOST_COUNTS = 25  # bins whose numbers fit above the axes


def reliability(
    outputs_or_probs: Outputs | ArrayLike, labels: ArrayLike | None = None, bins: int = 15, ax: Axes | None = None
) -> Axes:
    """Accuracy over confidence of the predicted class, in bins of equal width, each with its 95 % interval.

    Above the axes is the number of samples of each bin (up to 25 bins). The intervals are exact (Clopper-Pearson); bins
    without samples are left out. The legend has the expected calibration error of ``metrics.ece``.

    Parameters
    ----------
    outputs_or_probs
        ``Outputs`` with labels, also of predictions with a confidence alone; or probabilities of shape (n, C).
    labels
        True classes, shape (n,), if probabilities are given.
    bins
        How many bins.
    ax
        Axes to draw on; None: a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = reliability([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], labels=[0, 1, 1], bins=2)
    >>> ax.get_legend().get_texts()[0].get_text()
    'ECE 0.100 (2 bins, n = 3)'
    """
    if isinstance(outputs_or_probs, Outputs):
        if labels is not None:
            raise InputError("labels must be left out where Outputs are given: they hold their own.")
        probs, labels = outputs_or_probs.probs, outputs_or_probs.labels
    else:
        probs = np.asarray(outputs_or_probs)
    if labels is None:
        raise InputError("reliability needs labels. Give Outputs with labels, or probabilities and labels=.")
    if isinstance(outputs_or_probs, Outputs) and probs is None:
        answers = demand(outputs_or_probs, "predictions", "confidence", who="reliability")
        points = bin_by_confidence(confidence=answers.confidence, correct=answers.correct, bins=bins)
    else:
        points = bin_by_confidence(probs=probs, labels=labels, bins=bins)
    ax = prepare(ax, "reliability", size=(4.8, 4.8))
    n = int(points.count.sum())
    ece = float(points.count @ np.abs(points.accuracy - points.confidence) / n)
    hits = np.rint(points.accuracy * points.count).astype(int)
    shares = [proportion_interval(int(hit), int(count)) for hit, count in zip(hits, points.count, strict=True)]
    whiskers = [[s.value - s.lower for s in shares], [s.upper - s.value for s in shares]]
    ax.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, zorder=1)
    ax.errorbar(
        points.confidence, points.accuracy, yerr=np.maximum(whiskers, 0.0), fmt="o-", markersize=4, color=COLORS[0],
        ecolor=INK, linewidth=1.2, elinewidth=1.0, capsize=2.5, label=f"ECE {ece:.3f} ({bins} bins, n = {n})",
    )  # fmt: skip
    above: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "va": "bottom", "color": MUTED}
    middle = (np.clip(np.ceil(points.confidence * bins), 1, bins) - 0.5) / bins
    if bins <= MOST_COUNTS:
        for x, count in zip(middle, points.count, strict=True):
            ax.text(x, 1.01, str(count), rotation=90, ha="center", fontsize=min(8, 150 / bins), **above)
        ax.text(-0.01, 1.02, "n =", ha="right", fontsize=8, **above)
    ax.set(xlim=(0, 1), ylim=(-0.01, 1.01), aspect="equal")
    ax.set(xlabel="Confidence of the predicted class", ylabel="Accuracy, with 95 % interval")
    legend_above(ax, points=6 + 5 * len(str(points.count.max())) if bins <= MOST_COUNTS else 0)
    return ax
