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
from kept import RUNS, kept, write_runs  # in this folder

from caveat._internal.files import replacing_file
from caveat.stats import compare
from caveat.study.agreement import Agreement, Check, Part, compare_findings, compare_numbers


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    write_runs(rows, out / "runs.csv")
    with replacing_file(out / "tables.md") as temporary:
        temporary.write_text(tables.markdown(rows, out), encoding="utf-8")
    return agreement(rows)


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    ours, known, seeds = tables.means(rows, "auroc"), tables.published(), defaultdict(list)
    for row in rows:
        seeds[row["set"], row["detector"]].append(row["auroc"])
    small, anomalies = {row["set"] for row in rows if row["resampled"]}, {row["set"]: row["m"] for row in rows}
    parts = []
    for detector in tables.DETECTORS:
        pairs = []
        for name in sorted({s for s, d in ours if d == detector and (s, d) in known}, key=str.lower):
            paper = known[name, detector][0]
            why = tables.reason(name, detector, seeds[name, detector], paper, anomalies[name], resampled=name in small)
            pairs.append((f"{detector}, {name}", paper, ours[name, detector], why))
        if pairs:
            slack = 0.005  # published with two decimals
            parts.append(compare_numbers(f"Table 6, AUROC of {detector}", pairs, tolerance=tables.CLOSE, slack=slack))
    return Agreement((*parts, _findings(rows, ours)))


def _findings(rows: list[dict[str, Any]], ours: dict[tuple[str, str], float]) -> Part:
    whole = tables.on_every_set(ours)
    long = [{"set": s, "detector": d, "auroc": value} for (s, d), value in ours.items() if d in whole]
    result = compare(long, lower_is_better=False, block="set", method="detector", value="auroc")
    apart = [f"{a} and {b}" for a, b in itertools.combinations(whole, 2) if not result.tied(a, b)]
    said = f"{len(apart)} of {len(whole) * (len(whole) - 1) // 2} pairs differ: {', '.join(apart)}" if apart else "none"
    return compare_findings(
        "What is said of Tables 7 and 8",
        [
            Check("detectors that can be told apart", "none", said, not apart,
                  "guess: another test than the paper's; ranks over all sets show more than bounds per set"),
            _correction(rows),
        ],
    )  # fmt: skip


def _correction(rows: list[dict[str, Any]]) -> Check:
    """Rank correlation, over sets, of the correction with the number of inliers that it is computed from."""
    _, rank = tables.correction_ranks(rows)
    paper, ours = rank["published", "inliers"], rank["ours", "inliers"]
    return Check(
        "rank correlation of the correction with the number of inliers", f"{paper:.2f}", f"{ours:.2f}",
        abs(paper - ours) <= 0.1,
        "the bound is on the false-positive rate, which depends on inliers only; the published corrections follow the "
        f"number of anomalies instead ({rank['published', 'outliers']:.2f})",
    )  # fmt: skip


if __name__ == "__main__":
    summary(kept(), RUNS.parent).write(RUNS.parent / "comparison.json")
