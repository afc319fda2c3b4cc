"""Do projected features bring GradNorm and kernel PCA to the top for the small ViT? ``projected.csv``.

    CAVEAT_DATA=<folder> caveat study studies/grid/projected.toml --out runs/projected --jobs 2
    python studies/grid/projected.py runs/projected

Section 4.4 of the paper has GradNorm and kernel PCA, with global and class-predicted projections, in most top cliques
of its ViT for near, mid and far outliers. Blocks are a network and an outlier set; every score is ranked as it is, and
with each projection, as a method of its own.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from choices import CLASSES, network  # in this folder

from caveat._internal.result_tables import write_csv
from caveat.stats import compare

HERE = Path(__file__).parent
NAMED = ("gradnorm", "kpca_error")
REGIMES = ("near", "mid", "far")


def read(folder: Path) -> list[dict[str, Any]]:
    """AUGRC by block and method, from the table of a finished study."""
    with (folder / "results.csv").open(newline="", encoding="utf-8") as stream:
        return [
            {"data": network(row["model"]).data, "regime": row["regime"], "block": f"{row['model']} {row['outlier']}",
             "method": row["method"], "value": 1000 * float(row["value"])}
            for row in csv.DictReader(stream) if row["metric"] == "augrc" and row["regime"] in REGIMES
        ]  # fmt: skip


def cliques(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each in-distribution set and regime: the top clique, and the best place of the two named scores."""
    found = []
    for data in CLASSES:
        for regime in REGIMES:
            part = [row for row in rows if (row["data"], row["regime"]) == (data, regime)]
            if not part:
                continue
            result = compare(part, block=["block"], method="method", value="value")
            plain = [row for row in part if " " not in row["method"]]
            alone = compare(plain, block=["block"], method="method", value="value")
            row = {"set": data, "regime": regime, "blocks": result.n_blocks, "methods": len(result.methods)}
            for name in NAMED:
                best = next(method for method in result.methods if method.split()[0] == name)
                row |= {f"{name}: best form": best, f"{name}: place": result.methods.index(best) + 1,
                        f"{name}: in the top clique": any(m.split()[0] == name for m in result.layers[0]),
                        f"{name}: without projections": name in alone.layers[0]}  # fmt: skip
            found.append(row | {"top clique": ", ".join(result.layers[0])})
    return found


if __name__ == "__main__":
    write_csv(cliques(read(Path(sys.argv[1]))), HERE / "projected.csv")
