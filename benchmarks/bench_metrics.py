"""Metrics, statistics and geometry against a floor measured in the same run.

    python benchmarks/bench_metrics.py

Each line: seconds, and the ratio to the cheapest necessary step (one argsort, one matrix product).
"""

from __future__ import annotations

import numpy as np
from timing import least

from caveat import Head, Outputs
from caveat.metrics import augrc, augrc_interval, aurc, aurc_interval, auroc, auroc_interval
from caveat.stats import compare, delong, mid_ranks
from caveat_lab.geometry import frechet, mmd, neural_collapse


def line(what: str, seconds: float, floor: float, of: str) -> None:
    print(f"{what:58s} {seconds:8.3f} s   {seconds / floor:7.2f} x {of} ({floor:.3f} s)", flush=True)


def main() -> None:
    rng = np.random.default_rng(0)
    n = 1_000_000
    score = rng.normal(size=n)
    correct = rng.random(n) > 0.1
    sort = least(lambda: np.argsort(score))
    line("aurc, n = 1e6 (wanted: within 2)", least(lambda: aurc(score=score, correct=correct)), sort, "argsort")
    line("augrc, n = 1e6 (wanted: within 2)", least(lambda: augrc(score=score, correct=correct)), sort, "argsort")
    ties = np.round(score, 2)
    line("aurc, n = 1e6, 900 distinct scores", least(lambda: aurc(score=ties, correct=correct)), sort, "argsort")
    other = rng.normal(size=n) + 1
    line("auroc, 1e6 + 1e6", least(lambda: auroc(inlier=score, outlier=other), 3), sort, "argsort of 1e6")
    line("auroc_interval (DeLong), 1e6 + 1e6", least(lambda: auroc_interval(inlier=score, outlier=other), 3), sort,
         "argsort of 1e6")  # fmt: skip
    second = (score + rng.normal(size=n), other + rng.normal(size=n))
    pair = least(lambda: delong(inlier=(score, second[0]), outlier=(other, second[1])), 3)
    line("delong of two scores, 1e6 + 1e6", pair, sort, "argsort of 1e6")

    for name, interval in (("augrc", augrc_interval), ("aurc", aurc_interval)):
        line(f"{name}_interval, n = 1e6", least(lambda f=interval: f(score=score, correct=correct), 3), sort, "argsort")

    few, right = rng.normal(size=10_000), rng.random(10_000) > 0.3
    one = least(lambda: np.argsort(few), 50)
    for resamples in (1000, 10_000):
        for name, interval in (("augrc", augrc_interval), ("aurc", aurc_interval)):
            boot = {"method": "bootstrap", "rng": rng, "resamples": resamples}
            took = least(lambda f=interval, b=boot: f(score=few, correct=right, **b), 1)
            wanted = " (wanted: under 5 s)" if resamples == 10_000 and name == "augrc" else ""
            line(
                f"{name}_interval by bootstrap, n = 1e4, {resamples} resamples{wanted}",
                took,
                one * resamples,
                "as many argsorts",
            )

    table = rng.random((500, 21))
    ranking = least(lambda: mid_ranks(table), 5)
    for posthoc in ("conover", "nemenyi", "wilcoxon"):
        took = least(lambda posthoc=posthoc: compare(table, posthoc=posthoc), 3)
        line(f"compare, 21 methods in 500 blocks, {posthoc}", took, ranking, "ranks of the table")

    rows, width, classes = 50_000, 512, 100
    labels = np.arange(rows) % classes
    features = (rng.normal(size=(classes, width))[labels] + rng.normal(size=(rows, width))).astype(np.float32)
    outputs = Outputs(features=features, labels=labels, head=Head(rng.normal(size=(classes, width)).astype(np.float32)))
    product = least(lambda: features.T @ features, 3)
    for projection in ("none", "global", "class_pred"):
        took = least(lambda p=projection: neural_collapse(outputs, projection=p), 2)
        line(f"neural_collapse, 50,000 x 512, 100 classes, {projection}", took, product, "X^T X")
    scatter = [features[labels == c].astype(np.float64) for c in range(classes)]
    scatter = [rows @ rows.T for rows in scatter]
    product += least(lambda: [np.linalg.eigh(matrix) for matrix in scatter], 1)
    line("  the last one", took, product, "X^T X and the eigenvectors of 100 classes")

    a, b = features[:10_000].astype(np.float64), features[10_000:20_000].astype(np.float64) + 0.5
    product = least(lambda: a @ b.T, 2)
    line("mmd, 10,000 + 10,000, width 512 (2 products)", least(lambda: mmd(a, b), 1), product, "A B^T")
    product = least(lambda: a.T @ a, 3)
    line("frechet, 10,000 + 10,000, width 512", least(lambda: frechet(a, b), 2), product, "A^T A")


if __name__ == "__main__":
    main()
