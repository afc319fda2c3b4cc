"""Forest plot: estimates with their intervals, one row each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from caveat._internal.checks import as_list
from caveat.errors import InputError
from caveat.plots._axes import COLORS, GRID, INK, MUTED, legend_above, plain, prepare
from caveat.results import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["forest"]


def forest(
    estimates: Mapping[str, Estimate],
    *,
    guaranteed: Mapping[str, Estimate] | None = None,
    letters: Mapping[str, str] | None = None,
    reference: float | None = None,
    lower_is_better: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Estimates with their intervals, the best on top.

    Parameters
    ----------
    estimates
        Name -> Estimate: a dot, and its interval as a thick line.
    guaranteed
        Name -> Estimate whose interval is guaranteed, as a thin line with ends. Names may be missing.
    letters
        Name -> letters at the right edge; methods that share a letter are tied. ``Comparison.lines()`` has them.
    reference
        A value to compare with, as a dashed line: 0.5 for an AUROC.
    lower_is_better
        Whether small estimates are good, as for AURC.
    ax
        Axes to draw on; None: a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> knn = Estimate(0.91, 0.89, 0.93, level=0.95, n=1000, method="DeLong")
    >>> msp = Estimate(0.84, 0.81, 0.87, level=0.95, n=1000, method="DeLong")
    >>> ax = forest({"msp": msp, "knn": knn}, letters={"knn": "a", "msp": "b"}, reference=0.5)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['knn', 'msp']
    """
    as_list(estimates, "estimates")
    for what, names in (("guaranteed", guaranteed or {}), ("letters", letters or {})):
        if unknown := sorted(set(names) - set(estimates)):
            raise InputError(f"{what} must have names of estimates, got {unknown[0]!r}.")
    order = sorted(estimates, key=lambda name: estimates[name].value, reverse=not lower_is_better)
    ax = prepare(ax, "forest", size=(6.2, 1.3 + 0.28 * len(order)))
    thin: str | None = _interval((guaranteed or {}).values(), "guaranteed")
    for y, name in enumerate(order):
        ax.axhline(y, color=GRID, linewidth=0.6, zorder=0)
        one = estimates[name]
        ax.plot([one.lower, one.upper], [y, y], color=COLORS[0], linewidth=4.5, solid_capstyle="butt", zorder=3,
                label=None if y else _interval(estimates.values(), "interval"))  # fmt: skip
        ax.plot([one.value], [y], "o", markersize=5, color="white", markeredgecolor=INK, zorder=4)
        if guaranteed is not None and name in guaranteed:
            wide = guaranteed[name]
            ax.plot(
                [wide.lower, wide.upper], [y, y], "|-", color=INK, linewidth=1.0, markersize=7, zorder=2, label=thin
            )
            thin = None  # one entry in the legend
        if letters is not None:
            ax.text(
                1.015, y, plain(letters.get(name, "")), transform=ax.get_yaxis_transform(), va="center",
                fontsize="small",
            )  # fmt: skip
    if reference is not None:
        ax.axvline(reference, color=MUTED, linestyle="--", linewidth=1.0, zorder=1)
    ax.set_yticks(range(len(order)), [plain(name) for name in order])
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_xlabel(f"Value ({'lower' if lower_is_better else 'higher'} is better)")
    legend_above(ax)
    return ax


def _interval(estimates: Collection[Estimate], kind: str) -> str:
    """What the legend says of intervals: their level and method, where all agree."""
    made = {f"{100 * one.level:.4g} % {one.method}" for one in estimates}
    return f"{kind} ({plain(made.pop())})" if len(made) == 1 else kind
