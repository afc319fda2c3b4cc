"""Tables 10 and 11 in layout from the rows of the study, and whether the paper's findings hold here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from run import ALPHAS, METHODS, METRICS  # in this folder

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat.stats import compare
from caveat_lab.papers.agreement import Agreement, Check, compare_findings


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
    _figure(results, out / "adaptivity.svg")
    return agreement(results)


def _figure(results: dict[str, Any], path: Path) -> None:
    """Figures 3 and 31 to 33: bars of T-CV and T-SS by method; and what Figures 4 and 34 print, R squared and tau."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "caveat", "svg.fonttype": "none"}
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(13, 2.9))
    for axis, metric in zip(axes, ("T-CV", "T-SS", "R2", "tau"), strict=True):
        named = [m for m in METHODS if m != "CP" or metric in ("T-CV", "T-SS")]
        for i, alpha in enumerate(ALPHAS):
            means = [_mean(results, alpha, m, metric, named) for m in named]
            place = np.arange(len(named)) + 0.27 * (i - 1)
            axis.bar(place, means, width=0.25, color=("#0072b2", "#56b4e9", "#999999")[i], label=f"alpha = {alpha}")
        axis.set_xticks(range(len(named)), named, rotation=45, ha="right", fontsize="small")
        axis.set_title(
            {"R2": "R squared of width and error", "tau": "Kendall's tau"}.get(metric, metric), fontsize="medium"
        )
    axes[1].set_ylim(0, 0.75)
    axes[1].legend(fontsize="x-small", loc="upper left")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def agreement(results: dict[str, Any]) -> Agreement:
    return Agreement(
        (
            compare_findings("Table 10 (T-CV, T-SS), what is said of it", _adaptive(results)),
            compare_findings("Table 11 (coverage, width), what is said of it", _covered(results)),
            compare_findings("Figures 4 and 34 (width and error), what is said of them", _width_and_error(results)),
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


def _mean(results: dict[str, Any], alpha: float, method: str, metric: str, among: Sequence[str] = METHODS) -> float:
    """Over the data sets where it is finite for every method."""
    kept = [found[str(alpha)] for found in results.values()]
    kept = [found for found in kept if all(np.isfinite(found[m][metric]) for m in among)]
    return float(np.mean([found[method][metric] for found in kept]))


def _adaptive(results: dict[str, Any]) -> list[Check]:
    checks = []
    for alpha in ALPHAS:
        value = {(m, k): _mean(results, alpha, m, k) for m in METHODS for k in ("T-CV", "T-SS")}
        cp, others = value["CP", "T-CV"], [value[m, "T-CV"] for m in ("CP-A", "SSCP", "O-CPA")]
        said = f"{cp:.3f} against {min(others):.3f} to {max(others):.3f}"
        claim = f"alpha = {alpha}: CP has a larger T-CV than CP-A, SSCP and O-CPA"
        checks.append(Check(claim, "yes", said, cp > max(others)))
        for ours, base in (("O-CPA", "CP-A"), ("O-PAC", "PAC")):
            more = value[ours, "T-SS"] > value[base, "T-SS"]
            said = f"CP {value['CP', 'T-SS']:.3f}, {base} {value[base, 'T-SS']:.3f}, {ours} {value[ours, 'T-SS']:.3f}"
            why = _ease_or_scale(results, alpha, ours, base)
            checks.append(Check(f"alpha = {alpha}: binning by ease raises T-SS over {base}", "yes", said, more, why))
    return checks


def _ease_or_scale(results: dict[str, Any], alpha: float, ours: str, base: str) -> str:
    """Test of the cause: does binning help where noise predicts the error at least as well as the scale does?"""
    gain, better = [], []
    for found in results.values():
        values = found[str(alpha)]
        if np.isfinite(values[ours]["T-SS"]):
            gain.append(values[ours]["T-SS"] - values[base]["T-SS"])
            better.append(values[ours]["ease_error"] >= values[ours]["scale_error"])
    lift, know = np.array(gain), np.array(better)
    mean = f"{lift.mean():+.3f}"
    if know.any() and not know.all():
        mean = f"{lift[know].mean():+.3f} where it does ({know.sum()} sets), {lift[~know].mean():+.3f} elsewhere"
    return ("guess: noise on tabular inputs predicts the error at least as well as the scale of CP-A on few sets; mean "
            f"change of T-SS: {mean}")  # fmt: skip


def _width_and_error(results: dict[str, Any]) -> list[Check]:
    """Figures 4 and 34: R squared and tau of width against error are higher with bins."""
    checks = []
    for alpha in ALPHAS:
        for metric in ("R2", "tau"):
            value = {
                m: _mean(results, alpha, m, metric, [n for n in METHODS if n != "CP"]) for m in METHODS if m != "CP"
            }
            for ours, base in (("O-CPA", "CP-A"), ("O-PAC", "PAC")):
                said = f"{base} {value[base]:.3f}, {ours} {value[ours]:.3f}"
                name = "R squared" if metric == "R2" else metric
                checks.append(Check(f"alpha = {alpha}: {name} of width and error is higher for {ours} than for {base}",
                                    "yes", said, value[ours] > value[base],
                                    _ease_or_scale(results, alpha, ours, base)))  # fmt: skip
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
        narrow = sorted((m for m in METHODS if m != "CQR"), key=lambda m: value[m, "width"])
        said = ", ".join(f"{m} {value[m, 'width']:.3f}" for m in narrow[:2])
        checks.append(Check(f"alpha = {alpha}: the narrowest intervals on average, by the caption", "CP", said,
                            narrow[0] == "CP"))  # fmt: skip
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
