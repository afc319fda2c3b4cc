"""Full conformal nearest neighbors: incremental neighbor lists against refitting the bag for every object and label.

Refitting is made as fast as possible: the distances of the training bag are computed once, and the
neighbors of a bag are found by one vectorized partition. It is timed on a few test objects and scaled up.

    OMP_NUM_THREADS=1 python benchmarks/bench_full_knn.py [--train 3000] [--test 200] [--k 10]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from caveat.conformal import Euclidean, FullKNN


def refit(gaps: np.ndarray, labels: np.ndarray, new: np.ndarray, label: int, k: int) -> np.ndarray:
    """KNN-ratio of every example of the bag with one more example."""
    n = labels.size
    whole = np.full((n + 1, n + 1), np.inf)
    whole[:n, :n] = gaps
    whole[n, :n] = whole[:n, n] = new
    bag = np.append(labels, label)
    alike = bag[:, None] == bag
    other = np.partition(np.where(alike, np.inf, whole), k - 1, axis=1)[:, :k].sum(axis=1)
    same = np.partition(np.where(alike, whole, np.inf), k - 1, axis=1)[:, :k].sum(axis=1)
    return np.asarray(other / same)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--test", type=int, default=200)
    parser.add_argument("--k", type=int, default=10)
    options = parser.parse_args()
    rng, classes = np.random.default_rng(0), 10
    labels = rng.integers(0, classes, options.train)
    centers = 2 * rng.normal(size=(classes, 64))
    x = centers[labels] + rng.normal(size=(options.train, 64))
    test = centers[rng.integers(0, classes, options.test)] + rng.normal(size=(options.test, 64))

    start = time.process_time()
    found = FullKNN("ratio", k=options.k).fit(x, labels).p_values(test)
    ours = time.process_time() - start

    space = Euclidean()
    state = space.prepare(x)
    gaps = space.distances(state, state)
    np.fill_diagonal(gaps, np.inf)
    new = space.distances(space.prepare(test[:2]), state)
    start, worst = time.process_time(), 0.0
    for t in range(2):
        for c in range(classes):
            alpha = refit(gaps, labels, new[t], c, options.k)
            worst = max(worst, abs(np.mean(alpha <= alpha[-1]) - found[t, c]))
    theirs = (time.process_time() - start) / 2 * options.test
    print(f"{options.train} training and {options.test} test objects, {classes} labels, k = {options.k}, CPU s")
    print(f"incremental {ours:.2f} (fit included), refitting {theirs:.0f}: {theirs / ours:.0f} times faster")
    print(f"largest difference of a p-value: {worst:.1e}")


if __name__ == "__main__":
    main()
