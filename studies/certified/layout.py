"""Tables in the layout of the paper's Tables 1, 4, 8 and 9, and pictures like its Tables 5 and 7 and Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import networks  # in this folder
import numpy as np
from numpy.typing import NDArray

from caveat_lab.experiments.certification import Certification

Rows = Sequence[Mapping[str, Any]]
Found = Mapping[str, Mapping[str, Certification]]  # method -> set -> confidences
ZOOM, FIFTH = 10, 0.2


def markdown(rows: Rows) -> str:
    """All tables of all tasks."""
    lines: list[str] = []
    for name, task in networks.TASKS.items():
        mine = [row for row in rows if row["task"] == name]
        here, there = ([row for row in mine if row["epsilon"] == epsilon] for epsilon in (task.radius, task.wider))
        lines += areas(f"Table 1, {name}: radius {task.radius:g}", here, task.first)
        lines += areas(f"Table 8, {name}: further sets, radius {task.radius:g}", here, task.further)
        lines += areas(f"Table 9, {name}: radius {task.wider:g}", there, task.first)
        title = f"Table 4, {name}: mean confidence, and mean upper bound at radius {task.radius:g}"
        lines += means(title, name, here, (*task.first, *task.further))
        lines += intervals(f"AAUC with its interval, {name}: radius {task.radius:g}", here, task.first)
    return "\n".join(lines)


def areas(title: str, rows: Rows, names: Sequence[str]) -> list[str]:
    """AUC, AAUC and GAUC in percent, methods by sets."""
    head = "".join(f" {name} AUC | AAUC | GAUC |" for name in names)
    lines = [f"## {title}", "", f"| method | accuracy |{head}", f"|---|---:|{'---:|' * 3 * len(names)}"]
    for method, mine in _by_method(rows).items():
        cells = [f"{100 * next(iter(mine.values()))['accuracy']:.1f}"]
        cells += [f"{100 * mine[name][area]:.1f}" for name in names for area in ("auc", "aauc", "gauc")]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def means(title: str, task: str, rows: Rows, names: Sequence[str]) -> list[str]:
    """Mean confidence on inliers; mean confidence / mean upper bound on each set; percent."""
    lines = [f"## {title}", "", f"| method | {task} | " + " | ".join(names) + " |", f"|---|---:|{'---:|' * len(names)}"]
    for method, mine in _by_method(rows).items():
        cells = [f"{100 * next(iter(mine.values()))['mean_inlier_confidence']:.1f}"]
        for name in names:
            pair = (mine[name]["mean_confidence"], mine[name]["mean_upper_bound"])
            cells.append(" / ".join(f"{100 * value:.1f}" for value in pair))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def intervals(title: str, rows: Rows, names: Sequence[str]) -> list[str]:
    """AAUC with DeLong's 95 % interval, in percent; the area alone where its confidences are not kept."""
    lines = [f"## {title}", "", "| method | " + " | ".join(names) + " |", f"|---|{'---:|' * len(names)}"]
    for method, mine in _by_method(rows).items():
        cells = []
        for row in (mine[name] for name in names):
            lower, upper = 100 * row["aauc_lower"], 100 * row["aauc_upper"]
            cells.append(f"{100 * row['aauc']:.1f}" + ("" if np.isnan(lower) else f" [{lower:.1f}, {upper:.1f}]"))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _by_method(rows: Rows) -> dict[str, dict[str, Mapping[str, Any]]]:
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["method"], {})[row["set"]] = row
    return found


def zoomed(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Heights of a histogram whose scale is ten times larger below one fifth of all samples, as in the paper.

    >>> zoomed(np.array([0.05, 0.2, 1.0]))
    array([0.5, 2. , 2.8])
    """
    return np.minimum(shares, FIFTH) * ZOOM + np.maximum(shares - FIFTH, 0)


def histograms(task: str, found: Found) -> Any:
    """Confidence on inliers, and its certified upper bounds on each set, 50 bins from 0.1 to 1; dotted: the mean.

    The scale is that of ``zoomed``; a thin line marks one fifth, where it changes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    first = networks.TASKS[task].first
    names = (task, *first)
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(2.1 * len(names), 0.85 * len(found) + 0.6), layout="constrained")
        grid = np.atleast_2d(figure.subplots(len(found), len(names), sharex=True, sharey=True))
        for axes_row, (method, sets) in zip(grid, found.items(), strict=True):
            for axes, name in zip(axes_row, names, strict=True):
                one = sets[first[0] if name == task else name]
                values = one.inlier if name == task else one.sets[0].upper
                edges, shares = one.histogram(values)
                axes.stairs(zoomed(shares), edges, fill=True, color="#0072b2" if name == task else "#c84b00")
                axes.axhline(ZOOM * FIFTH, color="#999999", linewidth=0.4)
                axes.axvline(np.exp(values).mean(), color="black", linestyle=":", linewidth=0.8)
                axes.set(yticks=[], xlim=(0.08, 1.02), ylim=(0, 2.8), xticks=[0.1, 0.5, 1.0])
                axes.spines[["top", "right", "left"]].set_visible(False)
            axes_row[0].set_ylabel(method, rotation=0, ha="right", va="center")
        for axes, name in zip(grid[0], names, strict=True):
            axes.set_title(name + ("\nconfidence" if name == task else "\nupper bound"), fontsize=8)
    return figure


def save(figure: Any, path: Path) -> None:
    """Text stays text, and the same figure gives the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "certified", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def letters(found: Found) -> Any:
    """Mean confidence on each letter, one line per method."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(7.5, 3), layout="constrained")
        axes = figure.subplots()
        for mark, (method, sets) in zip("osv^D*XP<", found.items(), strict=False):
            by = sets["EMNIST letters"].sets[0].by_class()
            heights = [mean for mean, _ in by.values()]
            axes.plot(list(by), heights, marker=mark, markersize=3, linewidth=0.8, label=method)
        axes.set(ylim=(0, 1.02), ylabel="mean confidence")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False)
    return figure
