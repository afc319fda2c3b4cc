"""Tables 1 and 3 in the paper's layout, what they show here and there, and the published bounds above their cap.

Whether a published bound is possible says nothing of ours: it is counted in ``tables.md`` and not in the comparison.

As a script, from ``results.csv`` alone, into this folder:

    python studies/openood_tables/summary.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from caps import HERE, impossible, published  # in this folder
from run import DELTAS, DETECTORS, SIZES  # in this folder
from scipy.stats import spearmanr

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat_lab.papers.agreement import Agreement, Check, Part, compare_findings

FORMS = ("published", "exact", "betting")
COLUMNS = ("auroc", *(f"{form}_{side}" for form in FORMS for side in ("lower", "upper")))
OTHER = "guess: another network and other outlier sets"
CURVE = 3  # degree of the polynomial through the published corrections, as a function of AUROC

Table = dict[tuple[str, str], dict[str, float]]  # (near or far, detector) -> means over outlier sets


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    kept = [row | {name: round(row[name], 3) for name in COLUMNS} for row in rows]
    write_csv(kept, out / "results.csv")
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text(markdown(kept), encoding="utf-8")
    return agreement(kept)


def means(rows: list[dict[str, Any]], delta: float, n: int = SIZES[-1]) -> Table:
    """Means over the near or far sets, as the paper has them: corrected set by set, then averaged."""
    here = [row for row in rows if row["delta"] == delta and row["n"] == n]
    return {
        (ood, name): {
            column: float(np.mean([row[column] for row in here if row["detector"] == name and row["ood"] == ood]))
            for column in COLUMNS
        }
        for ood in ("near", "far")
        for name in DETECTORS
    }


def markdown(rows: list[dict[str, Any]]) -> str:
    lines = []
    for table, delta in DELTAS.items():
        found = means(rows, delta)
        lines += [f"## Table {table} in layout: AUROC in percent and its bounds, delta = {delta:g}, n = {SIZES[-1]:,}",
                  "", "Bold: the bounds of the published form overlap those of the best.", "",
                  "| detector | near | published form | exact band | betting | far | published form | exact band | "
                  "betting |", "|---|" + "---:|" * 8]  # fmt: skip
        best = {ood: tied(_intervals(found, ood)) for ood in ("near", "far")}
        for name in DETECTORS:
            cells = []
            for ood in ("near", "far"):
                cell = found[ood, name]
                value = f"{cell['auroc']:.2f}"
                cells.append(f"**{value}**" if name in best[ood] else value)
                cells += [f"{cell[f'{form}_lower']:.2f} to {cell[f'{form}_upper']:.2f}" for form in FORMS]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    lines += ["## Correction against the number of inliers", "",
              "AUROC less its lower bound, in percentage points, near, mean over the detectors.", "",
              "| n | " + " | ".join(f"{form}, delta {delta:g}" for delta in DELTAS.values() for form in FORMS) + " |",
              "|---:|" + "---:|" * 6]  # fmt: skip
    for n in SIZES:
        cells = [f"{correction(rows, delta, n, form):.2f}" for delta in DELTAS.values() for form in FORMS]
        lines.append(f"| {n:,} | " + " | ".join(cells) + " |")
    above, named = impossible(), {_cell(cell): cell for cell in impossible(method="monte_carlo")}
    printed = sum(1 + (not np.isnan(row["permissive"])) for row in published())
    lines += ["", "## Published bounds above the cap of their band", "",
              f"{printed} bounds of Tables 1 and 3 were checked. {printed - len(above)} are possible by min(simes, "
              f"asymptotic) below and DKWM above, {printed - len(named)} with the Monte Carlo boundary below.", "",
              "| table | column | detector | bound | AUROC | correction | cap | with Monte Carlo |",
              "|---:|---|---|---|---:|---:|---:|---|"]  # fmt: skip
    for cell in above:
        other = named.get(_cell(cell))
        lines.append(f"| {cell['table']} | {cell['dataset']}, {cell['ood']} | {cell['detector']} | {cell['side']} | "
                     f"{cell['auroc']:.2f} | {cell['correction']:.2f} | {cell['cap']:.2f} | "
                     f"{'possible' if other is None else format(other['cap'], '.2f')} |")  # fmt: skip
    return "\n".join(lines) + "\n"


def _cell(cell: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(cell[key] for key in ("table", "dataset", "ood", "detector", "side"))


def correction(rows: list[dict[str, Any]], delta: float, n: int, form: str = "published", ood: str = "near") -> float:
    """AUROC less its lower bound, mean over the detectors."""
    found = means(rows, delta, n)
    return float(np.mean([found[ood, name]["auroc"] - found[ood, name][f"{form}_lower"] for name in DETECTORS]))


def tied(intervals: dict[str, tuple[float, float, float]]) -> list[str]:
    """Detectors whose bounds (value, lower, upper) overlap those of the best: the paper's rule for bold print."""
    best = max(intervals, key=lambda name: intervals[name][0])
    return [name for name in intervals if intervals[name][2] >= intervals[best][1]]


