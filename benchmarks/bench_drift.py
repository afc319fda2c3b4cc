"""Streaming drift evidence: the rank urn and its bettors, points a second on one core.

    python benchmarks/bench_drift.py

Floor: one sort of the stream in the same run. Wanted: at least 200,000 points a second.
"""

from __future__ import annotations

import numpy as np
from timing import take_turns

from caveat.drift import DriftAlarm, RankUrn

POINTS, REPEATS = 200_000, 3


def main() -> None:
    rng = np.random.default_rng(0)
    stream = rng.normal(size=POINTS)
    for n in (100, 1_000, 10_000, 100_000):
        calibration = rng.normal(size=n)
        seconds = take_turns(
            {"sort": lambda: np.sort(stream),
             "urn": lambda calibration=calibration: RankUrn(calibration).update(stream),
             "alarm": lambda calibration=calibration: DriftAlarm(calibration).update(stream)},
            REPEATS,
        )  # fmt: skip
        urn, alarm = (seconds[name] for name in ("urn", "alarm"))
        print(f"n = {n:>7,}: urn {POINTS / urn:>9,.0f} points/s, {urn / seconds['sort']:5.1f} sorts; "
              f"urn and bettors {POINTS / alarm:>9,.0f} points/s, {alarm / seconds['sort']:5.1f} sorts")  # fmt: skip


if __name__ == "__main__":
    main()
