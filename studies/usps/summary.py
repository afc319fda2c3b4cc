"""Tables and figures from the rows of the study, and whether the paper's statements about them hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from figures import MEASURES, METRICS, draw_criteria, draw_digits  # in this folder

from caveat._internal.result_tables import write_csv
from caveat_lab.papers.agreement import Agreement, Check, Part, compare_findings

Rows = list[dict[str, Any]]

LEVELS = (0.01, 0.05, 0.1, 0.2)
TRAIN, TEST = 7291, 2007
NOT_EXCHANGEABLE = (
    "the training and test digits of the original split are not exchangeable, which validity assumes: on random splits "
    "the same predictors err as often as the level says"
)


def summary(rows: Rows, out: Path) -> Agreement:
    written = [{k: f"{v:.6f}" if isinstance(v, float) else v for k, v in row.items()} for row in rows]
    write_csv([row for row in written if row["split"] != "repeated"], out / "results.csv")
    write_csv([row for row in written if row["split"] == "repeated"], out / "repeated.csv")
    (out / "validity.md").write_text(validity_table(rows), encoding="utf-8")
    draw_criteria(of_split(rows, "original"), out / "figure2.svg")
    with np.load(Path(os.environ["CAVEAT_DATA"]) / "usps.npz", allow_pickle=False) as data:
        draw_digits(data["x_train"], data["y_train"], out / "figure1.svg")
    return agreement(rows)


def agreement(rows: Rows) -> Agreement:
    return Agreement(
        (
            findings("Figure 2 and what section 7 says of it", of_split(rows, "original")),
            findings("The same findings on a shuffled split", of_split(rows, "shuffled"), prefix="shuffled, "),
            compare_findings("Section 2: an error rate is the significance level", validity(rows), rule="as promised"),
        )
    )


def of_split(rows: Rows, split: str) -> Rows:
    return [row for row in rows if row["split"] == split]


def findings(title: str, rows: Rows, prefix: str = "") -> Part:
    def mean(metric: str, measure: str, criterion: str, least: int = 1) -> float:
        line = [r for r in rows if r["metric"] == metric and r["measure"] == measure and r["K"] >= least]
        return float(np.mean([r[criterion] for r in line]))

    def beaten(better: str, worse: str, criterion: str) -> list[Check]:
        """On average over K >= 10: the paper ignores small values of K."""
        checks = []
        for metric in METRICS:
            low, high = mean(metric, better, criterion, 10), mean(metric, worse, criterion, 10)
            what = f"KNN-{better} below KNN-{worse} under {criterion}, K not small"
            checks.append(Check(f"{prefix}{metric}: {what}", "yes", f"{low:.5f} against {high:.5f}", low < high))
        return checks

    checks = beaten("cp", "sp", "OF") + beaten("sp", "cp", "U")
    for criterion, called in (("U", "unconfidence"), ("OF", "observed fuzziness")):
        best = min(rows, key=lambda row: row[criterion])
        right = (best["metric"], best["measure"]) == ("tangent", "ratio") and best["K"] <= 10
        ours = f"KNN-{best['measure']}, {best['metric']}, K = {best['K']} ({best[criterion]:.5f})"
        checks.append(Check(f"{prefix}smallest {called}", "KNN-ratio, tangent, small K", ours, right))
        lines = {(r["metric"], r["measure"], r["K"]): r[criterion] for r in rows}
        below = [lines["tangent", m, k] < lines["euclidean", m, k] for _, m, k in lines]
        count = f"{sum(below)} of {len(below)} points"
        checks.append(Check(f"{prefix}tangent below Euclidean distance, {called}", "always", count, all(below)))
    return compare_findings(title, checks)


def validity(rows: Rows) -> list[Check]:
    """Error rates against their levels: of one split within 4 standard deviations, of many within 4 standard errors."""
    checks = []
    for split, called in (("original", "original split"), ("shuffled", "one shuffled split"),
                          ("repeated", "30 random splits of 2000 digits, mean")):  # fmt: skip
        lines = of_split(rows, split)
        for level in LEVELS:
            rates = np.array([row[f"error {level:g}"] for row in lines])
            # Both the test digits and the digits that they are compared with are a sample.
            spread = np.sqrt(level * (1 - level) * (1 / TEST + 1 / TRAIN))
            if split == "repeated":
                spread = np.array([row[f"se of error {level:g}"] for row in lines])
            ours = f"{rates.min():.3f} to {rates.max():.3f}"
            holds = bool((abs(rates - level) <= 4 * spread).all())
            why = NOT_EXCHANGEABLE if split == "original" and not holds else ""
            checks.append(
                Check(f"{called}: error rate at {level:g}, {len(lines)} predictors", f"{level:g}", ours, holds, why)
            )
    return checks


def validity_table(rows: Rows) -> str:
    """Validity beside efficiency: each predictor at the K with the smallest OF on the original split."""
    names = ("U", "OF", "N", *(f"error {level:g}" for level in LEVELS))
    lines = [
        f"| predictor | K | split | {' | '.join(names)} |",
        f"|---|---:|---|{'---:|' * len(names)}",
    ]
    for metric in METRICS:
        for measure in MEASURES:
            line = [r for r in rows if (r["metric"], r["measure"]) == (metric, measure)]
            k = min(of_split(line, "original"), key=lambda row: row["OF"])["K"]
            for split in ("original", "shuffled"):
                (row,) = [r for r in of_split(line, split) if r["K"] == k]
                numbers = " | ".join(
                    f"{row[name]:.3f}" if name.startswith("error") else f"{row[name]:.4f}" for name in names
                )
                lines.append(f"| KNN-{measure}, {metric} | {k} | {split} | {numbers} |")
    return "\n".join(lines) + "\n"
