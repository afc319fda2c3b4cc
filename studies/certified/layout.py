"""Tables and figures of the study in the layout of the paper: its Tables 1, 4, 5, 8 and 9 and Figure 4."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import strangers  # beside this file

from caveat.study.certification import Certification, SetCertificate

Found = Mapping[tuple[str, float], Certification]


def write(found: Found, out: Path) -> None:
    """tables.md, results.csv, histograms.svg and letters.svg."""
    out.mkdir(parents=True, exist_ok=True)
    radii = sorted({epsilon for _, epsilon in found})
    lines: list[str] = []
    for epsilon in radii:
        here = {method: one for (method, eps), one in found.items() if eps == epsilon}
        first = epsilon == radii[0]
        lines += areas(f"Table {1 if first else 9}: radius {epsilon:g}", here, strangers.FIRST)
        if first:
            lines += areas(f"Table 8: further sets, radius {epsilon:g}", here, strangers.FURTHER)
            lines += means(f"Table 4: mean confidence, and mean upper bound at radius {epsilon:g}", here)
            histograms(here).savefig(out / "histograms.svg", metadata={"Date": None})
            letters(here).savefig(out / "letters.svg", metadata={"Date": None})
    (out / "tables.md").write_text("\n".join(lines), encoding="utf-8")
    rows = [row for one in found.values() for row in numbers(one)]
    with (out / "results.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def numbers(found: Certification) -> list[dict[str, Any]]:
    """Everything that was measured, one row per set; shares, not percent."""
    return [
        {
            "method": found.source, "epsilon": found.epsilon, "set": one.name, "n": one.n,
            "accuracy": _short(found.accuracy), "auc": _short(areas.clean), "aauc": _short(areas.adversarial),
            "gauc": _short(areas.guaranteed), "conservative_gauc": _short(areas.conservative_guaranteed),
            "gauc_with_95_percent": _short(found.band(one).lower),
            "gfpr95_inlier_positive": _short(areas.guaranteed_fpr95),
            "mean_inlier_confidence": _short(np.exp(found.inlier).mean()),
            "mean_confidence": _short(np.exp(one.clean).mean()),
            "mean_upper_bound": _short(np.exp(one.upper).mean()),
            "zero_gradient_share": _short(one.zero_gradients),
        }
        for one in found.sets
        for areas in [found.sandwich(one)]
    ]  # fmt: skip


def _short(value: float) -> float:
    return round(float(value), 5)


def _of(found: Certification, name: str) -> SetCertificate | None:
    return next((one for one in found.sets if one.name == name), None)


def areas(title: str, found: Mapping[str, Certification], names: Sequence[str]) -> list[str]:
    """AUC, AAUC and GAUC in percent, methods by sets."""
    head = "".join(f" {name} AUC | AAUC | GAUC |" for name in names)
    lines = [f"## {title}", "", f"| method | accuracy |{head}", f"|---|---:|{'---:|' * 3 * len(names)}"]
    for method, one in found.items():
        cells = [f"{100 * one.accuracy:.1f}"]
        for name in names:
            there = _of(one, name)
            cells += ["", "", ""] if there is None else [
                f"{100 * value:.1f}" for value in (one.auc(there), one.aauc(there), one.gauc(there))
            ]  # fmt: skip
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def means(title: str, found: Mapping[str, Certification]) -> list[str]:
    """Mean confidence on inliers; mean confidence / mean upper bound on each set; percent."""
    names = (*strangers.FIRST, *strangers.FURTHER)
    lines = [f"## {title}", "", "| method | MNIST | " + " | ".join(names) + " |", f"|---|---:|{'---:|' * len(names)}"]
    for method, one in found.items():
        cells = [f"{100 * np.exp(one.inlier).mean():.1f}"]
        for name in names:
            there = _of(one, name)
            pair = [] if there is None else [np.exp(there.clean).mean(), np.exp(there.upper).mean()]
            cells.append(" / ".join(f"{100 * value:.1f}" for value in pair))
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def histograms(found: Mapping[str, Certification]) -> Any:
    """Confidence on digits, and its certified upper bounds on each set, 50 bins from 0.1 to 1; dotted: the mean."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    names = ("MNIST", *strangers.FIRST)
    with mpl.rc_context({"svg.hashsalt": "certified", "font.size": 8}):
        figure = Figure(figsize=(2.1 * len(names), 0.85 * len(found) + 0.6), layout="constrained")
        grid = np.atleast_2d(figure.subplots(len(found), len(names), sharex=True))
        for axes_row, (method, one) in zip(grid, found.items(), strict=True):
            for axes, name in zip(axes_row, names, strict=True):
                there = None if name == "MNIST" else _of(one, name)
                values = one.inlier if name == "MNIST" else np.zeros(0) if there is None else there.upper
                if values.size:
                    edges, shares = one.histogram(values)
                    axes.stairs(shares, edges, fill=True, color="#0072b2" if name == "MNIST" else "#c84b00")
                    axes.axvline(np.exp(values).mean(), color="black", linestyle=":", linewidth=0.8)
                axes.set(yticks=[], xlim=(0.08, 1.02), xticks=[0.1, 0.5, 1.0])
                axes.spines[["top", "right", "left"]].set_visible(False)
            axes_row[0].set_ylabel(method, rotation=0, ha="right", va="center")
        for axes, name in zip(grid[0], names, strict=True):
            axes.set_title(name + ("\nconfidence" if name == "MNIST" else "\nupper bound"), fontsize=8)
    return figure


def letters(found: Mapping[str, Certification]) -> Any:
    """Mean confidence on each letter, one line per method."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    marks = "osv^D*XP<"
    with mpl.rc_context({"svg.hashsalt": "certified", "font.size": 8}):
        figure = Figure(figsize=(7.5, 3), layout="constrained")
        axes = figure.subplots()
        for mark, (method, one) in zip(marks, found.items(), strict=False):
            there = _of(one, "EMNIST letters")
            if there is not None and (by := there.by_class()):
                axes.plot(
                    list(by), [mean for mean, _ in by.values()], marker=mark, markersize=3, linewidth=0.8, label=method
                )
        axes.set(ylim=(0, 1.02), ylabel="mean confidence")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper", frameon=False)
    return figure
