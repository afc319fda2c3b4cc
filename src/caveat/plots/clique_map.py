"""Clique map: which methods are tied, and in which regimes they lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from caveat.errors import InputError
from caveat.plots._axes import COLORS, GRID, INK, plain, prepare
from caveat.results import Comparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["clique_map"]

SHADE = "#f3ead8"


def clique_map(comparison: Comparison, regimes: Mapping[str, Comparison] | None = None, ax: Axes | None = None) -> Axes:
    """Rows are methods, columns are groups of tied methods, drawn as connected dots.

    Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", figure 1. Methods in
    none of the groups have no row; the title has their number.

    Parameters
    ----------
    comparison
        From ``stats.compare``. Each of its maximal cliques is a column, with its letter as in tables.
    regimes
        Name -> comparison, such as near, mid and far: a column is then the top layer of that regime, ``comparison``
        only orders the rows, and rows that are in at least half of the columns are shaded.
    ax
        Axes to draw on; None: a new figure, as large as rows and columns need.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> from caveat.stats import compare
    >>> ax = clique_map(compare([[1, 2, 3], [2, 1, 3]] * 6, methods=["knn", "msp", "energy"]))
    >>> [text.get_text() for text in ax.get_xticklabels()], [text.get_text() for text in ax.get_yticklabels()]
    (['a', 'b'], ['knn', 'msp', 'energy'])
    """
    groups: dict[str, Sequence[str]]
    if regimes is None:
        groups = dict(zip(comparison.letters(), comparison.cliques, strict=True))
    elif regimes:
        groups = {name: result.layers[0] for name, result in regimes.items()}
    else:
        raise InputError("regimes must have at least one comparison, got an empty mapping.")
    members = {name for group in groups.values() for name in group}
    rows = [name for name in comparison.methods if name in members] + sorted(members - set(comparison.methods))
    tilted = max(len(str(name)) for name in groups) > 6
    width = 0.085 * max(len(name) for name in rows) + 0.55 * max(5, len(groups)) + 0.6
    ax = prepare(ax, "clique_map", size=(width, 0.27 * len(rows) + (1.7 if tilted else 1.2)))
    for y, name in enumerate(rows):
        if regimes is not None and 2 * sum(name in group for group in groups.values()) >= len(groups):
            ax.axhspan(y - 0.5, y + 0.5, color=SHADE, linewidth=0, zorder=0)
        ax.axhline(y, color=GRID, linewidth=0.6, zorder=1)
    for x, group in enumerate(groups.values()):
        ys = sorted(rows.index(name) for name in group)
        ax.plot([x] * len(ys), ys, "o-", color=COLORS[0], markersize=6.5, linewidth=1.8, zorder=3)
    ax.set_yticks(range(len(rows)), [plain(name) for name in rows], fontsize=9)
    ax.set_xticks(range(len(groups)), [plain(name) for name in groups], fontsize=9, rotation=35 if tilted else 0,
                  ha="right" if tilted else "center")  # fmt: skip
    ax.set(xlim=(-0.6, max(len(groups), 2) - 0.4), ylim=(len(rows) - 0.5, -0.5))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    title = ["Tied methods" if regimes is None else "Top layer of each regime"]
    title.append(f"{comparison.test_name()}, alpha {comparison.alpha:g}")
    if hidden := len(set(comparison.methods) - members):
        title.append(f"{hidden} method{'s' if hidden > 1 else ''} in no top layer left out")
    ax.set_title("\n".join(title), fontsize=10, color=INK)
    return ax
