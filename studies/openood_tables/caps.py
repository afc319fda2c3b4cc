"""The largest correction of an AUROC that a band of n inliers can give, and the published cells above it.

The cap of the conservative bound is explained in ``caveat.metrics._caps``. The permissive one takes away at most
sqrt(log(2/delta) / 2n) of the false-positive rate and at most the rate itself. Both caps hold for means over several
outlier sets too.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.conformal import boundary
from caveat.metrics._caps import correction_cap

N = 9_000  # inliers that OpenOOD tests on, in all six columns
ROUNDING = 0.01  # percentage points: a difference of two numbers with two decimals
STEP = 100 / N  # one inlier more or less: an area by trapezoids may count it
HERE = Path(__file__).parent


def published() -> list[dict[str, Any]]:
    """Tables 1 and 3, in percent; Table 3 has no permissive bound (NaN)."""
    with (HERE / "published.csv").open(newline="", encoding="utf-8") as stream:
        return [
            {"table": int(row["table"]), "dataset": row["dataset"], "ood": row["ood"], "detector": row["detector"]}
            | {name: float(row[name] or "nan") for name in ("delta", "auroc", "conservative", "permissive")}
            for row in csv.DictReader(stream)
        ]


def conservative_cap(auroc: float, bound: NDArray[Any]) -> float:
    """Largest correction downwards, in percentage points, of an AUROC in percent by this boundary."""
    return 100 * correction_cap(auroc / 100, bound)


def permissive_cap(auroc: float, delta: float, n: int = N) -> float:
    """Largest correction upwards by the DKWM band, in percentage points."""
    return float(min(100 - auroc, 100 * np.sqrt(np.log(2 / delta) / (2 * n))))


def impossible(*, method: str = "published") -> list[dict[str, Any]]:
    """Published cells whose correction is above its cap; conservative ones by ``method``, permissive ones by DKWM."""
    found = []
    known: dict[float, NDArray[Any]] = {}
    for row in published():
        delta, auroc = row["delta"], row["auroc"]
        if delta not in known:
            names = ("simes", "asymptotic") if method == "published" else (method,)
            known[delta] = np.minimum.reduce([boundary(N, delta, name) for name in names])
        caps = {
            "conservative": (auroc - row["conservative"], conservative_cap(auroc, known[delta])),
            "permissive": (row["permissive"] - auroc, permissive_cap(auroc, delta)),
        }
        found += [
            row | {"side": side, "correction": round(correction, 2), "cap": round(cap, 3)}
            for side, (correction, cap) in caps.items()
            if correction > cap + STEP + ROUNDING + 1e-9
        ]
    return found
