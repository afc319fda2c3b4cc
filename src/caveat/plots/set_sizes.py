"""How many labels prediction sets hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from caveat.errors import InputError
from caveat.plots._axes import COLORS, HATCHES, legend_above, plain, prepare
from caveat.results import PredictionSets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["set_sizes"]

ALONE = 12  # sizes up to this many have a bar of their own if there are no larger sets


def set_sizes(
    sets: PredictionSets | Mapping[str, PredictionSets], *, label: str | None = None, ax: Axes | None = None
) -> Axes:
    """Share of samples by the size of their prediction set. Size 0 is an empty set, size 1 a definite answer.

    Parameters
    ----------
    sets
        Prediction sets, or name -> prediction sets to compare several methods.
    label
        Name in the legend, if ``sets`` has none.
    ax
        Axes to draw on; None: a new figure.

    Returns
    -------
    Axes
        The axes that were drawn on.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False, True], [False, True, False]]), alpha=0.1, level=0.9)
    >>> ax = set_sizes(sets, label="lac")
    >>> ax.get_legend().get_texts()[0].get_text()
    'lac: mean size 1.50, coverage promised 90.0 %'
    """
    named = {plain(name): one for name, one in sets.items()} if isinstance(sets, Mapping) else {
        "" if label is None else plain(label): sets
    }  # fmt: skip
    if not named or not all(isinstance(one, PredictionSets) and one.n for one in named.values()):
        raise InputError("set_sizes needs non-empty PredictionSets, or a mapping name -> PredictionSets.")
    ax = prepare(ax, "set_sizes", size=(5.6, 3.6))
    counts = {name: np.bincount(one.sizes) for name, one in named.items()}
    groups = size_groups(max(count.size for count in counts.values()) - 1)
    width = 0.8 / len(named)
    for i, (name, one) in enumerate(named.items()):
        shares = [counts[name][first : last + 1].sum() / one.n for first, last in groups]
        place = np.arange(len(groups)) + (i - (len(named) - 1) / 2) * width
        text = f"mean size {one.sizes.mean():.2f}, coverage promised {100 * one.level:.1f} %"
        ax.bar(
            place, shares, width=0.94 * width, color=COLORS[i % len(COLORS)], hatch=HATCHES[i % len(HATCHES)],
            edgecolor="white", linewidth=0, label=f"{name}: {text}" if name else text,
        )  # fmt: skip
    crowded = len(groups) > 9 and groups[-1][0] > ALONE
    ax.set_xticks(range(len(groups)), [str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in groups],
                  rotation=45 if crowded else 0)  # fmt: skip
    ax.set(xlabel="Labels in the prediction set", ylabel="Share of samples")
    legend_above(ax)
    return ax


def size_groups(largest: int) -> list[tuple[int, int]]:
    """Set sizes from 0 to the largest, each alone or, where they are many, in groups that get wider.

    >>> size_groups(2), size_groups(30)
    ([(0, 0), (1, 1), (2, 2)], [(0, 0), (1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (17, 30)])
    """
    if largest <= ALONE:
        return [(size, size) for size in range(largest + 1)]
    groups = [(0, 0), (1, 1)]
    while groups[-1][1] < largest:
        last = groups[-1][1]
        groups.append((last + 1, min(2 * last, largest)))
    return groups
