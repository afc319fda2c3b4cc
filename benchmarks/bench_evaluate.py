"""A whole evaluation against what it cannot do without: fitting, scoring, and sorting every score once.

    OMP_NUM_THREADS=1 python benchmarks/bench_evaluate.py [rows]

Nine scores on 100,000 test rows and two outlier sets of half as many. One line for outputs with features and training
rows, and one for logits alone, where scores cost next to nothing. CPU seconds; the calls alternate.
"""

from __future__ import annotations

import sys

import numpy as np
from timing import take_turns

from caveat import Head, Outputs, evaluate
from caveat.scores import make
from caveat.scores.together import fit_all

CLASSES, WIDTH = 10, 128
SETS = {
    "features": ("msp", "entropy", "energy", "max_logit", "mahalanobis", "residual", "vim", "react", "fdbd"),
    "logits": ("msp", "entropy", "energy", "max_logit", "gen", "renyi", "guessing", "collision", "tempscale"),
}


def outputs(n: int, shift: float, seed: int, *, features: bool, labels: bool = True) -> Outputs:
    """Rows around the class means, moved away from all of them by ``shift``."""
    rng = np.random.default_rng(seed)
    means = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    label = rng.integers(CLASSES, size=n)
    rows = rng.standard_normal((n, WIDTH), dtype=np.float32) * 3
    rows += (1 - shift) * means[label] + shift * rng.standard_normal((1, WIDTH), dtype=np.float32)
    head = Head(means / 4, np.zeros(CLASSES, dtype=np.float32))
    logits = rows @ head.weight.T
    fields = {"features": rows, "head": head} if features else {}
    return Outputs(logits=logits, labels=label if labels else None, **fields)


def main(n: int = 100_000) -> None:
    for kind, names in SETS.items():
        features = kind == "features"
        parts = {"train": outputs(n // 2, 0, 1, features=features), "inlier": outputs(n, 0, 2, features=features),
                 "calibration": outputs(n // 10, 0, 3, features=features)}  # fmt: skip
        outliers = {name: outputs(n // 2, shift, 4, features=features, labels=False)
                    for name, shift in (("near", 0.5), ("far", 1.0))}  # fmt: skip

        def floor(parts=parts, outliers=outliers, names=names) -> None:
            scores = [make(name).without_class_scores() for name in names]
            fit_all(scores, parts["train"], parts["calibration"])
            for score in scores:
                for rows in (parts["inlier"], parts["calibration"], *outliers.values()):
                    np.sort(score.score(rows))

        def whole(parts=parts, outliers=outliers, names=names) -> None:
            evaluate(**parts, outliers=outliers, scores=names)

        whole()  # bands are kept on disk, and imports are done once
        seconds = take_turns({"fit, score, sort": floor, "evaluate": whole}, 3)
        ratio = seconds["evaluate"] / seconds["fit, score, sort"]
        print(f"{kind}, {len(names)} scores, n = {n}: evaluate {seconds['evaluate']:.2f} s, fit, score and sort "
              f"{seconds['fit, score, sort']:.2f} s, {ratio:.2f} x (wanted: within 3)", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