def _intervals(found: Table, ood: str) -> dict[str, tuple[float, float, float]]:
    keys = ("auroc", "published_lower", "published_upper")
    return {name: tuple(found[ood, name][key] for key in keys) for name in DETECTORS}  # type: ignore[misc]


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    paper = published()
    parts: list[Part] = []
    for table, delta in DELTAS.items():
        known, ours = [row for row in paper if row["table"] == table], means(rows, delta)
        checks = [*(_order(table, known, ours, ood) for ood in ("near", "far")), _size(table, known, ours)]
        if table == 1:
            checks += [_over_one(known, ours), *(_overlap(known, ours, ood) for ood in ("near", "far"))]
            checks.append(_ratio(paper, rows, dataset="ImageNet-200"))
        else:
            checks += [_ratio(paper, rows), _fewer(rows, delta)]
        parts.append(compare_findings(f"Table {table}, what it shows", checks))
    return Agreement(tuple(parts))


def _column(known: list[dict[str, Any]], dataset: str, ood: str) -> dict[str, dict[str, Any]]:
    return {row["detector"]: row for row in known if row["dataset"] == dataset and row["ood"] == ood}


def _order(table: int, known: list[dict[str, Any]], ours: Table, ood: str) -> Check:
    """Rank correlation with the published column: positive beyond chance at 5 % (14 detectors: above 0.46).

    AUROC for Table 1, the lower bound for Table 3: both have the same AUROCs, which are not counted twice.
    """
    what, theirs, mine = {1: ("AUROC", "auroc", "auroc"), 3: ("lower bound", "conservative", "published_lower")}[table]
    column = _column(known, "CIFAR-10", ood)
    result = spearmanr([column[name][theirs] for name in DETECTORS], [ours[ood, name][mine] for name in DETECTORS],
                       alternative="greater")  # fmt: skip
    return Check(f"order of 14 detectors by {what}, CIFAR-10, {ood}", "that of the column",
                 f"rank correlation {result.statistic:.2f} (p = {result.pvalue:.2f})", result.pvalue < 0.05,
                 "guess: another network; the order changes between the paper's own columns too")  # fmt: skip


def _size(table: int, known: list[dict[str, Any]], ours: Table) -> Check:
    """The published correction as a function of AUROC (CIFAR columns), and ours near at the same AUROC."""
    cifar = [row for row in known if row["dataset"] != "ImageNet-200"]
    curve = np.polynomial.Polynomial.fit(
        [row["auroc"] for row in cifar], [row["auroc"] - row["conservative"] for row in cifar], CURVE
    )
    cells = [ours["near", name] for name in DETECTORS]
    gaps = [cell["auroc"] - cell["published_lower"] - curve(cell["auroc"]) for cell in cells]
    mine = np.median([cell["auroc"] - cell["published_lower"] for cell in cells])
    theirs = np.median([curve(cell["auroc"]) for cell in cells])
    return Check(f"Table {table}: correction at the same AUROC (median of 14, near)", f"{theirs:.2f} points",
                 f"{mine:.2f} points; single detectors differ by {min(gaps):+.2f} to {max(gaps):+.2f}",
                 abs(mine - theirs) <= 0.1, "guess: another shape of the ROC curves")  # fmt: skip


