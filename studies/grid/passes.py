"""More dropout passes: ``passes.csv``, the best AUGRC x 1000 at rest, with ten and with fifty passes.

    CAVEAT_DATA=<folder> caveat study studies/grid/passes.toml --out runs/grid    # after caveat reproduce grid
    python studies/grid/passes.py runs/grid

VGG-13 networks with dropout, seed 0: the lowest AUGRC of all paradigms and scores for the own errors and each of the
outlier sets. The two calls must follow each other, because a store keeps the results of the plan that ran last.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from caveat._internal.result_tables import write_csv

WAYS = {"": "at rest", "10 passes": "10 passes", "50 passes": "50 passes"}


def best(results: Path) -> list[dict[str, str]]:
    """One row for each set: the lowest AUGRC of every way to ask the networks."""
    lowest: dict[tuple[str, str], dict[str, float]] = {}
    with results.open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["metric"] != "augrc":
                continue
            data, *rest = row["model"].split("/")
            way = WAYS[next((part for part in rest if part.endswith("passes")), "")]
            values = lowest.setdefault((data, row["outlier"] or "test"), {})
            values[way] = min(values.get(way, float("inf")), 1000 * float(row["value"]))
    return [{"set": data, "outliers": outlier, **{way: f"{values[way]:.2f}" for way in WAYS.values()}}
            for (data, outlier), values in lowest.items()]  # fmt: skip


if __name__ == "__main__":
    write_csv(best(Path(sys.argv[1]) / "results.csv"), Path(__file__).parent / "passes.csv")
