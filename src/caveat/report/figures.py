"""The pictures of a report, one function each. They draw what was measured and measure nothing themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from caveat.metrics import roc_curve
from caveat.metrics.selective import RiskCurve
from caveat.report.svg import INK, LINE_WIDTH, LINES, MUTED, Panel, panel, token
from caveat.report.words import count, interval, level, number, percent, scaled, shorten
from caveat.results import Estimate
from caveat.study import SetFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "MOST_LINES",
    "corners",
    "coverage_panel",
    "evenly",
    "histogram_panel",
    "risk_panel",
    "roc_panel",
    "set_size_panel",
    "size_groups",
]

MOST_LINES = len(LINES)
MOST_POINTS = 250  # of a curve: about one per pixel
BINS = 40
TAIL = 0.005  # share of each sample that may lie beyond the ends of a histogram and is drawn in its end bins

Floats = NDArray[np.float64]


def evenly(parameter: Floats, points: int = MOST_POINTS) -> NDArray[np.intp]:
    """Rows of a curve to draw: at most ``points``, evenly spread in a non-decreasing parameter, both ends kept.

    >>> evenly(np.array([0.0, 0.1, 0.2, 0.9, 1.0]), points=3).tolist()
    [0, 3, 4]
    """
    if parameter.size <= points:
        return np.arange(parameter.size)
    wanted = np.linspace(parameter[0], parameter[-1], points)
    rows = np.searchsorted(parameter, wanted, side="left").clip(max=parameter.size - 1)
    rows[0], rows[-1] = 0, parameter.size - 1
    return np.unique(rows)


def corners(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Rows where a monotone staircase turns: all that is needed to draw it exactly.

    >>> corners(np.array([0.0, 0, 0, 0.5, 1]), np.array([0.0, 0.5, 1, 1, 1])).tolist()
    [0, 2, 4]
    """
    flat = (np.diff(x)[:-1] == 0) & (np.diff(x)[1:] == 0) | (np.diff(y)[:-1] == 0) & (np.diff(y)[1:] == 0)
    return np.flatnonzero(np.concatenate([[True], ~flat, [True]]))


def roc_panel(
    samples: Mapping[str, tuple[Floats, Floats]], areas: Mapping[str, Estimate], *, key: str, outlier: str, tpr: float
) -> Panel:
    """ROC curves against one outlier set, with the two lines on which the two false-positive rates are read.

    Parameters
    ----------
    samples
        Score -> strangeness of inliers and of outliers; at most ``MOST_LINES``.
    areas
        Score -> AUROC.
    """

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8)
        axes.axhline(tpr, color=INK, linewidth=0.7, alpha=0.55)
        axes.axvline(1 - tpr, color=INK, linewidth=0.7, alpha=0.55)
        for i, (inside, outside) in reversed(list(enumerate(samples.values()))):
            fpr, caught = roc_curve(inlier=inside, outlier=outside)
            rows = corners(fpr, caught)
            rows = rows[evenly((fpr + caught)[rows])]
            _line(axes, i, fpr[rows], caught[rows])
        axes.set(xlim=(-0.015, 1.015), ylim=(-0.015, 1.015), xlabel="Inliers rejected", ylabel="Outliers caught")
        _shares(axes)

    said = "; ".join(f"{name} {number(areas[name].value)} {interval(areas[name])}" for name in samples)
    return panel(
        draw,
        key=key,
        title=outlier,
        description=f"ROC curves against {outlier}: outliers caught over inliers rejected. AUROC: {said}.",
        hovers={f"line-{i}": f"{name}: AUROC {number(areas[name].value)}" for i, name in enumerate(samples)},
    )


