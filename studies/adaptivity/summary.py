"""Tables and figures from the rows of the study, and whether the paper's findings hold here."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import figures  # in this folder
import numpy as np

from caveat.study.agreement import Agreement, Check, Part, compare_findings
from caveat.study.tables import write_csv

# Row "Average" of the paper's Table 2, by alpha and metric, in the order of figures.METHODS.
TABLE2 = {
    ("0.1", "T-CV"): (0.304, 0.065, 0.155, 0.148, 0.050, 0.045),
    ("0.1", "T-SS"): (0.543, 0.640, 0.616, 0.673, 0.737, 0.720),
    ("0.05", "T-CV"): (0.119, 0.043, 0.093, 0.086, 0.031, 0.032),
    ("0.05", "T-SS"): (0.678, 0.603, 0.646, 0.670, 0.743, 0.719),
}
TABLE1 = {"Deficit": 1.72, "Excess": 4.17, "SSCV": 3.58, "ESCV": 4.07, "T-SS": 1.33}  # its row "Avg."


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    found = nested(rows)
    write_tables(found, out)
    figures.render(found, out)
    return agreement(found)


def agreement(found: dict[str, dict[str, Any]]) -> Agreement:
    return Agreement((_metrics(found["validation"]), _order(found["tables"]), _sizes(found["tables"])))


def nested(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Part -> network -> its numbers, in the form that the figures need."""
    found: dict[str, dict[str, Any]] = {"tables": {}, "validation": {}, "sensitivity": {}}
    for row in rows:
        setting, method, metric, value = row["setting"], row["method"], row["metric"], row["value"]
        here = found[row["part"]].setdefault(row["network"], {})
        if row["part"] == "sensitivity":
            here.setdefault(setting, {})[metric] = value
        elif row["part"] == "validation":
            here.setdefault(method, {}).setdefault(setting, {})[metric] = value
        elif metric == "accuracy":
            here["accuracy"] = value
        elif metric == "rank_by_ease":
            here.setdefault("rank_by_ease", []).append([row["x"], value])
        else:
            here.setdefault("alpha", {}).setdefault(setting, {}).setdefault(method, {})[metric] = value
    for by_method in found["validation"].values():
        for content in by_method.values():
            places = content.pop("place")
            content["order"] = sorted(places, key=places.__getitem__)
    return found


def write_tables(found: dict[str, dict[str, Any]], out: Path) -> None:
    """Every number of the tables, and of the validation, as two long CSV files."""
    lines = [
        {"network": network, "accuracy": f"{content['accuracy']:.4f}", "alpha": alpha, "method": method}
        | {metric: f"{value:.5f}" for metric, value in values.items()}
        for network, content in found["tables"].items()
        for alpha, by_method in content["alpha"].items()
        for method, values in by_method.items()
    ]
    checks = [
        {"network": network, "method": method, "metric": metric, "spearman": f"{value:.4f}",
         "p_value": f"{content['p_value'][metric]:.2e}", "place": content["order"].index(metric) + 1}
        for network, by_method in found["validation"].items()
        for method, content in by_method.items()
        for metric, value in content["correlation"].items()
    ]  # fmt: skip
    write_csv(lines, out / "results.csv")
    write_csv(checks, out / "validation.csv")


def _metrics(validation: dict[str, Any]) -> Part:
    cases = [content["order"] for by_method in validation.values() for content in by_method.values()]
    place = {metric: float(np.mean([order.index(metric) + 1 for order in cases])) for metric in TABLE1}
    first = sum(order[0] == "T-SS" for order in cases)
    ranked, known = (sorted(by, key=by.__getitem__) for by in (place, TABLE1))
    checks = [
        Check("T-SS comes first", "24 of 36 cases", f"{first} of {len(cases)} cases", 2 * first > len(cases)),
        Check("best average place", f"{known[0]} {TABLE1[known[0]]:.2f}", f"{ranked[0]} {place[ranked[0]]:.2f}",
              ranked[0] == known[0]),
        Check("second-best average place", f"{known[1]} {TABLE1[known[1]]:.2f}", f"{ranked[1]} {place[ranked[1]]:.2f}"
              f", next {ranked[2]} {place[ranked[2]]:.2f}", ranked[1] == known[1]),
    ]  # fmt: skip
    return compare_findings("Table 1, which metric follows property 1", checks)


def _order(tables: dict[str, Any]) -> Part:
    """Each pair of methods: which has the better average, here and in Table 2."""
    checks = []
    for (alpha, metric), published in TABLE2.items():
        values, _ = figures.ranking(tables, metric, alpha)
        paper, ours = dict(zip(figures.METHODS, published, strict=True)), dict(
            zip(figures.METHODS, values.mean(axis=0), strict=True)
        )  # fmt: skip
        sign = 1 if figures.SMALLER_IS_BETTER[metric] else -1
        for a, b in itertools.combinations(figures.METHODS, 2):
            theirs, mine = (min((a, b), key=lambda m, v=v: sign * v[m]) for v in (paper, ours))
            checks.append(
                Check(
                    f"{metric}, alpha = {alpha}: {a} or {b}", f"{theirs} ({paper[a]:.3f}, {paper[b]:.3f})",
                    f"{mine} ({ours[a]:.3f}, {ours[b]:.3f})", theirs == mine, _why(a, b),
                )
            )  # fmt: skip
    return compare_findings("Table 2, which of two methods has the better average", checks, keep_all=False)


def _why(a: str, b: str) -> str:
    if {a, b} == {"O-LAC", "O-SAPS"}:
        return "guess: chance; the two differ by a few hundredths, in the paper and here"
    return "guess: CIFAR instead of ImageNet, and difficulty from noise on logits"


def _sizes(tables: dict[str, Any]) -> Part:
    checks = []
    for alpha in ("0.1", "0.05"):
        size = {m: float(np.mean([c["alpha"][alpha][m]["size"] for c in tables.values()])) for m in figures.METHODS}
        small, large = min(size, key=size.__getitem__), max(size, key=size.__getitem__)
        checks.append(
            Check(f"alpha = {alpha}: the smallest sets", "LAC", f"{small} ({size[small]:.2f})", small == "LAC")
        )
        checks.append(
            Check(f"alpha = {alpha}: the largest sets", "APS", f"{large} ({size[large]:.3f}; APS {size['APS']:.3f})",
                  large == "APS", "guess: APS has the largest sets on CIFAR-100 only, "
                  "where sets can be large; the difference is a thousandth")
        )  # fmt: skip
        off = {
            (n, m): abs(c["alpha"][alpha][m]["coverage"] - 1 + float(alpha)) for n, c in tables.items() for m in size
        }
        worst = max(off, key=off.__getitem__)
        checks.append(
            Check(f"alpha = {alpha}: every method covers as promised on every network, to 0.015", "yes",
                  f"furthest off {off[worst]:.3f} ({worst[1]}, {worst[0]})", off[worst] <= 0.015,
                  "guess: for that network 61 % of the largest probabilities are exactly 1 in float32: easy samples "
                  "with tied scores are all covered")
        )  # fmt: skip
    return compare_findings("Table 4, what is said of coverage and size", checks)
