"""COF and SOD against PyOD's, on one batch: CPU seconds of ``fit`` and ``decision_function`` together.

    python benchmarks/bench_outlier_detectors.py [--rows 2000] [--columns 30]

PyOD scores the training rows in ``fit`` and keeps nothing of it that ``decision_function`` reads. Its SOD is compiled
by numba; a first call on few rows keeps that out of the time.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from pyod.models.cof import COF as PyodCOF
from pyod.models.sod import SOD as PyodSOD

from caveat.scores.cof import COF
from caveat.scores.sod import SOD


def seconds(detector: Any, train: np.ndarray, test: np.ndarray) -> float:
    started = time.process_time()
    detector.fit(train).decision_function(test)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--columns", type=int, default=30)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(2, asked.rows, asked.columns))
    print(f"{asked.rows} training and {asked.rows} test rows, {asked.columns} columns")
    for own, theirs in ((COF(), PyodCOF()), (SOD(), PyodSOD())):
        seconds(theirs, train[:50], test[:50])
        seconds(own, train[:50], test[:50])
        ours, pyods = seconds(own, train, test), seconds(theirs, train, test)
        print(f"{type(own).__name__:<4} {ours:8.2f} s, PyOD {pyods:8.2f} s: {pyods / ours:.0f} times faster")


if __name__ == "__main__":
    main()
