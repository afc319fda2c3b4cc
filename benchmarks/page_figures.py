"""The figures of the benchmark page: time of each package against the floor, and delivered against promised levels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from families import FAMILIES
from matplotlib.axes import Axes

__all__ = ["draw_all"]

Record = Mapping[str, Any]
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")


def draw_all(results: Mapping[str, Any], folder: Path) -> list[Path]:
    """One SVG per family; the same results give the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context({"svg.hashsalt": "caveat", "svg.fonttype": "none", "font.size": 9}):
        for name in FAMILIES:
            times = [r for r in results["times"] if r["family"] == name and r["threads"] == 1 and "seconds" in r]
            levels = [r for r in results["levels"] if r["family"] == name and "error" in r]
            if times:
                paths.append(folder / f"benchmarks-{name}.svg")
                _draw(name, times, levels, paths[-1])
    return paths


def _draw(name: str, times: list[Record], levels: list[Record], path: Path) -> None:
    packages = sorted({r["package"] for r in times}, key=lambda p: (p == "floor", p != "caveat", p))
    colors = {p: "black" if p == "floor" else PALETTE[i % len(PALETTE)] for i, p in enumerate(packages)}
    compared = [m for m in dict.fromkeys(r["method"] for r in times)
                if any(r["package"] == "caveat" and r["method"] == m for r in times)]  # fmt: skip
    height = 1.7 + 0.34 * max(len(compared), len(levels) * 0.75)
    figure, axes = plt.subplots(1, 2 if levels else 1, figsize=(10 if levels else 7, height), layout="constrained",
                                squeeze=False)  # fmt: skip
    _times(axes[0, 0], times, compared, colors)
    if levels:
        _levels(axes[0, 1], levels, FAMILIES[name], colors)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(colors), fontsize=8)
    figure.suptitle(FAMILIES[name].title, fontsize=11)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _times(ax: Axes, times: list[Record], methods: list[str], colors: Mapping[str, str]) -> None:
    for package, color in colors.items():
        rows = [r for r in times if r["package"] == package and r["method"] in methods]
        y = [methods.index(r["method"]) for r in rows]
        x = [1000 * r["seconds"] for r in rows]
        spread = [[1000 * (r["seconds"] - r["low"]) for r in rows], [1000 * (r["high"] - r["seconds"]) for r in rows]]
        style = {"fmt": "|", "ms": 14} if package == "floor" else {"fmt": "o", "ms": 6}
        ax.errorbar(x, y, xerr=spread, color=color, label=package.replace("_", "-"), **style)
    ax.set(xscale="log", xlabel="ms, one thread (median, quartiles)", yticks=range(len(methods)), yticklabels=methods,
           ylim=(len(methods) - 0.5, -0.5))  # fmt: skip
    ax.grid(axis="x", alpha=0.3)


def _levels(ax: Axes, levels: list[Record], family: Any, colors: Mapping[str, str]) -> None:
    for i, record in enumerate(levels):
        promised = family.promise(record["method"])
        color = colors.get(record["package"], "black")
        ax.errorbar(record["error"], i, xerr=3 * record["error_se"], fmt="o", ms=5, color=color)
        if promised is not None:
            ax.plot([promised, promised], [i - 0.4, i + 0.4], color="black")
    names = [f"{r['package'].replace('_', '-')} {r['method']}" for r in levels]
    ax.set(xlabel="delivered error, 3 standard errors; line: promised", yticks=range(len(levels)), yticklabels=names,
           ylim=(len(levels) - 0.5, -0.5))  # fmt: skip
    ax.set_xlim(left=0)
    ax.tick_params(axis="y", labelsize=7)
    ax.grid(axis="x", alpha=0.3)
