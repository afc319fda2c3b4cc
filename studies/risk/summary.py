"""results.csv, tables.md and risk.svg from the store of the study.

python studies/risk/summary.py runs/risk
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from caveat._internal.result_tables import write_csv
from caveat_lab.experiments import StudyResults

HERE = Path(__file__).parent
COLOURS = {"caveat": "#1f3b57", "tuning split": "#4a90c2", "earliest start": "#9db8d2", "SGR": "#b5442e",
           "Bonferroni": "#a0a0a0", "naive": "#d9a441"}  # fmt: skip


def summarize(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the networks of each group, and the network whose promise is broken most often."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("group", "n", "delta", "risk", "method"))
        cells.setdefault(key, []).append(row)
    return [
        dict(zip(("group", "n", "delta", "risk", "method"), key, strict=True)) | {
            "networks": len(here),
            "broken": round(float(np.mean([row["broken"] for row in here])), 4),
            "worst_broken": round(max(row["broken"] for row in here), 4),
            "nothing": round(float(np.mean([row["nothing"] for row in here])), 4),
            "coverage": round(float(np.mean([row["coverage"] for row in here])), 4),
        }
        for key, here in cells.items()
    ]  # fmt: skip


def tables(summary: list[dict[str, Any]]) -> str:
    """One table for each number of rows and delta: coverage kept, and the share of broken promises."""
    methods = list(COLOURS)
    text = []
    for n, delta in dict.fromkeys((row["n"], row["delta"]) for row in summary):
        text += [f"## n = {n:,}, delta = {delta:g}", "", f"| networks | risk | {' | '.join(methods)} |",
                 "|---|---|" + "---|" * len(methods)]  # fmt: skip
        here = {(r["group"], r["risk"], r["method"]): r for r in summary if (r["n"], r["delta"]) == (n, delta)}
        for group, risk in dict.fromkeys(key[:2] for key in here):
            cells = [here[group, risk, method] for method in methods]
            shown = [f"{cell['coverage']:.3f} ({100 * cell['broken']:.1f} %)" for cell in cells]
            text.append(f"| {group} ({cells[0]['networks']}) | {100 * risk:g} % | {' | '.join(shown)} |")
        text.append("")
    return "\n".join(text)


def draw(summary: list[dict[str, Any]], path: Path, n: int = 1000, delta: float = 0.05) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "caveat", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False}
    )
    import matplotlib.pyplot as plt

    groups = list(dict.fromkeys(row["group"] for row in summary))
    figure, panels = plt.subplots(2, len(groups), figsize=(7.6, 4.6), layout="constrained", sharex=True, sharey="row")
    for column, group in enumerate(groups):
        for place, (method, colour) in enumerate(COLOURS.items()):
            here = [r for r in summary if (r["group"], r["n"], r["delta"], r["method"]) == (group, n, delta, method)]
            x = np.arange(len(here)) + 0.13 * (place - 2.5)
            panels[0, column].bar(x, [r["coverage"] for r in here], 0.12, color=colour, label=method)
            panels[1, column].bar(x, [r["worst_broken"] for r in here], 0.12, color=colour)
        panels[0, column].set(title=group)
        panels[1, column].axhline(delta, color="black", linewidth=0.8, linestyle="--")
        panels[1, column].set(xlabel="promised error", xticks=np.arange(len(here)),
                              xticklabels=[f"{100 * r['risk']:g} %" for r in here])  # fmt: skip
    panels[0, 0].set_ylabel("accepted")
    panels[1, 0].set_ylabel("broken promises,\nworst network")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main(store: str) -> None:
    results = StudyResults.read(store)
    if results.missing or results.failures:
        sys.exit(f"{len(results.missing)} cells are missing, {len(results.failures)} failed. Finish the study first.")
    summary = summarize(list(results.rows()))
    write_csv(summary, HERE / "results.csv")
    (HERE / "tables.md").write_text("# Accepted share, and broken promises\n\n" + tables(summary), encoding="utf-8")
    draw(summary, HERE / "risk.svg")


if __name__ == "__main__":
    main(sys.argv[1])
