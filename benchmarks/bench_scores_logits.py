"""Logit scores: time of ``fit`` and ``score`` against the floor they contain, measured in the same run.

    python benchmarks/bench_scores_logits.py [--train 50000] [--test 10000] [--features 512] [--classes 100]

The floor of a score is the cheapest numpy that must happen: one exp of the logits in float64 for the entropy family,
the C x C matmul alone for KL matching, in the float type of the logits, one pass for the maximum; where logits come
from features and head, that matmul comes on top. The best of several runs counts. Peak memory is that of fit and score
together.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from caveat import Head, Outputs
from caveat.scores import catalogue, make

NAMES = ("msp", "tempscale", "max_logit", "energy", "entropy", "gen", "renyi", "guessing", "collision", "kl_matching",
         "openmax")  # fmt: skip


def best(run: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("train", 50_000), ("test", 10_000), ("features", 512), ("classes", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    head = Head(rng.normal(size=(args.classes, args.features)).astype(np.float32) / 8)

    def say(n: int) -> tuple[Outputs, Outputs]:
        features = np.abs(rng.normal(size=(n, args.features))).astype(np.float32)
        logits = head.logits(features)
        gumbel = rng.gumbel(size=logits.shape)
        labels = np.argmax(logits + gumbel, axis=1)
        return Outputs(logits=logits, labels=labels), Outputs(features=features, head=head, labels=labels)

    train, _ = say(args.train)
    stored, derived = say(args.test)
    wide = stored.logits.astype(np.float64)
    square = np.ascontiguousarray(rng.normal(size=(args.classes, args.classes)))
    probs = np.exp(wide)

    pass_once = best(lambda: stored.logits.max(axis=1))
    exp_once = best(lambda: np.exp(stored.logits.astype(np.float64)))
    narrow, narrow_square = probs.astype(np.float32), square.astype(np.float32)
    matmul = best(lambda: narrow @ narrow_square)  # in the type of the logits
    head_matmul = best(lambda: head.logits(derived.features))
    print(f"train {args.train}, test {args.test}, D = {args.features}, C = {args.classes}")
    print(f"floors in ms: max {1e3 * pass_once:.1f}, exp {1e3 * exp_once:.1f}, C x C matmul {1e3 * matmul:.1f}, "
          f"head matmul {1e3 * head_matmul:.1f}")  # fmt: skip
    print(
        f"{'score':<14}{'fit ms':>9}{'score ms':>10}{'x floor':>9}{'from features ms':>18}{'x floor':>9}{'peak MB':>9}"
    )
    known = {entry.name: entry for entry in catalogue()}
    for name in NAMES:
        floor = {"max_logit": pass_once, "kl_matching": matmul}.get(name, exp_once)
        learns = bool(known[name].fits_on)
        fitting = best(lambda name=name: make(name).fit(train), repeats=2) if learns else 0.0
        score = make(name).fit(train)
        own = best(lambda score=score: score.score(stored))
        through = best(lambda score=score: score.score(derived))
        tracemalloc.start()
        make(name).fit(train).score(stored)
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        print(f"{name:<14}{1e3 * fitting:>9.1f}{1e3 * own:>10.1f}{own / floor:>9.2f}{1e3 * through:>18.1f}"
              f"{through / (floor + head_matmul):>9.2f}{peak:>9.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
