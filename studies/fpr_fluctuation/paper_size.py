"""Figure 1 at the paper's size: the false-positive rate of 53 calibration sets of 10,000 images.

The paper divides the 531,131 images of SVHN extra into 53 disjoint sets and measures each on the rest. SVHN is not
here. Two designs take its place:

- ``mnist``: the 68,000 MNIST images that a small network did not learn from, with its energy. Calibration sets are
  drawn at random, so they overlap, and 58,000 images remain to measure on. Given the pool, the number flagged of them
  is beta-binomial, exactly; its standard deviation is that of the Beta law times sqrt(1 + 10,001 / 58,000) = 1.08.
- ``ranks``: the paper's own design, 53 disjoint sets of 531,131 numbers. p-values depend on ranks alone, so random
  numbers stand for any continuous score; this is theory by simulation, not data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from fluctuation import T, beta_binomial_cdf, rates  # in this folder
from numpy.typing import NDArray
from scipy.stats import beta

from caveat.conformal import fpr_law
from caveat_lab import data

N, SETS, DRAWS = 10_000, 53, 2_000
SVHN_EXTRA = 531_131
LEARNED = 2_000  # MNIST images that the network learns from


@dataclass(frozen=True)
class Size:
    """What one design finds."""

    n: int
    rest: int  # images that each rate is measured on
    sets: int
    fitted_a: float  # Beta law fitted to the 53 rates by maximum likelihood
    fitted_b: float
    law_a: int
    law_b: int
    mean_rate: float
    sd_rate: float
    law_sd: float  # of the Beta law, with the spread of the finite rest added
    sd_of_draws: float  # of all draws
    draws: int
    rates: str  # the 53 rates of the figure
    distance: float  # of all draws from the beta-binomial law, largest gap; NaN where there are the sets alone


def mnist_energies() -> NDArray[np.float64]:
    """Energy of the MNIST images that the network did not learn from."""
    from caveat.scores import make
    from caveat_lab.networks import architectures, fit_classifier

    train, test = data.load("mnist", "train"), data.load("mnist", "test")
    order = np.random.default_rng(0).permutation(len(train))
    known = train[order[:LEARNED]]
    model = architectures.make("small_cnn", (1, 28, 28), 10, seed=0)
    trained = fit_classifier(model, (known.pixels, known.labels), epochs=8, learning_rate=2e-3, seed=0, threads=1)
    rest = np.concatenate([train.pixels[order[LEARNED:]], test.pixels])
    return make("energy").score(trained.outputs(rest))


def from_pool(pool: NDArray[np.float64], *, n: int = N, sets: int = SETS, draws: int = DRAWS) -> Size:
    """Random calibration sets of a pool; the first ``sets`` of all draws are the figure."""
    found = rates(pool, n=n, t=T, splits=draws, rng=np.random.default_rng(0))
    a, b = fpr_law(n, T)
    m = pool.size - n
    counts = np.sort(np.round(found * m).astype(int))
    steps = np.arange(1, draws + 1) / draws
    gap = float(np.abs(beta_binomial_cdf(counts, m, a, b) - steps).max())
    return _size(found[:sets], n, m, found, gap)


def disjoint(total: int = SVHN_EXTRA, *, n: int = N, sets: int = SETS, seed: int = 0) -> Size:
    """The paper's design: disjoint calibration sets, each measured on all other numbers."""
    numbers = np.random.default_rng(seed).random(total)
    # The rule p <= t flags what lies above the l-th largest calibration score, l = floor((n + 1) t).
    rank, _ = fpr_law(n, T)
    ordered = np.sort(numbers)
    found = np.empty(sets)
    for i in range(sets):
        part = np.sort(numbers[i * n : (i + 1) * n])
        limit = part[n - rank]
        above = total - np.searchsorted(ordered, limit, side="right")
        found[i] = (above - (rank - 1)) / (total - n)
    return _size(found, n, total - n, found, np.nan)


def _size(shown: NDArray[np.float64], n: int, m: int, found: NDArray[np.float64], gap: float) -> Size:
    a, b = fpr_law(n, T)
    fitted = beta.fit(shown, floc=0, fscale=1)
    return Size(
        n=n, rest=m, sets=shown.size, fitted_a=float(fitted[0]), fitted_b=float(fitted[1]), law_a=a, law_b=b,
        mean_rate=float(shown.mean()), sd_rate=float(shown.std(ddof=1)),
        law_sd=float(np.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)) * (1 + (a + b) / m))),
        sd_of_draws=float(found.std(ddof=1)), draws=found.size, rates=" ".join(f"{x:.5f}" for x in shown), distance=gap,
    )  # fmt: skip
