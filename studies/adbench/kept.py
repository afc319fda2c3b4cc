"""The stored runs: one line each in ``runs.csv``. The published numbers: one line per set and detector."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from caveat._internal.result_tables import write_csv

RUNS = Path(__file__).parent / "runs.csv"
COLUMNS = ("set", "detector", "seed", "n", "m", "auroc", "lower", "upper", "resampled", "seconds", "failure")


def kept() -> list[dict[str, Any]]:
    """The runs in ``runs.csv``; none if there is no such file."""
    if not RUNS.exists():
        return []
    with RUNS.open(encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    numbers, counts = ("auroc", "lower", "upper", "seconds"), ("seed", "n", "m")
    return [
        line
        | {name: float(line[name]) for name in numbers}
        | {name: int(line[name]) for name in counts}
        | {"resampled": line["resampled"] == "True"}
        for line in lines
    ]


def published() -> dict[tuple[str, str], tuple[float, float]]:
    """(set, detector) -> AUROC and conformal AUROC of the paper's Tables 6 and 7."""
    with (RUNS.parent / "published.csv").open(encoding="utf-8") as stream:
        return {(r["set"], r["detector"]): (float(r["auroc"]), float(r["conformal_auroc"]))
                for r in csv.DictReader(stream)}  # fmt: skip


def write_runs(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write runs in the order of set, detector and seed."""
    ordered = sorted(rows, key=lambda row: (row["set"], row["detector"], row["seed"]))
    write_csv([{k: f"{row[k]:.6g}" if isinstance(row[k], float) else row[k] for k in COLUMNS} for row in ordered], path)
