"""How often DeLong's 95 % interval covers the AAUC, by simulation: ``coverage.csv``.

    python studies/certified/coverage.py

Inliers are uniform on (0, 1), so the true area of an outlier with confidence c is 1 - c. Two kinds of attacked
outliers: ``spread``, confidences of a beta distribution; ``all or nothing``, an attack that lifts a share of the
outliers among the most confident inliers and leaves the others below all of them, as attacks on flat networks do.
Needs no data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.result_tables import write_csv
from caveat.metrics.auroc_intervals import auroc_interval

INLIERS, TRIALS, SEED = 2000, 1000, 0
OUTLIERS, AREAS, KINDS = (40, 100, 200), (0.4, 0.8, 0.95, 0.99), ("spread", "all or nothing")


def attacked(kind: str, area: float, m: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Confidences (m,) whose true area is ``area``: their mean is 1 - area."""
    if kind == "spread":
        return rng.beta(2 * (1 - area), 2 * area, m)
    return np.where(rng.random(m) < (1 - area) / 0.98, rng.uniform(0.96, 1.0, m), 0.0)


def one(kind: str, area: float, m: int, *, inliers: int = INLIERS, trials: int = TRIALS) -> dict[str, Any]:
    """Share of the trials whose interval covers the area, and the mean width."""
    rng, hits, width = np.random.default_rng([SEED, m, round(1000 * area)]), 0, 0.0
    for _ in range(trials):
        found = auroc_interval(inlier=-rng.random(inliers), outlier=-attacked(kind, area, m, rng))
        hits += found.lower <= area <= found.upper
        width += (found.upper - found.lower) / trials
    return {"kind": kind, "area": area, "outliers": m, "inliers": inliers, "trials": trials,
            "coverage": f"{hits / trials:.3f}", "mean width": f"{width:.3f}"}  # fmt: skip


if __name__ == "__main__":
    rows = [one(kind, area, m) for kind in KINDS for area in AREAS for m in OUTLIERS]
    write_csv(rows, Path(__file__).parent / "coverage.csv")
