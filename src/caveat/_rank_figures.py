"""Figures of comparisons: a critical-difference diagram and a clique map. Drawn on plain data, without pyplot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["clique_map", "critical_difference_diagram", "stack_bars"]

_INK, _QUIET, _BAR, _SHADE = "#1a1a1a", "#8a8a8a", "#b3541e", "#f3ead8"
_DOT = "#1f5a8a"


def critical_difference_diagram(
    average_ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], *, title: str = ""
) -> Figure:
    """Average ranks on a line, best on the left, and a bar over each group of methods that cannot be told apart.

    Demsar, JMLR 7, 2006, figure 1, with the bars of a clique analysis instead of one critical difference. Groups of one
    have no bar.
    """
    from matplotlib.figure import Figure

    names = sorted(average_ranks, key=lambda name: average_ranks[name])
    k = len(names)
    bars = sorted((min(average_ranks[n] for n in c), max(average_ranks[n] for n in c)) for c in cliques if len(c) > 1)
    rows = stack_bars(bars)
    depth = (max(rows) + 1) * 0.45 if rows else 0.0
    left = names[: math.ceil(k / 2)]
    right = names[: len(left) - 1 : -1]  # the worst on top: its line is the outermost
    height = 1.6 + depth + 0.62 * len(left)
    figure = Figure(figsize=(9.5, 0.42 * height + 0.7), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    low, high = math.floor(average_ranks[names[0]]), math.ceil(average_ranks[names[-1]])
    low, high = (low, high) if high > low else (low - 1, high + 1)
    span = high - low
    axes.set_xlim(low - 0.42 * span, high + 0.42 * span)
    axes.set_ylim(-(height - 1.0), 1.3)

    axes.plot([low, high], [0, 0], color=_INK, lw=1.2, clip_on=False)
    step = max(1, round(span / 12))
    for tick in range(low, high + 1, step):
        axes.plot([tick, tick], [0, 0.22], color=_INK, lw=1.2)
        axes.text(tick, 0.36, str(tick), ha="center", va="bottom", fontsize=9, color=_INK)
    axes.text(low - 0.03 * span, 0.0, "best", ha="right", va="center", fontsize=9, color=_QUIET)
    axes.text(high + 0.03 * span, 0.0, "worst", ha="left", va="center", fontsize=9, color=_QUIET)

    for (start, stop), row in zip(bars, rows, strict=True):
        y = -0.3 - 0.45 * row
        axes.plot(
            [start - 0.006 * span, stop + 0.006 * span], [y, y], color=_BAR, lw=3.2, solid_capstyle="round", zorder=3
        )
    for side, edge, align in ((left, low - 0.06 * span, "right"), (right, high + 0.06 * span, "left")):
        for place, name in enumerate(side):
            rank, y = average_ranks[name], -(depth + 0.45 + 0.62 * place)
            axes.plot([rank, rank, edge], [0, y, y], color=_QUIET, lw=0.8, zorder=1)
            axes.plot([rank], [0], "o", color=_DOT, ms=4, zorder=4)
            pad = -0.012 * span if align == "right" else 0.012 * span
            label = f"{name}  {rank:.2f}" if align == "right" else f"{rank:.2f}  {name}"
            axes.text(edge + pad, y, label, ha=align, va="center", fontsize=9.5, color=_INK)
    if title:
        axes.set_title(title, fontsize=10, color=_INK)
    return figure


def clique_map(
    methods: Sequence[str], columns: Mapping[str, Sequence[str]], *, title: str = "", shade: bool = True
) -> Figure:
    """Rows are methods, columns are groups of tied methods: connected dots. Rows in half the columns are shaded.

    Methods in no group have no row; the title says how many they are.

    Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection ...", figure 1.
    """
    from matplotlib.figure import Figure

    members = {name for group in columns.values() for name in group}
    rows = [name for name in methods if name in members] + sorted(members - set(methods))
    hidden = len(set(methods) - members)
    if hidden:
        title = f"{title}\n{hidden} methods in none of these groups are not shown".lstrip()
    place = {name: i for i, name in enumerate(rows)}
    longest = max(len(name) for name in rows)
    tilted = max(len(str(name)) for name in columns) > 6
    figure = Figure(
        figsize=(0.085 * longest + 0.55 * max(4, len(columns)) + 0.6, 0.27 * len(rows) + (1.5 if tilted else 1.0)),
        layout="constrained",
    )
    axes = figure.subplots()
    for name, i in place.items():
        times = sum(name in group for group in columns.values())
        if shade and 2 * times >= len(columns):
            axes.axhspan(i - 0.5, i + 0.5, color=_SHADE, lw=0, zorder=0)
        axes.axhline(i, color="#e4e4e4", lw=0.6, zorder=1)
    for x, group in enumerate(columns.values()):
        ys = sorted(place[name] for name in group)
        axes.plot([x, x], [ys[0], ys[-1]], color=_DOT, lw=1.8, zorder=2)
        axes.plot([x] * len(ys), ys, "o", color=_DOT, ms=6.5, zorder=3)
    axes.set_yticks(range(len(rows)), rows, fontsize=9)
    axes.set_xticks(range(len(columns)), list(columns), fontsize=9, rotation=35 if tilted else 0,
                    ha="right" if tilted else "center")  # fmt: skip
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-0.6, len(columns) - 0.4)
    axes.tick_params(length=0)
    for side in ("top", "right", "bottom", "left"):
        axes.spines[side].set_visible(False)
    if title:
        figure.suptitle(title, fontsize=10, color=_INK)
    return figure


def stack_bars(bars: Sequence[tuple[float, float]]) -> list[int]:
    """A row for each bar, sorted by start, so that bars in one row do not touch."""
    ends: list[float] = []
    rows = []
    for start, stop in bars:
        row = next((i for i, end in enumerate(ends) if end < start), len(ends))
        if row == len(ends):
            ends.append(stop)
        else:
            ends[row] = stop
        rows.append(row)
    return rows
