"""Wall time of scores on row blocks in threads against the same blocks one after the other.

    python benchmarks/bench_scores_threads.py [--rows 20000] [--classes 1000]

BLAS uses threads on both sides; without our threads only the matrix products run in parallel.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from timing import take_turns

from caveat import Outputs
from caveat.scores import Score, make

NAMES = ("max_logit", "msp", "energy", "entropy", "gen", "guessing", "kl_matching")


def one_by_one(score: Score, outputs: Outputs) -> None:
    kind, before = type(score), score.in_threads
    kind.in_threads = False
    try:
        score.score(outputs)
    finally:
        kind.in_threads = before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=8)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    train, test = (Outputs(logits=3 * rng.standard_normal((asked.rows, asked.classes), np.float32)) for _ in range(2))
    print(f"{asked.rows} x {asked.classes} float32 logits; ms on the wall")
    print(f"{'score':<14}{'one by one':>12}{'threads':>10}{'gain':>8}")
    for name in NAMES:
        score = make(name).fit(train)
        calls = {
            "one by one": lambda score=score: one_by_one(score, test),
            "threads": lambda score=score: score.score(test),
        }
        took = take_turns(calls, asked.repeats, time.perf_counter)
        alone, threads = took["one by one"], took["threads"]
        print(f"{name:<14}{1e3 * alone:>12.1f}{1e3 * threads:>10.1f}{alone / threads:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
