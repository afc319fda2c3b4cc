"""Time of all scores together against the slowest one, and the memory they need beyond the input.

    python benchmarks/bench_scores_together.py                 # 20,000 x 512 train, 4,000 test, 100 classes
    python benchmarks/bench_scores_together.py --full          # 50,000 x 512 train, 10,000 test

Times are CPU seconds over all threads, so that ratios hold on a busy machine. Memory is the peak that was
allocated while everything was fitted and scored, the input not counted.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings

import numpy as np

from caveat import CaveatWarning, Head, Outputs
from caveat.scores import applicable, score_all


def outputs(n: int, width: int, classes: int, seed: int) -> Outputs:
    """Float32 features of a Gaussian class mixture, with logits and a head."""
    means = np.random.default_rng(7).normal(size=(classes, width)).astype(np.float32)
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    features = np.abs(means[labels] + 2 * rng.normal(size=(n, width)).astype(np.float32))
    head = Head(means - means.mean(axis=0))
    return Outputs(features=features, labels=labels, logits=head.logits(features), head=head, check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="50,000 training and 10,000 test rows")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100)
    options = parser.parse_args()
    n_train, n_test = (50_000, 10_000) if options.full else (20_000, 4_000)
    train = outputs(n_train, options.width, options.classes, 0)
    test = outputs(n_test, options.width, options.classes, 1)
    warnings.simplefilter("ignore", CaveatWarning)

    alone = {}
    for name, score in applicable(train, test)[0].items():
        start = time.process_time()
        score.fit(train).score(test)
        alone[name] = time.process_time() - start
    dearest = max(alone, key=lambda name: alone[name])
    start = time.process_time()
    score_all(train, test)
    together = time.process_time() - start
    tracemalloc.start()
    score_all(train, test)
    peak = tracemalloc.get_traced_memory()[1]
    given = sum(array.nbytes for o in (train, test) for array in (o.features, o.logits, o.labels))

    for name, seconds in sorted(alone.items(), key=lambda item: -item[1])[:8]:
        print(f"{name:22} {seconds:7.2f} CPU s alone (fit and score)")
    print(f"{len(alone)} scores one by one {sum(alone.values()):.2f} CPU s, together {together:.2f}: "
          f"{together / alone[dearest]:.2f} x the dearest ({dearest})")  # fmt: skip
    print(f"peak memory above the input: {peak / 2**20:.0f} MiB = {peak / given:.2f} x the input")


if __name__ == "__main__":
    main()
