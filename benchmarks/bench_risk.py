"""The accept threshold with a promised error rate, at a million calibration rows.

    python benchmarks/bench_risk.py

Floor: one sort of the scores in the same run. Wanted: at most 3 sorts.
"""

from __future__ import annotations

import numpy as np
from timing import take_turns

from caveat.conformal import threshold_for_risk

ROWS, REPEATS = 1_000_000, 5


def main() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(ROWS)
    correct = rng.random(ROWS) > score / 5
    seconds = take_turns(
        {"sort": lambda: np.sort(score),
         "threshold": lambda: threshold_for_risk(score=score, correct=correct, risk=0.05, delta=0.05)},
        REPEATS,
    )  # fmt: skip
    print(f"threshold_for_risk, n = {ROWS:,}: {seconds['threshold'] / seconds['sort']:.2f} sorts")


if __name__ == "__main__":
    main()
