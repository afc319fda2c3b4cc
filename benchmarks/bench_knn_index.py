"""Approximate neighbors (faiss IVF) against the exact search: time of 2,000 queries and recall.

    python benchmarks/bench_knn_index.py
    python benchmarks/bench_knn_index.py --rows 1000000

Clustered features, as those of a classifier are. Floor: the exact search in the same run.
"""

from __future__ import annotations

import argparse

import numpy as np
from timing import take_turns

from caveat import Outputs
from caveat.scores import KNN

WIDTH, CLASSES, QUERIES, K = 64, 100, 2000, 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="Rows of the bank.")
    rows = parser.parse_args().rows
    rng = np.random.default_rng(0)
    means = rng.normal(size=(CLASSES, WIDTH))

    def draw(n: int) -> Outputs:
        features = means[rng.integers(CLASSES, size=n)] + 0.5 * rng.normal(size=(n, WIDTH))
        return Outputs(features=features.astype(np.float32))

    train, queries = draw(rows), draw(QUERIES)
    exact = KNN(k=K).fit(train)
    indexes = {nprobe: KNN(k=K, index="ivf", clusters=512, nprobe=nprobe).fit(train) for nprobe in (1, 4, 16, 64)}
    calls = {"exact": lambda: exact.score(queries)}
    calls |= {str(nprobe): lambda score=score: score.score(queries) for nprobe, score in indexes.items()}
    seconds = take_turns(calls, 3)
    print(f"{rows:,} rows x {WIDTH}, k = {K}, 512 cells; exact: {seconds['exact']:.2f} s of processor time")
    for nprobe, score in indexes.items():
        faster = seconds["exact"] / seconds[str(nprobe)]
        size = score.index_bytes_ / 1e6
        print(f"  nprobe {nprobe:>2}: recall {score.recall_:.3f}, {faster:.1f} x faster, {size:.0f} MB")


if __name__ == "__main__":
    main()
