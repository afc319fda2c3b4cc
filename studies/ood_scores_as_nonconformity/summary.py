"""Table 2 from the rows of the study, and on which side of the softmax each score falls, here and in the paper."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from run import ALPHAS, METHODS  # in this folder

from caveat._internal.files import replacing_file
from caveat.study.agreement import Agreement, Check, compare_findings
from caveat.study.tables import write_csv

HERE = Path(__file__).parent


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    results: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        results.setdefault(row["score"], []).append(row)
    lines, text = table(results)
    write_csv(lines, out / "results.csv")
    with replacing_file(out / "table2.md") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return agreement({(r["score"], r["method"], r["alpha"]): r["size"] for r in lines})


def agreement(size: dict[tuple[str, str, float], float]) -> Agreement:
    return Agreement(
        (compare_findings("Table 2, CIFAR-10: smaller or larger sets than those of softmax", _sides(size)),)
    )


def published() -> dict[tuple[str, str, float], float]:
    """Mean set sizes of the paper's Table 2, CIFAR-10, with the APS columns in the order of their levels."""
    with (HERE / "published.csv").open(encoding="utf-8") as stream:
        return {(r["score"], r["method"], float(r["alpha"])): float(r["size"]) for r in csv.DictReader(stream)}


def _sides(size: dict[tuple[str, str, float], float]) -> list[Check]:
    """For each score, method and level: is its mean set smaller than that of the softmax, as in the paper?"""
    known, checks = published(), []
    why = "guess: another network, with 64 features instead of 512 and an accuracy of 81 % instead of about 95 %"
    for (score, method, alpha), paper in known.items():
        if score == "CP (softmax)":
            continue
        base, mine = (found["CP (softmax)", method, alpha] for found in (known, size))
        ours = size[score, method, alpha]
        checks.append(
            Check(
                f"{score}, {method} {alpha:g}", f"{_side(paper, base)} ({paper:.2f} against {base:.2f})",
                f"{_side(ours, mine)} ({ours:.2f} against {mine:.2f})", _side(paper, base) == _side(ours, mine), why,
            )
        )  # fmt: skip
    return checks


def _side(size: float, base: float) -> str:
    return "smaller" if round(size, 2) < round(base, 2) else "larger" if round(size, 2) > round(base, 2) else "equal"


def table(results: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Rows for a CSV file, and the layout of the paper's Table 2 in Markdown.

    Bold: the smallest value of a column and all tied with it (paired t-test over the splits, Holm, 0.05). The
    splits share test images, so the test finds differences too easily.
    """
    rows, cells = [], {}
    for name, found in results.items():
        for method in METHODS:
            for alpha in ALPHAS:
                here = [r for r in found if r["method"] == method and r["alpha"] == alpha]
                sizes = np.array([r["size"] for r in here])
                cover = np.array([r["coverage"] for r in here])
                cells[name, method, alpha] = sizes
                rows.append(
                    {"score": name, "method": method, "alpha": alpha, "size": round(float(sizes.mean()), 4),
                     "size_std": round(float(sizes.std()), 4), "coverage": round(float(cover.mean()), 4)}
                )  # fmt: skip
    columns = [(method, alpha) for method in METHODS for alpha in ALPHAS]
    leaders = {c: _leaders({name: cells[name, *c] for name in results}) for c in columns}
    lines = ["| | " + " | ".join(f"{m} {a:g}" for m, a in columns) + " |", "|---|" + "---:|" * len(columns)]
    for name in results:
        parts = []
        for c in columns:
            text = f"{cells[name, *c].mean():.2f} ± {cells[name, *c].std():.2f}"
            parts.append(f"**{text}**" if name in leaders[c] else text)
        lines.append(f"| {name} | " + " | ".join(parts) + " |")
    return rows, "\n".join(lines) + "\n"


def _leaders(sizes: dict[str, Any]) -> set[str]:
    from scipy.stats import ttest_rel

    best = min(sizes, key=lambda name: sizes[name].mean())
    others = [name for name in sizes if name != best]
    p_values = np.array([ttest_rel(sizes[name], sizes[best]).pvalue for name in others])
    order, tied, running = np.argsort(p_values), {best}, 0.0
    for place, i in enumerate(order):  # Holm's step-down
        running = max(running, (len(others) - place) * p_values[i])
        if running > 0.05:
            tied.add(others[i])
    return tied
