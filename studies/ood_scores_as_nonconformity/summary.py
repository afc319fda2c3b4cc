"""Table 2 from the rows of the study, and on which side of the softmax each score falls, here and in the paper."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from run import ALPHAS, METHODS, NETWORKS, SOFTMAX  # in this folder

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat_lab.papers.agreement import Agreement, Check, Part, compare_findings

HERE = Path(__file__).parent
TITLES = {
    "cifar10": "CIFAR-10, ResNet-20, features as stored",
    "fashion": "Fashion-MNIST, small CNN",
    "characters": "36 characters (EMNIST letters and MNIST digits), small CNN",
    "images": "CIFAR-10, ResNet-20 trained here",
}
OURS = {"KNN": "KNN (raw)"}  # name in the paper -> ours, where they differ
WEAKER = "guess: another network, with 64 features instead of 512 and an accuracy of 81 % instead of about 95 %"
OTHER = "guess: other data and a smaller network"

Sizes = dict[tuple[str, str, str, float], float]  # network, score, method, level -> mean set size


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    lines, text = [], []
    for network in NETWORKS:
        here = [row for row in rows if row["network"] == network]
        accuracy, classes = here[0]["accuracy"], {"characters": 36}.get(network, 10)
        made, table = layout(here)
        lines += [{"network": network} | line for line in made]
        text += [f"## {TITLES[network]}: {classes} classes, accuracy {100 * accuracy:.1f} %", "", table]
    write_csv(lines, out / "results.csv")
    with replacing_file(out / "table2.md") as temporary:
        temporary.write_text("\n".join(text), encoding="utf-8")
    return agreement({(r["network"], r["score"], r["method"], r["alpha"]): r["size"] for r in lines})


def agreement(size: Sizes) -> Agreement:
    """Each published cell once: those of CIFAR-10 on CIFAR-10, ODIN and Gram with the network that is trained here."""
    stored, of_model = ("ReAct", "KNN", "Mahalanobis"), ("ODIN", "Gram")
    return Agreement((
        _sides("Table 2, CIFAR-10", "CIFAR-10", stored, "cifar10", size, WEAKER),
        _sides("Table 2, CIFAR-10: ODIN and Gram, trained here", "CIFAR-10", of_model, "images", size, WEAKER),
        _sides("Table 2, CIFAR-100, on 36 characters", "CIFAR-100", (*stored, "ODIN"), "characters", size, OTHER),
    ))  # fmt: skip


def published(dataset: str = "CIFAR-10") -> dict[tuple[str, str, float], float]:
    """Mean set sizes of the paper's Table 2, with the APS columns of CIFAR-10 in the order of their levels."""
    with (HERE / "published.csv").open(encoding="utf-8") as stream:
        return {
            (r["score"], r["method"], float(r["alpha"])): float(r["size"])
            for r in csv.DictReader(stream)
            if r["dataset"] == dataset
        }


def _sides(title: str, dataset: str, scores: tuple[str, ...], network: str, size: Sizes, why: str) -> Part:
    """For each score, method and level: is its mean set smaller than that of the softmax, as in the paper?"""
    known, checks = published(dataset), []
    for (score, method, alpha), paper in known.items():
        if score not in scores:
            continue
        ours = size[network, OURS.get(score, score), method, alpha]
        base, mine = known[SOFTMAX, method, alpha], size[network, SOFTMAX, method, alpha]
        checks.append(
            Check(
                f"{dataset}: {score}, {method} {alpha:g}", f"{_side(paper, base)} ({paper:.2f} against {base:.2f})",
                f"{_side(ours, mine)} ({ours:.2f} against {mine:.2f})", _side(paper, base) == _side(ours, mine), why,
            )
        )  # fmt: skip
    return compare_findings(f"{title}: smaller or larger sets than those of softmax", checks)


def _side(size: float, base: float) -> str:
    return "smaller" if round(size, 2) < round(base, 2) else "larger" if round(size, 2) > round(base, 2) else "equal"


def layout(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """Rows of one network for a CSV file, and the layout of the paper's Table 2 in Markdown.

    Bold: the smallest value of a column and all tied with it (paired t-test over the splits, Holm, 0.05). The
    splits share test images, so the test finds differences too easily.
    """
    lines, cells = [], {}
    scores = list(dict.fromkeys(row["score"] for row in rows))
    for name in scores:
        for method in METHODS:
            for alpha in ALPHAS:
                here = [r for r in rows if (r["score"], r["method"], r["alpha"]) == (name, method, alpha)]
                sizes = np.array([r["size"] for r in here])
                cover = np.array([r["coverage"] for r in here])
                cells[name, method, alpha] = sizes
                lines.append(
                    {"score": name, "method": method, "alpha": alpha, "size": round(float(sizes.mean()), 4),
                     "size_std": round(float(sizes.std()), 4), "coverage": round(float(cover.mean()), 4)}
                )  # fmt: skip
    columns = [(method, alpha) for method in METHODS for alpha in ALPHAS]
    leaders = {c: _leaders({name: cells[name, *c] for name in scores}) for c in columns}
    text = ["| | " + " | ".join(f"{m} {a:g}" for m, a in columns) + " |", "|---|" + "---:|" * len(columns)]
    for name in scores:
        parts = []
        for c in columns:
            cell = f"{cells[name, *c].mean():.2f} ± {cells[name, *c].std():.2f}"
            parts.append(f"**{cell}**" if name in leaders[c] else cell)
        text.append(f"| {name} | " + " | ".join(parts) + " |")
    return lines, "\n".join(text) + "\n"


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
