"""Tables 6 to 8 cell by cell: published, ours, and the largest correction that the test part allows.

Table 8 is Table 6 less Table 7, in print to 0.01. A correction of the paper's form, min(simes, asymptotic) at delta,
cannot exceed a cap that depends on the AUROC and the number of calibration points (``caveat.metrics._caps``). It is
computed for the inliers of the test part, on which the band is built, and for its anomalies.

The row "20news 3" is that of BERT embeddings with seed 1 alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from kept import published  # in this folder
from numpy.typing import NDArray
from protocol import DELTA  # in this folder
from tables import DETECTORS, means  # in this folder

from caveat.conformal import boundary
from caveat.metrics._caps import correction_cap

TEXT, TEXT_KEY, TEXT_SEED = "20news 3", "20news 3 bert", 1
ROUNDING = 0.01  # of a difference of two numbers with two decimals


@cache
def _bound(n: int) -> NDArray[np.float64]:
    """The boundary of the paper's other tables; the asymptotic one needs 16 points."""
    simes = boundary(n, DELTA, "simes")
    return np.minimum(simes, boundary(n, DELTA, "asymptotic")) if n >= 16 else simes


def cells(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per common set and detector, in the order of the published tables."""
    text = [row | {"set": TEXT} for row in runs if row["set"] == TEXT_KEY and row["seed"] == TEXT_SEED]
    runs = [*runs, *text]
    ours = {column: means(runs, column) for column in ("auroc", "lower")}
    sizes = {side: {name: min(row[side] for row in runs if row["set"] == name) for name in {r["set"] for r in runs}}
             for side in ("n", "m")}  # fmt: skip
    lines = []
    for (name, detector), (auroc, lower) in published().items():
        if (name, detector) not in ours["auroc"] or detector not in DETECTORS:
            continue
        n, m = sizes["n"][name], max(2, sizes["m"][name])
        value, bound = ours["auroc"][name, detector], ours["lower"][name, detector]
        lines.append({
            "set": name, "detector": detector, "n": n, "m": m, "published_auroc": auroc, "auroc": round(value, 4),
            "published_conformal": lower, "conformal": round(bound, 4), "published_correction": round(auroc - lower, 2),
            "correction": round(value - bound, 4), "cap_inliers": round(correction_cap(auroc, _bound(n)), 4),
            "cap_anomalies": round(correction_cap(auroc, _bound(m)), 4),
        })  # fmt: skip
    return lines


def above_cap(line: dict[str, Any], side: str = "inliers") -> bool:
    """Whether the published correction is larger than a band on so many points can give, beyond rounding."""
    points = line["n" if side == "inliers" else "m"]
    return bool(line["published_correction"] > line[f"cap_{side}"] + ROUNDING + 1 / points + 1e-9)
