"""The accept threshold with a promised error rate, at a million calibration rows, and the control of any loss.

    python benchmarks/bench_risk.py

Floors in the same run: one sort of the scores (wanted: at most 3 sorts); the mean losses of the table.
"""

from __future__ import annotations

import numpy as np
from timing import take_turns

from caveat.conformal import control_risk, threshold_for_risk

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

    lambdas = np.linspace(0, 1, 100)
    losses = np.stack([np.searchsorted(row, 1 - lambdas, "right") for row in np.sort(rng.random((5000, 5)))]) / 5
    calls = {
        "mean": lambda: losses.mean(axis=0).max(),
        "crc": lambda: control_risk(losses, lambdas, alpha=0.1),
        "hoeffding_bentkus": lambda: control_risk(losses, lambdas, alpha=0.1, delta=0.1, method="hoeffding_bentkus"),
        "wsr": lambda: control_risk(losses, lambdas, alpha=0.1, delta=0.1),
    }
    seconds = take_turns(calls, 4 * REPEATS)
    for name in ("crc", "hoeffding_bentkus", "wsr"):
        print(f"control_risk, 5,000 x 100 losses, {name}: {1e3 * seconds[name]:.2f} ms, "
              f"{seconds[name] / seconds['mean']:.1f} x the mean losses")  # fmt: skip


if __name__ == "__main__":
    main()
