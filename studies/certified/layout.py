"""Tables in the layout of the paper's Tables 1, 4, 8 and 9, and pictures like its Table 5 and Figure 4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import strangers  # in this folder

from caveat.study.certification import Certification

Rows = Sequence[Mapping[str, Any]]


def markdown(rows: Rows, *, radius: float, wider: float) -> str:
    """All tables."""
    here, there = ([row for row in rows if row["epsilon"] == epsilon] for epsilon in (radius, wider))
    lines = areas(f"Table 1: radius {radius:g}", here, strangers.FIRST)
    lines += areas(f"Table 8: further sets, radius {radius:g}", here, strangers.FURTHER)
    lines += areas(f"Table 9: radius {wider:g}", there, strangers.FIRST)
    lines += means(f"Table 4: mean confidence, and mean upper bound at radius {radius:g}", here)
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


def means(title: str, rows: Rows) -> list[str]:
    """Mean confidence on inliers; mean confidence / mean upper bound on each set; percent."""
    names = (*strangers.FIRST, *strangers.FURTHER)
    lines = [f"## {title}", "", "| method | MNIST | " + " | ".join(names) + " |", f"|---|---:|{'---:|' * len(names)}"]
    for method, mine in _by_method(rows).items():
        cells = [f"{100 * next(iter(mine.values()))['mean_inlier_confidence']:.1f}"]
        for name in names:
            pair = (mine[name]["mean_confidence"], mine[name]["mean_upper_bound"])
            cells.append(" / ".join(f"{100 * value:.1f}" for value in pair))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _by_method(rows: Rows) -> dict[str, dict[str, Mapping[str, Any]]]:
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["method"], {})[row["set"]] = row
    return found


def histograms(found: Mapping[str, Mapping[str, Certification]]) -> Any:
    """Confidence on digits, and its certified upper bounds on each set, 50 bins from 0.1 to 1; dotted: the mean."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = ("MNIST", *strangers.FIRST)
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(2.1 * len(names), 0.85 * len(found) + 0.6), layout="constrained")
        grid = np.atleast_2d(figure.subplots(len(found), len(names), sharex=True))
        for axes_row, (method, sets) in zip(grid, found.items(), strict=True):
            for axes, name in zip(axes_row, names, strict=True):
                one = sets[strangers.FIRST[0] if name == "MNIST" else name]
                values = one.inlier if name == "MNIST" else one.sets[0].upper
                edges, shares = one.histogram(values)
                axes.stairs(shares, edges, fill=True, color="#0072b2" if name == "MNIST" else "#c84b00")
                axes.axvline(np.exp(values).mean(), color="black", linestyle=":", linewidth=0.8)
                axes.set(yticks=[], xlim=(0.08, 1.02), xticks=[0.1, 0.5, 1.0])
                axes.spines[["top", "right", "left"]].set_visible(False)
            axes_row[0].set_ylabel(method, rotation=0, ha="right", va="center")
        for axes, name in zip(grid[0], names, strict=True):
            axes.set_title(name + ("\nconfidence" if name == "MNIST" else "\nupper bound"), fontsize=8)
    return figure


def save(figure: Any, path: Path) -> None:
    """Text stays text, and the same figure gives the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.hashsalt": "certified", "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None})


def letters(found: Mapping[str, Mapping[str, Certification]]) -> Any:
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