def histogram_panel(
    inlier: Floats, outliers: Mapping[str, Floats], areas: Mapping[str, Estimate], *, key: str, score: str
) -> Panel:
    """Strangeness of inliers (grey) behind that of each outlier set (outlined), one row per set, one common axis."""
    from matplotlib.patches import StepPatch
    from matplotlib.ticker import MaxNLocator

    samples = [inlier, *outliers.values()]
    ends = np.array([np.quantile(values, [TAIL, 1 - TAIL]) for values in samples])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if not high > low:  # a constant score
        low, high = low - max(1.0, abs(low)) / 2, low + max(1.0, abs(low)) / 2
    # Bins and axis live on 0..1: a range such as 1e17 .. 1e17 + 16 has no 40 distinct edges of its own.
    edges = np.linspace(0, 1, BINS + 1)
    ghost, shapes = _shares_per_bin(inlier, low, high), [_shares_per_bin(v, low, high) for v in outliers.values()]
    rows = len(shapes)

    def draw(axes: Axes) -> None:
        for i, shape in enumerate(shapes):
            base, scale = float(rows - 1 - i), 0.66 / max(ghost.max(), shape.max())
            # add_artist, unlike axes.stairs, does not look for the limits of the axes, which takes longer than all else
            behind = StepPatch(
                base + scale * ghost, edges, baseline=base, fill=True, color=MUTED, alpha=0.45, linewidth=0
            )
            front = StepPatch(
                base + scale * shape, edges, baseline=base, fill=False, color=LINES[1].color, linewidth=1.4
            )
            front.set_gid(f"row-{i}")
            axes.add_artist(behind)
            axes.add_artist(front)
            axes.text(0, base + 0.74, token(i), fontsize=11, color=INK)
        axes.hlines(range(rows), 0, 1, color=MUTED, linewidth=0.8)
        ticks = [t for t in MaxNLocator(5).tick_values(low, high) if low <= t <= high]
        axes.set_xticks([(t - low) / (high - low) for t in ticks], [f"{t:.4g}".replace("-", "−") for t in ticks])
        axes.set(xlim=(0, 1), ylim=(0, rows), yticks=[], xlabel="Strangeness (larger is stranger)")
        axes.spines["left"].set_visible(False)
        axes.grid(visible=False, axis="y")

    labels = [f"{name}: AUROC {number(areas[name].value)} {interval(areas[name])}" for name in outliers]
    return panel(
        draw,
        key=key,
        title=score,
        description=f"Histograms of {score}, inliers behind each outlier set. {'; '.join(labels)}.",
        size=(400, 58 * rows + 52),
        margins=(6, 14, 44, 14),
        texts=tuple(f"{shorten(name, 34)}: AUROC {number(areas[name].value)}" for name in outliers),
        hovers={f"row-{i}": label for i, label in enumerate(labels)},
    )


def risk_panel(curves: Mapping[str, RiskCurve], areas: Mapping[str, Estimate], *, key: str, selective: bool) -> Panel:
    """Risk against coverage on inliers: selective (errors among the accepted) or generalised (error and accepted)."""
    what = "Errors among the answered" if selective else "Answered and wrong"
    found = {name: curve.selective if selective else curve.generalized for name, curve in curves.items()}
    settled = [risk[curves[name].coverage >= 0.05] for name, risk in found.items()]
    top = 1.1 * max(float(risk.max()) for risk in settled) or 1.0
    final = float(settled[0][-1])

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [final if selective else 0, final], color=MUTED, linewidth=0.8)
        for i, (name, risk) in reversed(list(enumerate(found.items()))):
            covered = curves[name].coverage
            rows = evenly(covered)
            _line(axes, i, covered[rows], risk[rows])
        axes.set(
            xlim=(-0.015, 1.015), ylim=(-0.015 * top, min(1.015, top)), xlabel="Share of inliers answered", ylabel=what
        )
        _shares(axes, which="x")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")

    said = "; ".join(f"{name} {scaled(areas[name].value)}" for name in curves)
    return panel(
        draw,
        key=key,
        title="Selective risk" if selective else "Generalised risk",
        description=f"{what} over the share of inliers answered, least strange first. AUGRC x 1000: {said}.",
        hovers={f"line-{i}": name for i, name in enumerate(found)},
    )


def size_groups(n_classes: int) -> list[tuple[int, int]]:
    """Set sizes 0..C in few enough groups to read: every size up to 12 classes, then ever wider ones.

    >>> size_groups(3), size_groups(100)
    ([(0, 0), (1, 1), (2, 2), (3, 3)], [(0, 0), (1, 1), (2, 2), (3, 5), (6, 10), (11, 20), (21, 50), (51, 100)])
    """
    if n_classes <= 12:
        return [(size, size) for size in range(n_classes + 1)]
    groups, start, decade = [(0, 0), (1, 1), (2, 2)], 3, 1
    while start <= n_classes:
        for stop in (5 * decade, 10 * decade, 20 * decade):
            if start <= n_classes:
                groups.append((start, min(stop, n_classes)))
            start = stop + 1
        decade *= 10
    return groups


