"""Tables 10 and 11 in layout from the rows of the study, and whether the paper's findings hold here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from run import ALPHAS, METHODS, METRICS  # in this folder

from caveat._internal.files import replacing_file
from caveat.stats import compare
from caveat.study.agreement import Agreement, Check, compare_findings
from caveat.study.tables import write_csv


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    results = means_over_seeds(rows)
    lines = [
        {"data": name, "alpha": alpha, "method": method} | {k: f"{v:.4f}" for k, v in values.items()}
        for name, found in results.items()
        for alpha, by_method in found.items()
        for method, values in by_method.items()
    ]
    write_csv(lines, out / "results.csv")
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text(table(results), encoding="utf-8")
    return agreement(results)


def agreement(results: dict[str, Any]) -> Agreement:
    return Agreement(
        (
            compare_findings("Table 10 (T-CV, T-SS), what is said of it", _adaptive(results)),
            compare_findings("Table 11 (coverage, width), what is said of it", _covered(results)),
        )
    )


def means_over_seeds(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Data set -> alpha -> method -> metric -> mean over the random splits."""
    grouped: dict[str, dict[str, dict[str, list[dict[str, Any]]]]] = {}
    for row in rows:
        grouped.setdefault(row["data"], {}).setdefault(row["alpha"], {}).setdefault(row["method"], []).append(row)
    return {
        data: {
            alpha: {
                m: {k: float(np.mean([float(run[k]) for run in runs])) for k in METRICS}
                for m, runs in by_method.items()
            }
            for alpha, by_method in by_alpha.items()
        }
        for data, by_alpha in grouped.items()
    }


def _mean(results: dict[str, Any], alpha: float, method: str, metric: str) -> float:
    """Over the data sets where it is finite for every method."""
    kept = [found[str(alpha)] for found in results.values()]
    kept = [found for found in kept if all(np.isfinite(found[m][metric]) for m in METHODS)]
    return float(np.mean([found[method][metric] for found in kept]))


def _adaptive(results: dict[str, Any]) -> list[Check]:
    few = ("guess: with 200 to 1200 calibration samples a bin has about 100, and noise on tabular inputs predicts the "
           "error less well than noise on images")  # fmt: skip
    checks = []
    for alpha in ALPHAS:
        value = {(m, k): _mean(results, alpha, m, k) for m in METHODS for k in ("T-CV", "T-SS")}
        cp, others = value["CP", "T-CV"], [value[m, "T-CV"] for m in ("CP-A", "SSCP", "O-CPA")]
        said = f"{cp:.3f} against {min(others):.3f} to {max(others):.3f}"
        claim = f"alpha = {alpha}: CP has a larger T-CV than CP-A, SSCP and O-CPA"
        checks.append(Check(claim, "yes", said, cp > max(others)))
        more = value["O-CPA", "T-SS"] > value["CP-A", "T-SS"]
        said = f"CP {value['CP', 'T-SS']:.3f}, CP-A {value['CP-A', 'T-SS']:.3f}, O-CPA {value['O-CPA', 'T-SS']:.3f}"
        checks.append(Check(f"alpha = {alpha}: binning by ease raises T-SS over CP-A", "yes", said, more, few))
    return checks


def _covered(results: dict[str, Any]) -> list[Check]:
    checks = []
    for alpha in ALPHAS:
        value = {(m, k): _mean(results, alpha, m, k) for m in METHODS for k in ("coverage", "width")}
        for method in ("CP", "CP-A", "SSCP"):
            found = value[method, "coverage"]
            checks.append(Check(f"alpha = {alpha}: {method} covers {1 - alpha:g} to 0.015", "yes", f"{found:.3f}",
                                abs(found - 1 + alpha) <= 0.015))  # fmt: skip
        safe = value["O-PAC", "coverage"] > value["PAC", "coverage"] > value["CP-A", "coverage"]
        said = ", ".join(f"{m} {value[m, 'coverage']:.3f}" for m in ("CP-A", "PAC", "O-PAC"))
        checks.append(Check(f"alpha = {alpha}: PAC covers more than CP-A, O-PAC more than PAC", "yes", said, safe))
        wide = max((m for m in METHODS if m != "CQR"), key=lambda m: value[m, "width"])
        checks.append(Check(f"alpha = {alpha}: the widest intervals", "O-PAC", wide, wide == "O-PAC"))
    return checks


def table(results: dict[str, Any]) -> str:
    """The layout of the paper's Tables 10 and 11, and average ranks with Friedman's test."""
    lines = ["Means over random splits; widths in units of the target's spread. '-': an interval was infinite, or all"]
    lines += ["widths are equal. T-CV and width: smaller is better; T-SS, R2 and tau: larger is better.", ""]
    for alpha in map(str, ALPHAS):
        for first, second in (("T-CV", "T-SS"), ("coverage", "width"), ("R2", "tau")):
            head = [f"{metric} {method}" for metric in (first, second) for method in METHODS]
            lines += [f"### {first} and {second}, alpha = {alpha}", "", "| data | " + " | ".join(head) + " |"]
            lines.append("|---|" + "---:|" * len(head))
            for name, found in results.items():
                values = [found[alpha][method][metric] for metric in (first, second) for method in METHODS]
                lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" if np.isfinite(v) else "-" for v in values) + " |")
            lines.append("")
            for metric in (first, second):
                named = [m for m in METHODS if m != "CP" or metric not in ("R2", "tau")]  # CP has but one width
                values = np.array([[found[alpha][m][metric] for m in named] for found in results.values()])
                kept = values[np.isfinite(values).all(axis=1)]
                if metric == "coverage" or len(kept) < 5:
                    continue
                result = compare(kept, lower_is_better=metric in ("T-CV", "width"), methods=named)
                ranks = ", ".join(f"{m} {result.average_ranks[m]:.2f}" for m in named)
                layers = "; ".join(", ".join(layer) for layer in result.layers)
                lines += [
                    f"{metric}: average ranks over {len(kept)} sets: {ranks} (Friedman p = {result.p_value:.1e}). From "
                    f"best to worst, those that cannot be told apart together (Conover, Holm, 0.05): {layers}.",
                    "",
                ]
    return "\n".join(lines)
