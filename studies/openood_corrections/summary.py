"""corrections.csv from the rows of the study, and how many of the published corrections are reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from caveat.study.agreement import Agreement, Check, compare_findings, compare_numbers
from caveat.study.tables import write_csv


def summary(rows: list[dict[str, Any]], out: Path) -> Agreement:
    write_csv(rows, out / "corrections.csv")
    return agreement(rows)


def agreement(rows: list[dict[str, Any]]) -> Agreement:
    mean_of_four = ("the paper publishes means over four outlier sets, and the correction of a mean is larger than the "
                    "mean of the corrections; the rates per set are not published")  # fmt: skip
    parts = []
    for table in (4, 5):
        for ood in ("near", "far"):
            here = [row for row in rows if row["table"] == table and row["ood"] == ood]
            pairs = [
                (f"Table {table}, {row['dataset']}, {ood}, {row['detector']}", row["published"], row["reproduced"],
                 mean_of_four if ood == "far" else "")
                for row in here
            ]  # fmt: skip
            title = f"Table {table}, {ood} columns (CIFAR-10, CIFAR-100)"
            parts.append(compare_numbers(title, pairs, tolerance=0.05, unit="percentage points"))
    by_set = [
        (f"Table 5, {row['dataset']}, far, {row['detector']}, set by set", row["published"], row["by_set"], "")
        for row in rows
        if row["table"] == 5 and row["ood"] == "far"
    ]
    title = "Table 5, far columns, each of four sets corrected: one easier set, as found from Table 4"
    parts.append(compare_numbers(title, by_set, tolerance=0.05, unit="percentage points"))
    levels = {row["table"]: (row["promised_level"], row["exact_level"]) for row in rows}
    spends = "the paper takes the smaller of two boundaries, each at delta, which uses delta nearly twice"
    checks = [
        Check(f"Table {table}, level of the correction", f"{promised:.2f}", f"{exact:.5f}", exact >= promised, spends)
        for table, (promised, exact) in sorted(levels.items())
    ]
    parts.append(compare_findings("Promised level, computed exactly", checks, rule="the promise is kept"))
    return Agreement(tuple(parts))
