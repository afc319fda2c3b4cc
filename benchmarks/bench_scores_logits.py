"""Logit scores: time of ``fit`` and ``score`` against the floor they contain, measured in the same run.

    python benchmarks/bench_scores_logits.py [--train 50000] [--test 10000] [--features 512] [--classes 100]

The floor of a score is the cheapest numpy that must happen: one exp of the logits in float64 for the entropy family,
the C x C product alone for KL matching, in the float type of the logits, one pass for the maximum; where logits come
from features and head, that product is added. Score and floor alternate on one BLAS thread, and the smallest
processor time counts. Peak memory is that of fit and score together.
"""

from __future__ import annotations

import argparse
import tracemalloc

import numpy as np
from threadpoolctl import threadpool_limits
from timing import least, take_turns

from caveat import Head, Outputs
from caveat.scores import catalogue, make

NAMES = ("msp", "tempscale", "max_logit", "energy", "entropy", "gen", "renyi", "guessing", "collision", "kl_matching",
         "openmax")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("train", 50_000), ("test", 10_000), ("features", 512), ("classes", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--repeats", type=int, default=30, help="turns of each call")
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
    narrow = np.exp(stored.logits)
    square = rng.normal(size=(args.classes, args.classes)).astype(narrow.dtype)
    floors = {
        "max": lambda: stored.logits.max(axis=1),
        "exp": lambda: np.exp(stored.logits.astype(np.float64)),
        "product": lambda: narrow @ square,
    }
    contains = {"max_logit": "max", "kl_matching": "product"}
    known = {entry.name: entry for entry in catalogue()}
    print(f"train {args.train}, test {args.test}, D = {args.features}, C = {args.classes}; ms of processor time")
    print(f"{'':14}{'':9}{'stored logits':^30}{'from features':^30}")
    print(f"{'score':<14}{'fit':>9}{'score':>10}{'floor':>10}{'ratio':>10}{'score':>10}{'floor':>10}{'ratio':>10}"
          f"{'peak MB':>9}  contains")  # fmt: skip
    with threadpool_limits(1):
        for name in NAMES:
            what = contains.get(name, "exp")
            fitting = least(lambda name=name: make(name).fit(train), 2) if known[name].fits_on else 0.0
            score = make(name).fit(train)
            calls = {
                "floor": floors[what],
                "stored": lambda score=score: score.score(stored),
                "head": lambda: head.logits(derived.features),
                "derived": lambda score=score: score.score(derived),
            }
            took = {call: 1e3 * seconds for call, seconds in take_turns(calls, args.repeats).items()}
            both = took["floor"] + took["head"]
            tracemalloc.start()
            make(name).fit(train).score(stored)
            peak = tracemalloc.get_traced_memory()[1] / 2**20
            tracemalloc.stop()
            print(f"{name:<14}{1e3 * fitting:>9.1f}"
                  f"{took['stored']:>10.1f}{took['floor']:>10.1f}{took['stored'] / took['floor']:>10.2f}"
                  f"{took['derived']:>10.1f}{both:>10.1f}{took['derived'] / both:>10.2f}"
                  f"{peak:>9.0f}  {what}")  # fmt: skip


if __name__ == "__main__":
    main()
