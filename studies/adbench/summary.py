"""Tables, figures and ``runs.csv`` from the rows of the study, and how many of the published AUROCs are reproduced.

As a script, from the runs of ``runs.csv`` alone, into this folder:

    python studies/adbench/summary.py
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import tables  # in this folder
from cells import TEXT, above_cap, cells  # in this folder
from kept import RUNS, kept, write_runs  # in this folder

from caveat._internal.files import replacing_file
from caveat._internal.result_tables import write_csv
from caveat.stats import compare
from caveat_lab.papers.agreement import Agreement, Check, Part, compare_findings, compare_numbers, within

TOO_LARGE = ("most or all of these corrections are larger than a band of the paper's form on the inliers of the test "
             "part can give; what set their size is not known")  # fmt: skip
AREA = "the AUROC itself is another one: see Table 6"
SMALLER = "guess: the published form is wider than the exact band, and the published corrections are larger throughout"


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    write_runs(rows, out / "runs.csv")
    write_csv(cells(rows), out / "cells.csv")
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text(tables.markdown(rows, out), encoding="utf-8")
    return agreement(rows)


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    lines, seeds = cells(rows), defaultdict(list)
    for row in rows:
        seeds[row["set"], row["detector"]].append(row["auroc"])
    small, anomalies = {row["set"] for row in rows if row["resampled"]}, {row["set"]: row["m"] for row in rows}
    parts, slack = [], tables.HALF_DIGIT
    for detector in tables.DETECTORS:
        pairs = []
        for line in sorted(lines, key=lambda line: str(line["set"]).lower()):
            name, paper = line["set"], line["published_auroc"]
            if line["detector"] == detector and name != TEXT:
                why = tables.reason(name, detector, seeds[name, detector], paper, anomalies[name],
                                    resampled=name in small)  # fmt: skip
                pairs.append((f"{detector}, {name}", paper, line["auroc"], why))
        parts.append(compare_numbers(f"Table 6, AUROC of {detector}", pairs, tolerance=tables.CLOSE, slack=slack))
    text = [(f"{line['detector']}, {TEXT}", line["published_auroc"], line["auroc"],
             tables.reason(TEXT, line["detector"], [line["auroc"]], line["published_auroc"], line["m"], resampled=True))
            for line in lines if line["set"] == TEXT]  # fmt: skip
    parts.append(compare_numbers(f"Table 6, {TEXT} (BERT, seed 1)", text, tolerance=tables.CLOSE, slack=slack))
    parts += [_by_set(7, "conformal", lines), _by_set(8, "correction", lines)]
    return Agreement((*parts, *_findings(rows)))


def _by_set(table: int, column: str, lines: list[dict[str, Any]]) -> Part:
    """All cells of Table 7 or 8; what differs is listed by set, with the range of its detectors (cells.csv has all)."""
    gaps = {}
    for line in lines:
        gaps.setdefault(line["set"], []).append((line, abs(line[column] - line[f"published_{column}"])))
    checks, agree = [], 0
    for name, pairs in gaps.items():
        off = [line for line, gap in pairs if gap > tables.LIMIT + 1e-9]
        agree += len(pairs) - len(off)
        if off:
            said = [f"{min(values):.2f} to {max(values):.2f}" for values in
                    ([line[key] for line in off] for key in (f"published_{column}", column))]  # fmt: skip
            over = sum(above_cap(line) for line in off)
            what = f"Table {table}, {name}, {len(off)} of {len(pairs)} detectors"
            why = TOO_LARGE if 2 * over > len(off) else AREA if table == 7 and _areas_differ(off) else SMALLER
            checks.append(Check(what, said[0], f"{said[1]} ({pairs[0][0]['n']} inliers)", False, why))
    largest = max(gap for pairs in gaps.values() for _, gap in pairs)
    rule = within(tables.CLOSE, slack=tables.HALF_DIGIT)
    return Part(f"Table {table}, all cells", rule, len(lines), agree, round(largest, 6), tuple(checks))


def _areas_differ(lines: list[dict[str, Any]]) -> bool:
    return all(abs(line["auroc"] - line["published_auroc"]) > tables.CLOSE for line in lines)


def _findings(rows: list[dict[str, Any]]) -> tuple[Part, ...]:
    ours = tables.means(rows, "auroc")
    whole = tables.on_every_set(ours)
    long = [{"set": s, "detector": d, "auroc": value} for (s, d), value in ours.items() if d in whole]
    result = compare(long, lower_is_better=False, block="set", method="detector", value="auroc")
    pairs = len(tables.DETECTORS) * (len(tables.DETECTORS) - 1) // 2
    ranks = [(a, b) for a, b in itertools.combinations(whole, 2) if not result.tied(a, b)]
    bounds = tables.overlaps(rows)
    told = Check(
        "pairs of detectors that can be told apart", "none: bounds overlap",
        f"by overlap of the mean bounds {len(bounds)} of {pairs}: {_named(bounds)}; by a rank test over all sets "
        f"{len(ranks)} of {pairs}: {_named(ranks)}",
        not bounds, "the published corrections are 1.2 to 16 times larger than ours, by set; with them no pair differs",
    )  # fmt: skip
    return (
        compare_findings("Figure 3, which detectors differ", [told]),
        compare_findings("Correction against the number of inliers", [_correction(rows)]),
    )


def _named(pairs: list[tuple[str, str]]) -> str:
    return ", ".join(f"{a} and {b}" for a, b in pairs) or "none"


def _correction(rows: list[dict[str, Any]]) -> Check:
    """Rank correlation, over sets, of the correction with the number of inliers that it is computed from."""
    _, rank = tables.correction_ranks(rows)
    _, few = tables.correction_ranks(rows, fewer_anomalies_than=tables.FEW)
    paper, ours = rank["published", "inliers"], rank["ours", "inliers"]
    return Check(
        "rank correlation of the correction with the number of inliers", f"{paper:.2f}", f"{ours:.2f}",
        abs(paper - ours) <= 0.1,
        "the bound is on the false-positive rate, which depends on inliers only. The published corrections have "
        f"{rank['published', 'outliers']:.2f} with the number of anomalies over all sets, "
        f"{few['published', 'outliers']:+.2f} over those with fewer than {tables.FEW}",
    )  # fmt: skip


if __name__ == "__main__":
    summary(kept(), RUNS.parent).write(RUNS.parent / "comparison.json")