def _over_one(known: list[dict[str, Any]], ours: Table) -> Check:
    """Section 4.5.1: the correction is "often more than 1 percent" and costs "roughly 1 or 2 percent"."""
    theirs = [row["auroc"] - row["conservative"] for row in known if row["dataset"] == "CIFAR-10"]
    mine = [cell["auroc"] - cell["published_lower"] for cell in ours.values()]
    said = [f"{np.mean(np.array(x) > 1):.0%} above 1 point, {min(x):.2f} to {max(x):.2f}" for x in (theirs, mine)]
    near = abs(np.mean(np.array(theirs) > 1) - np.mean(np.array(mine) > 1)) <= 0.25
    return Check("corrections above 1 point, CIFAR-10 (shares within 25 points)", *said, near, OTHER)


def _overlap(known: list[dict[str, Any]], ours: Table, ood: str) -> Check:
    """Section 4.5.1: "the top methods cannot be distinguished", because the bounds of several overlap."""
    column = _column(known, "CIFAR-10", ood)
    theirs = tied({name: (row["auroc"], row["conservative"], row["permissive"]) for name, row in column.items()})
    mine = tied(_intervals(ours, ood))
    said = [f"{'yes' if len(names) > 1 else 'no'}: {len(names)} of {total}, {', '.join(names)}"
            for names, total in ((theirs, 18), (mine, 14))]  # fmt: skip
    return Check(f"bounds of another detector overlap those of the best, CIFAR-10, {ood}", *said,
                 (len(theirs) > 1) == (len(mine) > 1), OTHER)  # fmt: skip


def _ratio(paper: list[dict[str, Any]], rows: list[dict[str, Any]], dataset: str = "CIFAR") -> Check:
    """Corrections at delta 0.01 over those at 0.05: the same in every column if the same band was used."""
    size: dict[Any, dict[int, float]] = {}
    for row in paper:
        if row["dataset"].startswith(dataset):
            key = row["dataset"], row["ood"], row["detector"]
            size.setdefault(key, {})[row["table"]] = row["auroc"] - row["conservative"]
    theirs = np.median([pair[1] / pair[3] for pair in size.values()])
    mine = correction(rows, DELTAS[1], SIZES[-1]) / correction(rows, DELTAS[3], SIZES[-1])
    return Check(f"correction of Table 1 over that of Table 3, {dataset} columns", f"{theirs:.2f}", f"{mine:.2f}",
                 abs(theirs - mine) <= 0.03, "guess: another correction or number of inliers in the ImageNet-200 "
                 "columns of Table 1, as in Table 4")  # fmt: skip


def _fewer(rows: list[dict[str, Any]], delta: float) -> Check:
    """Section 4.5.2: with fewer points the correction is larger. Here: by the root of n."""
    sizes = {n: correction(rows, delta, n) for n in SIZES}
    slope = np.polyfit(np.log(SIZES), np.log(list(sizes.values())), 1)[0]
    said = ", ".join(f"{value:.2f} at n = {n:,}" for n, value in sizes.items())
    return Check("the fewer inliers, the larger the correction", "yes", f"{said}; power of n {slope:.2f}",
                 list(sizes.values()) == sorted(sizes.values(), reverse=True))  # fmt: skip


def committed() -> list[dict[str, Any]]:
    with (HERE / "results.csv").open(newline="", encoding="utf-8") as stream:
        text = ("detector", "set", "ood")
        return [{k: v if k in text else int(v) if k == "n" else float(v) for k, v in row.items()}
                for row in csv.DictReader(stream)]  # fmt: skip


if __name__ == "__main__":
    summary(committed(), HERE).write(HERE / "comparison.json")
