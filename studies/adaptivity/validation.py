r"""Rank correlation of adaptivity metrics with the property that adaptive sets should have.

Property 1: of two groups of samples, the harder one has the larger mean set. The study draws many samples, estimates
for each how often the property holds over pairs of random subsets, computes every metric on the same sample, and
correlates. Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input Transformations",
section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from caveat._internal.checks import (
    Rng,
    as_count,
    as_level,
    as_mask,
    as_rng,
    as_vector,
    check_each,
    check_result,
    same_length,
)
from caveat.conformal._bins import SIZE_EDGES, equal_mass, signed_r2, strata

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class MetricValidation:
    """Spearman's correlation of each metric with the property rate, its p-value, and the values behind it.

    ``order`` ranks the metrics by the size of their correlation, the strongest first, as in Table 1 of the paper.
    """

    correlation: dict[str, float]
    p_value: dict[str, float]
    rates: Floats
    values: dict[str, Floats]

    @property
    def order(self) -> list[str]:
        strength = {name: 0.0 if np.isnan(value) else abs(value) for name, value in self.correlation.items()}
        return sorted(strength, key=lambda name: (-strength[name], name))


def property_rate(*, sizes: ArrayLike, difficulty: ArrayLike, rng: Rng, m: int = 100, pairs: int = 10_000) -> float:
    """Share of pairs of random subsets of m samples in which the harder one has the larger mean set. 1 is best.

    Examples
    --------
    >>> hard = np.arange(1000) % 7
    >>> property_rate(sizes=2 * hard + 1, difficulty=hard, rng=np.random.default_rng(0), pairs=500)
    1.0
    """
    size, hard = as_vector(sizes, "sizes"), as_vector(difficulty, "difficulty")
    same_length(sizes=size, difficulty=hard)
    subsets = _subsets(size.size, m, pairs, as_rng(rng))
    return float(_rates(subsets, size[:, None], hard[:, None])[0])


def validate_metrics(
    *,
    covered: ArrayLike,
    sizes: ArrayLike,
    ranks: ArrayLike,
    ease: ArrayLike,
    short: ArrayLike,
    over: ArrayLike,
    alpha: float,
    rng: Rng,
    trials: int = 1000,
    sample: int = 2000,
    m: int = 100,
    pairs: int = 10_000,
    bins: int = 50,
) -> MetricValidation:
    """Correlate Deficit, Excess, SSCV, ESCV and T-SS with the rate at which property 1 holds, over random samples.

    All trials are one sparse product and a few sorts: the subsets are drawn once, as places in a sample, and every
    trial puts its own samples into these places.

    Parameters
    ----------
    covered, sizes, ranks, ease
        Of every sample, shape (n,): as in ``metrics.adaptivity``. Difficulty is the rank of the true label.
    short, over
        Classes missing and to spare, shape (n,): ``metrics.steps_short_and_over``.
    alpha
        Allowed error of the sets.
    rng
        Draws samples and subsets.
    trials, sample, m, pairs, bins
        R, M, m, T and B of the paper.
    """
    rng = as_rng(rng)
    from scipy.stats import spearmanr

    columns = [as_vector(v, k) for k, v in (("sizes", sizes), ("ranks", ranks), ("ease", ease), ("short", short))]
    size, rank, known, missing = columns
    spare, hits = as_vector(over, "over"), as_mask(covered, "covered")
    n = same_length(covered=hits, sizes=size, ranks=rank, ease=known, short=missing, over=spare)
    as_level(alpha, "alpha")
    check_each(size, size >= 0, "sizes", "be 0 or larger")
    bins = as_count(bins, "bins", most=as_count(sample, "sample", most=n))
    rows = np.stack([rng.permutation(n)[:sample] for _ in range(as_count(trials, "trials"))])
    subsets = _subsets(sample, m, pairs, as_rng(rng))
    values = {
        "Deficit": check_result(missing[rows].mean(axis=1), "the mean of short"),
        "Excess": check_result(spare[rows].mean(axis=1), "the mean of over"),
        "SSCV": _worst(hits[rows], strata(size[rows], SIZE_EDGES), alpha),
        "ESCV": _worst(hits[rows], np.where(size > 0, np.unique(size, return_inverse=True)[1], -1)[rows], alpha),
        "T-SS": _t_ss(size[rows], rank[rows], known[rows], bins),
    }
    rates = _rates(subsets, size[rows].T, rank[rows].T)
    correlation, p_value = {}, {}
    for name, value in values.items():
        used = ~np.isnan(value)
        varies = used.sum() > 2 and np.ptp(value[used]) > 0 and np.ptp(rates[used]) > 0
        found = spearmanr(rates[used], value[used]) if varies else (np.nan, np.nan)
        correlation[name], p_value[name] = float(found[0]), float(found[1])
    return MetricValidation(correlation, p_value, rates, values)


def _subsets(n: int, m: int, pairs: int, rng: np.random.Generator) -> csr_array:
    """Random subsets of m of n places, two per pair, as the rows of a sparse matrix of means."""
    m = as_count(m, "m", most=n)
    count = 2 * as_count(pairs, "pairs")
    chosen = np.empty((count, m), dtype=np.int32)
    for start in range(0, count, 1024):  # a random number per place, the m smallest are drawn
        part = rng.random((min(1024, count - start), n), dtype=np.float32)
        chosen[start : start + part.shape[0]] = np.argpartition(part, m - 1, axis=1)[:, :m]
    starts = np.arange(count + 1) * m
    return csr_array((np.full(count * m, 1 / m), chosen.ravel(), starts), shape=(count, n))


def _rates(subsets: csr_array, size: Floats, hard: Floats) -> Floats:
    """Property rate of each column of sizes and difficulties (samples, trials)."""
    mean_size, mean_hard = np.round(subsets @ size, 9), np.round(subsets @ hard, 9)  # equal means must be equal
    first, second = slice(None, None, 2), slice(1, None, 2)
    harder = mean_hard[first] > mean_hard[second]
    larger = mean_size[first] > mean_size[second]
    return np.asarray((harder == larger).mean(axis=0))


def _worst(hits: NDArray[np.bool_], number: NDArray[np.intp], alpha: float) -> Floats:
    """Worst violation over strata, for every trial at once. Number -1 is left out; a trial of nothing else is NaN."""
    trials, kinds, used = hits.shape[0], max(1, int(number.max()) + 1), number >= 0
    cell = (number + kinds * np.arange(trials)[:, None])[used]
    counts = np.bincount(cell, minlength=trials * kinds)
    sums = np.bincount(cell, weights=hits[used], minlength=trials * kinds)
    gaps = np.abs(np.divide(sums, counts, out=np.full(counts.size, 1 - alpha), where=counts > 0) - (1 - alpha))
    return np.where(used.any(axis=1), gaps.reshape(trials, kinds).max(axis=1), np.nan)


def _t_ss(size: Floats, rank: Floats, ease: Floats, bins: int) -> Floats:
    trials = size.shape[0]
    cell = (equal_mass(ease, bins) + bins * np.arange(trials)[:, None]).ravel()
    counts = np.bincount(cell, minlength=trials * bins)
    means = [
        (np.bincount(cell, weights=v.ravel(), minlength=trials * bins) / counts).reshape(trials, bins)
        for v in (rank, size)
    ]
    return signed_r2(means[0], means[1])