def set_size_panel(sizes: NDArray[np.intp], *, key: str, name: str) -> Panel:
    """How large the prediction sets of one data set are."""
    groups = size_groups(sizes.size - 1)
    shares = np.array([sizes[first : last + 1].sum() for first, last in groups]) / max(1, sizes.sum())
    labels = [str(first) if first == last else f"{first}–{last}" for first, last in groups]

    def draw(axes: Axes) -> None:
        bars = axes.bar(range(len(groups)), shares, width=0.72, color=LINES[0].color)
        for i, bar in enumerate(bars):
            bar.set_gid(f"bar-{i}")
        crowded = len(groups) > 9
        axes.set_xticks(range(len(groups)), labels, rotation=45 if crowded else 0, fontsize=10 if crowded else 11)
        axes.set(ylim=(0, 1.015), xlabel="Classes in the set", ylabel="Share of samples")
        _shares(axes, which="y")
        axes.grid(visible=False, axis="x")

    mean = float(sizes @ np.arange(sizes.size)) / max(1, int(sizes.sum()))
    said = [f"{label}: {percent(share)}" for label, share in zip(labels, shares, strict=True)]
    samples = count(int(sizes.sum()), "sample")
    return panel(
        draw,
        key=key,
        title=f"{name}: mean size {mean:.2f}",
        description=f"Sizes of the prediction sets of {samples} in {name}. {'; '.join(said)}.",
        size=(340, 230),
        margins=(8, 18, 58 if len(groups) > 9 else 42, 56),
        hovers={f"bar-{i}": label for i, label in enumerate(said)},
    )


def coverage_panel(sets: SetFacts, *, key: str) -> Panel:
    """Observed coverage with its interval beside the promise."""
    seen = sets.coverage

    def draw(axes: Axes) -> None:
        axes.axvline(1 - sets.alpha, color=INK, linewidth=1.2)
        axes.plot([seen.lower, seen.upper], [0, 0], color=LINES[0].color, linewidth=2.4, solid_capstyle="butt")
        axes.plot([seen.value], [0], "o", color=LINES[0].color, markersize=8)
        low, high = min(seen.lower, 1 - sets.alpha), max(seen.upper, 1 - sets.alpha)
        room = max(0.02, 0.3 * (high - low))
        axes.set(xlim=(max(0, low - room), min(1.005, high + room)), ylim=(-1, 1), yticks=[], xlabel="Coverage")
        axes.locator_params(axis="x", nbins=4)
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
        axes.spines["left"].set_visible(False)

    said = f"observed {percent(seen.value)} {interval(seen, 'percent')}, promised {level(1 - sets.alpha)}"
    return panel(
        draw,
        key=key,
        title="Coverage of the prediction sets",
        description=f"Coverage on {count(seen.n, 'inlier')}: {said}.",
        size=(340, 104),
        margins=(6, 16, 44, 16),
    )


def _line(axes: Axes, i: int, x: Floats, y: Floats) -> None:
    line = LINES[i]
    style = (0, line.dashes) if line.dashes else "solid"
    (drawn,) = axes.plot(x, y, color=line.color, linestyle=style, linewidth=LINE_WIDTH)
    drawn.set_gid(f"line-{i}")


def _shares(axes: Axes, which: str = "both") -> None:
    ticks = np.linspace(0, 1, 6)
    if which in ("x", "both"):
        axes.set_xticks(ticks, [f"{100 * t:.0f} %" for t in ticks])
    if which in ("y", "both"):
        axes.set_yticks(ticks, [f"{100 * t:.0f} %" for t in ticks])


def _shares_per_bin(values: Floats, low: float, high: float) -> Floats:
    place = ((values - low) / (high - low) * BINS).clip(0, BINS - 1)
    return np.bincount(place.astype(np.intp), minlength=BINS) / values.size
