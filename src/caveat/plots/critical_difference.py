"""Critical-difference diagram: average ranks on a line, tied methods joined by bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from caveat.plots._axes import ACCENT, COLORS, INK, MUTED, plain, prepare
from caveat.results import Comparison
from caveat.stats.cliques import stack_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["critical_difference"]

BAR, ROW = 0.45, 0.62  # heights of a bar and of a name, in units of the y-axis


def critical_difference(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Average ranks on a line, best on the left, and a bar over each group of methods that are tied.

    Demsar, JMLR 7, 2006, figure 1, with the bars of a clique analysis instead of one critical difference. Groups of one
    have no bar.

    Parameters
    ----------
    comparison
        From ``stats.compare``.
    ax
        Axes to draw on; None: a new figure, as high as the number of methods needs.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> from caveat.stats import compare
    >>> ax = critical_difference(compare([[1, 2, 3]] * 6, methods=["knn", "msp", "energy"]))
    >>> ax.get_title()
    'Conover-Holm, 6 blocks, alpha 0.05'
    """
    ranks = comparison.average_ranks
    names = sorted(ranks, key=lambda name: ranks[name])
    groups = [clique for clique in comparison.cliques if len(clique) > 1]
    bars = sorted((min(ranks[name] for name in group), max(ranks[name] for name in group)) for group in groups)
    rows = stack_bars(bars)
    depth = (max(rows) + 1) * BAR if rows else 0.0
    left = names[: math.ceil(len(names) / 2)]
    right = names[: len(left) - 1 : -1]  # the worst on top: its line is the outermost
    height = 1.6 + depth + ROW * len(left)
    ax = prepare(ax, "critical_difference", size=(9.5, 0.42 * height + 0.7))
    low, high = math.floor(ranks[names[0]]), math.ceil(ranks[names[-1]])
    low, high = (low, high) if high > low else (low - 1, high + 1)
    span = high - low
    ax.set_axis_off()
    ax.set(xlim=(low - 0.42 * span, high + 0.42 * span), ylim=(1.0 - height, 1.3))

    ax.plot([low, high], [0, 0], color=INK, linewidth=1.2, clip_on=False)
    for tick in range(low, high + 1, max(1, round(span / 12))):
        ax.plot([tick, tick], [0, 0.22], color=INK, linewidth=1.2)
        ax.text(tick, 0.36, str(tick), ha="center", va="bottom", fontsize=9, color=INK)
    ax.text(low - 0.03 * span, 0, "best", ha="right", va="center", fontsize=9, color=MUTED)
    ax.text(high + 0.03 * span, 0, "worst", ha="left", va="center", fontsize=9, color=MUTED)

    for (start, stop), row in zip(bars, rows, strict=True):
        ends, y = [start - 0.006 * span, stop + 0.006 * span], -0.3 - BAR * row  # a little wider, so that ends are seen
        ax.plot(ends, [y, y], color=ACCENT, linewidth=3.2, solid_capstyle="round", zorder=3)
    for side, edge, align in ((left, low - 0.06 * span, "right"), (right, high + 0.06 * span, "left")):
        for place, name in enumerate(side):
            rank, y = ranks[name], -(depth + BAR + ROW * place)
            ax.plot([rank, rank, edge], [0, y, y], color=MUTED, linewidth=0.8, zorder=1)
            ax.plot([rank], [0], "o", color=COLORS[0], markersize=4, zorder=4)
            pad = (-0.012 if align == "right" else 0.012) * span
            parts = (plain(name), f"{rank:.2f}") if align == "right" else (f"{rank:.2f}", plain(name))
            ax.text(edge + pad, y, "  ".join(parts), ha=align, va="center", fontsize=9.5, color=INK)
    blocks = "1 block" if comparison.n_blocks == 1 else f"{comparison.n_blocks} blocks"
    ax.set_title(f"{comparison.test_name()}, {blocks}, alpha {comparison.alpha:g}", fontsize=10, color=INK)
    return ax
