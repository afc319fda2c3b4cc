"""Histograms of a score: inliers, outliers and the threshold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from caveat._internal.checks import as_list, as_number, as_vector
from caveat.plots._axes import COLORS, DASHES, INK, MUTED, legend_above, plain, prepare

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["histogram"]


def histogram(
    *,
    inlier: ArrayLike,
    outliers: Mapping[str, ArrayLike] | ArrayLike,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Histograms of a score in common bins: inliers filled, outliers outlined, the threshold as a line.

    Where outliers lie so far out that the inliers would fill one bar, the bins and the axis widen away from the inliers
    (equal in asinh). The first and the last bin hold what lies beyond them.

    Parameters
    ----------
    inlier
        Scores of in-distribution samples, shape (n,). The larger, the stranger.
    outliers
        Scores of outliers: shape (m,), or name -> scores for several sets.
    threshold
        Samples at or above it are rejected; the legend then has the share of each sample at or above it.
    ax
        Axes to draw on; None: a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> ax = histogram(inlier=[0, 1, 2, 3], outliers={"noise": [2.5, 4]}, threshold=3)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['inliers: 25.0 % rejected', 'noise: 50.0 % caught', 'threshold 3']
    """
    from caveat.evaluation.curves import histogram as common_bins

    sets = outliers if isinstance(outliers, Mapping) else {"outliers": outliers}
    samples = [as_vector(inlier, "inlier")]
    names = as_list(sets, "outliers")
    samples += [as_vector(sets[name], f"outliers {name}" if len(sets) > 1 else "outliers") for name in names]
    ax = prepare(ax, "histogram", size=(6.4, 3.8 + 0.12 * len(samples)))
    bins = common_bins({str(i): values for i, values in enumerate(samples)})
    if bins.unit:
        ax.set_xscale("function", functions=(bins.place, bins.value))
        ticks = [float(f"{edge:.2g}") for edge in bins.edges[np.linspace(1, bins.edges.size - 2, 8).astype(int)]]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    labels = ["inliers", *(plain(name) for name in sets)]
    if threshold is not None:
        at = as_number(threshold, "threshold")
        shares = [100 * float(np.mean(values >= at)) for values in samples]
        labels = [f"{name}: {share:.1f} % {'caught' if i else 'rejected'}"
                  for i, (name, share) in enumerate(zip(labels, shares, strict=True))]  # fmt: skip
    ax.stairs(bins.shares["0"], bins.edges, fill=True, color=MUTED, alpha=0.45, linewidth=0, label=labels[0])
    for i, label in enumerate(labels[1:]):
        ax.stairs(
            bins.shares[str(i + 1)], bins.edges, color=COLORS[i % len(COLORS)], linestyle=DASHES[i % len(DASHES)],
            linewidth=1.5, label=label,
        )  # fmt: skip
    ends = [float(bins.edges[0]), float(bins.edges[-1])]
    if threshold is not None:
        ax.axvline(at, color=INK, linewidth=1.4, label=f"threshold {at:.4g}")
        ends = [min(ends[0], at), max(ends[1], at)]
    ax.set(xlim=ends, xlabel="Score (the larger, the stranger)", ylabel="Share of the sample per bin")
    ax.set_ylim(bottom=0)
    legend_above(ax)
    return ax
