"""AUROC with betting bounds, at a million inliers and a million outliers.

    python benchmarks/bench_betting.py

Floor: one sort of the inliers in the same run. Wanted: at most 10 sorts.
"""

from __future__ import annotations

import numpy as np
from timing import take_turns

from caveat.metrics import conformal_auroc

ROWS, REPEATS = 1_000_000, 5


def main() -> None:
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(size=ROWS), rng.normal(1.5, size=ROWS)
    tied = {"inlier": np.round(inlier, 2), "outlier": np.round(outlier, 2)}
    seconds = take_turns(
        {"sort": lambda: np.sort(inlier),
         "betting": lambda: conformal_auroc(inlier=inlier, outlier=outlier, method="betting"),
         "betting, ties": lambda: conformal_auroc(**tied, method="betting")},
        REPEATS,
    )  # fmt: skip
    for name in ("betting", "betting, ties"):
        print(f"conformal_auroc, {name}, {ROWS:,} + {ROWS:,}: {seconds[name] / seconds['sort']:.2f} sorts "
              f"({seconds[name]:.3f} s)")  # fmt: skip


if __name__ == "__main__":
    main()
