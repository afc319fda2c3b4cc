"""A row has one score in any batch: what that costs for 1, 64 and 4,096 rows, for every score of features or logits.

    python benchmarks/bench_batches.py                 # 20,000 x 512 train, 100 classes, float32
    python benchmarks/bench_batches.py --scores vim,knn

Microseconds of CPU of a whole call, the least of ``--repeat`` rounds. For 4,096 rows of the scores that multiply rows
with a matrix also the ratio to their bare products in float32 and in float64, in the same run. A product in float64
costs two in float32, and one row costs a block of four: kernels copy the whole matrix for it.
"""

from __future__ import annotations

import argparse

import numpy as np
from bench_scores_features import outputs, products
from threadpoolctl import threadpool_limits
from timing import least

from caveat.scores import catalogue

MULTIPLY = {
    *("mahalanobis", "relative_mahalanobis", "knn", "ctm", "ctm_mean", "kpca_error"),
    *("residual", "vim", "neco", "pca_error"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scores", default="")
    parser.add_argument("--train", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    chosen = set(options.scores.split(",")) if options.scores else None
    train, test = outputs(options.train, 512, 100, seed=1), outputs(4096, 512, 100, seed=2)
    wide = [part.features.astype(np.float64) for part in (train, test)]
    print(f"{'score':22}{'1 row':>9}{'64 rows':>10}{'4,096 rows':>12}{'float32':>9}{'float64':>9}")
    with threadpool_limits(1):
        for entry in catalogue():
            score = entry.score().without_class_scores()
            if (chosen and entry.name not in chosen) or score.missing(train=train, outputs=test):
                continue
            score.fit(train)
            times = [
                1e6 * least(lambda rows=test[:n], score=score: score.score(rows), options.repeat) for n in (1, 64, 4096)
            ]
            line = f"{entry.name:22}{times[0]:9.0f}{times[1]:10.0f}{times[2]:12.0f}"
            if entry.name in MULTIPLY:
                floor = 1e6 * least(products(score, train, test), options.repeat)
                double = [
                    type(part)(features=rows, head=part.head, check=False)
                    for part, rows in zip((train, test), wide, strict=True)
                ]
                floor64 = 1e6 * least(products(score, *double), options.repeat)
                line += f"{times[2] / floor:9.2f}{times[2] / floor64:9.2f}"
            print(line)


if __name__ == "__main__":
    main()
