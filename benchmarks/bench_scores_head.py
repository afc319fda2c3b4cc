"""Scores from features and head against the bare matrix product that each contains, in one run.

python benchmarks/bench_scores_head.py                       # 50,000 x 512 train, 10,000 test, 100 classes
python benchmarks/bench_scores_head.py --train 5000 --classes 10
"""

from __future__ import annotations

import argparse

import numpy as np
from timing import least

from caveat import Head, Outputs
from caveat.scores import (
    ASH,
    DICE,
    FDBD,
    NCI,
    PNML,
    Energy,
    GradNorm,
    Mahalanobis,
    NNGuide,
    Projected,
    ReAct,
    Scale,
    Score,
)


def data(n: int, width: int, classes: int, seed: int) -> Outputs:
    means = np.random.default_rng(99).normal(size=(classes, width)).astype(np.float32)
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    features = np.maximum(means[labels] + rng.standard_normal((n, width), dtype=np.float32), 0)
    return Outputs(features=features, labels=labels, head=Head(means * np.float32(0.1), np.zeros(classes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=int, default=50_000)
    parser.add_argument("--test", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    train = data(asked.train, asked.width, asked.classes, seed=1)
    test = data(asked.test, asked.width, asked.classes, seed=2)
    weight = np.ascontiguousarray(test.head.weight.T)
    rows = test.features

    head = 1e3 * least(lambda: rows @ weight, asked.repeats)
    wide = np.ones((asked.width + 1, asked.width + 1))
    long_rows = np.ones((asked.test, asked.width + 1))
    gram = 1e3 * least(lambda: long_rows @ wide, asked.repeats)
    square = 1e3 * least(lambda: rows @ wide[1:, 1:].astype(np.float32), asked.repeats)
    bank = rows[: max(10, asked.train // 100)].T.copy()
    nearest = 1e3 * least(lambda: rows @ bank, asked.repeats)
    scatter = 1e3 * least(lambda: train.features.T @ train.features, asked.repeats)
    sort = 1e3 * least(lambda: np.partition(rows, asked.width // 2, axis=1), asked.repeats)
    floors = {
        "head": head,
        "head + partition": head + sort,
        "head + bank": head + nearest,
        "float64 square": gram,
        "square": square,
    }
    print(f"train {asked.train} x {asked.width}, test {asked.test}, {asked.classes} classes, float32")
    print(f"bare products, ms: head {head:.1f}, float64 {asked.width + 1} square {gram:.1f}, "
          f"float32 square {square:.1f}, bank {nearest:.1f}, partition {sort:.1f}, scatter {scatter:.1f}")  # fmt: skip
    print(f"{'score':28} {'fit ms':>9} {'score ms':>9} {'floor ms':>9} {'ratio':>6}  contains")

    lines: list[tuple[Score, str]] = [
        (FDBD(), "head"), (NCI(), "head"), (GradNorm(), "head"), (ReAct(), "head"), (DICE(), "head"),
        (ASH("p"), "head + partition"), (ASH("b"), "head + partition"), (ASH("s"), "head + partition"),
        (Scale(), "head + partition"), (NNGuide(), "head + bank"),
        (PNML(), "float64 square"), (Projected(Energy(), "global"), "head"), (Projected(Energy(), "class"), "head"),
        (Projected(Energy(), "class_avg"), "head"), (Projected(Energy(), "class_pred"), "square"),
        (Projected(Mahalanobis(), "global"), "square"),
    ]  # fmt: skip
    for score, contains in lines:
        fit = 1e3 * least(lambda score=score: score.fit(train), 1)  # type: ignore[misc]
        took = 1e3 * least(lambda score=score: score.score(test), asked.repeats)  # type: ignore[misc]
        name = f"ash {score.variant}" if isinstance(score, ASH) else score.name
        floor = floors[contains]
        print(f"{name:28} {fit:9.1f} {took:9.1f} {floor:9.1f} {took / floor:6.2f}  {contains}")


if __name__ == "__main__":
    main()
