"""results.csv and Figure 2 from the rows of the study, and whether the paper's statements about the figure hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from caveat.study.agreement import Agreement, Check, compare_findings
from caveat.study.tables import write_csv

METRICS = ("euclidean", "tangent")
MEASURES = ("ratio", "cp", "sp")


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    written = [{k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    write_csv(written, out / "results.csv")
    draw(rows, out / "figure2.svg")
    return agreement(rows)


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    def mean(metric: str, measure: str, criterion: str, least: int = 1) -> float:
        line = [r for r in rows if r["metric"] == metric and r["measure"] == measure and r["K"] >= least]
        return float(np.mean([r[criterion] for r in line]))

    def beaten(better: str, worse: str, criterion: str) -> list[Check]:
        """On average over K >= 10: the paper ignores small values of K."""
        found = []
        for metric in METRICS:
            low, high = mean(metric, better, criterion, 10), mean(metric, worse, criterion, 10)
            said = f"KNN-{better} below KNN-{worse} under {criterion}, K not small"
            found.append(Check(f"{metric}: {said}", "yes", f"{low:.5f} against {high:.5f}", low < high))
        return found

    checks = beaten("cp", "sp", "OF") + beaten("sp", "cp", "U")
    for criterion, called in (("U", "unconfidence"), ("OF", "observed fuzziness")):
        best = min(rows, key=lambda row: row[criterion])
        right = (best["metric"], best["measure"]) == ("tangent", "ratio") and best["K"] <= 10
        ours = f"KNN-{best['measure']}, {best['metric']}, K = {best['K']} ({best[criterion]:.5f})"
        checks.append(Check(f"smallest {called}", "KNN-ratio, tangent, small K", ours, right))
        lines = {(r["metric"], r["measure"], r["K"]): r[criterion] for r in rows}
        below = [lines["tangent", m, k] < lines["euclidean", m, k] for _, m, k in lines]
        said = f"{sum(below)} of {len(below)} points"
        checks.append(Check(f"tangent below Euclidean distance, {called}", "always", said, all(below)))
    return Agreement((compare_findings("Figure 2 and what section 7 says of it", checks),))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Figure 2 of the paper: unconfidence above, observed fuzziness below."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "caveat", "svg.fonttype": "none"}
    figure, axes = plt.subplots(2, 1, figsize=(7, 9), sharex=True)
    colours = {"ratio": "#0072b2", "cp": "#d55e00", "sp": "#009e73"}
    for axis, criterion, title in zip(
        axes, ("U", "OF"), ("average unconfidence", "average observed fuzziness"), strict=True
    ):
        for metric in METRICS:
            for measure in MEASURES:
                line = [r for r in rows if r["metric"] == metric and r["measure"] == measure]
                line = [r for r in line if measure == "ratio" or r["K"] != 1]  # as in the paper
                axis.plot(
                    [r["K"] for r in line], [r[criterion] for r in line], color=colours[measure],
                    linestyle="-" if metric == "tangent" else "--", label=f"KNN-{measure}, {metric}",
                )  # fmt: skip
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    axes[1].set_xlabel("K")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
