"""Verdicts of a guard, one row and 256 rows at a time, with D = 512 features and 10,000 calibration rows.

    python benchmarks/bench_guard.py

Floor: the score alone, and the bare product of the rows with a D x D matrix, in the same run.
"""

from __future__ import annotations

import numpy as np
from timing import take_turns

from caveat import Guard, Outputs

FEATURES, CLASSES, REPEATS = 512, 100, 50


def main() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(15_000, FEATURES)).astype(np.float32)
    train = Outputs(features=rows[:5000], labels=rng.integers(CLASSES, size=5000))
    guard = Guard("mahalanobis", sets=None).fit(train).calibrate(Outputs(features=rows[5000:]))
    matrix = rng.normal(size=(FEATURES, FEATURES)).astype(np.float32)
    for n in (1, 256):
        outputs = Outputs(features=rows[:n] + 0.1)
        seconds = take_turns(
            {"product": lambda outputs=outputs: outputs.features @ matrix,
             "score": lambda outputs=outputs: guard.statistic_.score(outputs),
             "guard": lambda outputs=outputs: guard(outputs)},
            REPEATS,
        )  # fmt: skip
        print(f"{n:>3} rows: {1e3 * seconds['guard']:.2f} ms, {seconds['guard'] / seconds['score']:.2f} x the score, "
              f"{seconds['guard'] / seconds['product']:.1f} x the product")  # fmt: skip


if __name__ == "__main__":
    main()
