"""Time of bands and bounds, as ratios to a baseline measured in the same run.

python benchmarks/bench_bands.py [--large]

1. The exact violation probability over n, against numpy's sort of n doubles and against the walk without its strides
   (every count convolved at every step), which is the plain O(n^1.5) routine.
2. The search for eta (equal local levels), in evaluations of (1).
3. conformal_auroc on 1e7 + 1e7 scores, against the two sorts of the same arrays that no exact answer can avoid.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile

import numpy as np
from scipy.special import gammaln
from timing import least

from caveat.conformal import violation_probability
from caveat.conformal.local_levels import equal_levels, local_level
from caveat.metrics import conformal_auroc


def plain_walk(b: np.ndarray) -> float:
    """Survival of the Poisson walk with one full convolution per step: the floor that strides are measured against."""
    n, low, mass, before = b.size, 0, np.ones(1), 0.0
    for i, time_now in enumerate(b[b < 1], start=1):
        mean = n * (time_now - before)
        jumps = np.arange(int(mean + 12 * math.sqrt(mean) + 25))
        mass = np.convolve(mass, np.exp(jumps * math.log(mean) - mean - gammaln(jumps + 1)))
        high = math.ceil(n * time_now + 9 * math.sqrt(n * time_now * (1 - time_now)) + 30)
        mass, low, before = mass[i - low : high - low], i, time_now
    left = n - low - np.arange(mass.size)
    mass, left = mass[left >= 0], left[left >= 0]
    rest = n * (1 - before)
    last = np.exp(left * math.log(rest) - rest - gammaln(left + 1) - (n * math.log(n) - n - gammaln(n + 1)))
    return float(1 - mass @ last)


def bench_violation(sizes: list[int], plain_up_to: int) -> None:
    print(f"{'n':>9}  {'V(b) s':>8}  {'/ sort':>8}  {'/ n^1.5, ns':>11}  {'plain walk s':>12}  {'speed-up':>8}")
    rng = np.random.default_rng(0)
    for n in sizes:
        b = equal_levels(n, 1e-4)
        exact = least(lambda b=b: violation_probability(b), 1 if n > 200_000 else 3)
        scores = rng.random(n)
        sort = least(lambda x=scores: np.sort(x), 3)
        line = f"{n:>9,}  {exact:8.3f}  {exact / sort:8.0f}  {1e9 * exact / n**1.5:11.2f}"
        if n <= plain_up_to:
            plain = least(lambda b=b: plain_walk(b), 1)
            line += f"  {plain:12.3f}  {plain / exact:8.1f}"
        print(line)


def bench_eta(sizes: list[int]) -> None:
    print(f"\n{'n':>9}  {'eta s':>8}  {'/ V(b)':>8}  {'from disk ms':>12}")
    for n in sizes:
        one = least(lambda n=n: violation_probability(equal_levels(n, 8e-4)), 1)
        found = least(lambda n=n: local_level(n, 0.05), 1)
        local_level.cache_clear()
        read = least(lambda n=n: local_level(n, 0.05), 1)
        print(f"{n:>9,}  {found:8.3f}  {found / one:8.1f}  {1e3 * read:12.2f}")


def bench_auroc(n: int) -> None:
    rng = np.random.default_rng(1)
    inlier, outlier = rng.normal(size=n), rng.normal(1, size=n)
    local_level(n, 0.05)  # kept on disk; its cost is in the table above
    sorts = least(lambda: (np.sort(inlier), np.sort(outlier)), 2)
    print(f"\nconformal_auroc, {n:,} + {n:,} scores; two sorts take {sorts:.2f} s")
    for options in ({}, {"ood": "population"}, {"method": "dkwm"}):
        taken = least(lambda o=options: conformal_auroc(inlier=inlier, outlier=outlier, **o), 2)
        print(f"  {options or 'exact'!s:24} {taken:6.2f} s  {taken / sorts:5.2f} x the sorts")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also n = 1,000,000 for the exact routine")
    large = parser.parse_args().large
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CAVEAT_CACHE"] = folder  # nothing is known beforehand
        bench_violation([1000, 10_000, 100_000] + [1_000_000] * large, plain_up_to=10_000 if not large else 100_000)
        bench_eta([1000, 10_000, 100_000])
        bench_auroc(10_000_000)


if __name__ == "__main__":
    main()
