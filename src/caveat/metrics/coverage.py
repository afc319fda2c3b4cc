r"""Coverage: its interval, whether it is as promised, by class, and in the worst slab of the feature space."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaln, gammaln

from caveat._internal.checks import Rng, as_count, as_labels, as_level, as_mask, as_matrix, as_rng, same_length
from caveat.conformal._bins import bin_means
from caveat.conformal.quantile import quantile_rank
from caveat.errors import CaveatWarning, InputError
from caveat.results import Estimate, proportion_interval

__all__ = ["CoverageVerdict", "coverage", "coverage_verdict", "covgap", "worst_slab_coverage"]


def coverage(covered: ArrayLike, *, delta: float = 0.05) -> Estimate:
    """Share of samples whose true value is in the set or interval, with its exact binomial interval.

    Parameters
    ----------
    covered
        Shape (n,): whether the true value of each sample is covered.
    delta
        Allowed failure of the interval.

    Returns
    -------
    Estimate
        The share; ``lower`` and ``upper`` are the Clopper-Pearson interval.

    Examples
    --------
    >>> print(coverage([True] * 90 + [False] * 10))
    0.900 [0.824, 0.951] (95 % Clopper-Pearson, n = 100)
    """
    hits = as_mask(covered, "covered")
    return proportion_interval(int(hits.sum()), hits.size, delta=delta)


@final
@dataclass(frozen=True)
class CoverageVerdict:
    """Whether a number of covered samples is as chance allows, and the numbers that are.

    Parameters
    ----------
    verdict
        ``"as chance allows"``, ``"below"`` or ``"above"``.
    least, most
        The numbers covered that are as chance allows, both included.
    level
        Of that region: each side is left with probability (1 - level) / 2 at most.

    Examples
    --------
    >>> coverage_verdict(871, 1000, n_calibration=500, alpha=0.1)
    CoverageVerdict(verdict='as chance allows', least=866, most=930, level=0.95)
    """

    verdict: Literal["as chance allows", "below", "above"]
    least: int
    most: int
    level: float


def coverage_verdict(covered: int, n: int, *, n_calibration: int, alpha: float, delta: float = 0.05) -> CoverageVerdict:
    r"""Judge ``covered`` of n test samples by the distribution of a threshold from ``n_calibration`` rows.

    Given N calibration scores without ties and the threshold at rank k, coverage is Beta(k, N + 1 - k) over calibration
    sets, and the number covered among n test samples is beta-binomial:

    $$ P(X = x) = \binom{n}{x} \frac{B(k + x,\ N + 1 - k + n - x)}{B(k,\ N + 1 - k)} $$

    Vovk, "Conditional validity of inductive conformal predictors", ACML 2012; Angelopoulos and Bates, "A Gentle
    Introduction to Conformal Prediction", section 3.2, arXiv:2107.07511.

    The interval of the test set alone would say "below" too often: it leaves out that the calibration set is a draw
    too. Ties among scores only raise coverage, so that "above" may also mean ties.

    Parameters
    ----------
    covered, n
        How many of how many test samples have their true value in the set.
    n_calibration, alpha
        Rows that set the threshold, and the allowed error: the promise of marginal coverage at least 1 - alpha.
    delta
        Allowed failure of the verdict, half on each side.

    Returns
    -------
    CoverageVerdict
        ``verdict`` is ``"as chance allows"``, ``"below"`` or ``"above"``.

    Examples
    --------
    >>> coverage_verdict(871, 1000, n_calibration=1000, alpha=0.1)
    CoverageVerdict(verdict='below', least=873, most=925, level=0.95)
    >>> coverage_verdict(871, 1000, n_calibration=500, alpha=0.1).verdict
    'as chance allows'
    """
    as_count(n, "n")
    as_count(covered, "covered", least=0, most=n)
    as_count(n_calibration, "n_calibration")
    as_level(delta, "delta")
    rank = quantile_rank(n_calibration, alpha)
    if rank > n_calibration:  # no threshold: every value is in the set
        least, most = n, n
    else:
        least, most = beta_binomial_region(n, rank, n_calibration + 1 - rank, delta=delta)
    verdict: Literal["as chance allows", "below", "above"] = (
        "below" if covered < least else "above" if covered > most else "as chance allows"
    )
    return CoverageVerdict(verdict, least, most, 1 - delta)


def covgap(*, covered: ArrayLike, labels: ArrayLike, alpha: float) -> float:
    r"""Mean over classes of how far the coverage of the class is from 1 - alpha. Smaller is better.

    $$ \frac{1}{|\mathcal Y|} \sum_y | \hat c_y - (1 - \alpha) | $$

    Ding, Angelopoulos, Bates, Jordan and Tibshirani, "Class-Conditional Conformal Prediction with Many Classes",
    NeurIPS 2023, section 4; as a share, where the paper prints per cent. Classes without a sample are left out.

    Parameters
    ----------
    covered
        Shape (n,): whether the true label of each sample is in its set.
    labels
        True classes, shape (n,).
    alpha
        Allowed error of the sets.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(covgap(covered=[1, 1, 1, 0], labels=[0, 0, 1, 1], alpha=0.25), 3)
    0.25
    """
    hits, true = as_mask(covered, "covered"), as_labels(labels, "labels")
    same_length(covered=hits, labels=true)
    gaps = np.abs(bin_means(hits, true, int(true.max()) + 1) - (1 - as_level(alpha, "alpha")))
    return float(np.nanmean(gaps))


def worst_slab_coverage(
    *,
    covered: ArrayLike,
    features: ArrayLike,
    rng: Rng,
    delta: float = 0.1,
    directions: int = 1000,
    search_share: float = 0.25,
) -> float:
    r"""Coverage in the slab of the feature space where it is lowest. Larger is better; 1 - alpha is ideal.

    $$ \min_{v, a, b} P(y \in C(x) \mid a \le v^\top x \le b) \;\text{with}\; P(a \le v^\top x \le b) \ge \delta $$

    Cauchois, Gupta and Duchi, "Knowing what You Know", JMLR 22, 2021, section 4; the slab is found on a random part of
    the samples and its coverage measured on the others, as in Romano, Sesia and Candes, NeurIPS 2020, section S1.2:
    on the same samples even perfect sets would look bad. NaN, with a warning, where none of those lies in it.

    Parameters
    ----------
    covered
        Whether each true label is in its set, shape (n,). Not the labels.
    features
        Shape (n, D).
    rng
        Draws the split and the directions.
    delta
        Least share of the samples in a slab.
    directions
        How many random directions to try.
    search_share
        Share of the samples on which the slab is found.

    Returns
    -------
    float
        Between 0 and 1, or NaN.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> hard = x[:, 0] > 1
    >>> round(worst_slab_coverage(covered=~hard | (rng.random(2000) < 0.5), features=x, rng=rng, directions=100), 1)
    0.5
    """
    rng = as_rng(rng)
    hits, rows = as_mask(covered, "covered"), as_matrix(features, "features")
    same_length(covered=hits, features=rows)
    as_level(delta, "delta")
    as_level(search_share, "search_share")
    as_count(directions, "directions")
    searched = np.zeros(hits.size, dtype=bool)
    searched[rng.permutation(hits.size)[: round(search_share * hits.size)]] = True
    least = int(np.ceil(delta * searched.sum()))
    if searched.sum() < 2 or (~searched).sum() < 1:
        raise InputError(f"the worst slab needs at least 8 samples, got {hits.size}.")
    axes = rng.normal(size=(rows.shape[1], directions))
    axes /= np.linalg.norm(axes, axis=0)
    along = rows[searched] @ axes
    order = np.argsort(along, axis=0)
    worst, slab = np.inf, (0, -np.inf, np.inf)
    covered_there = hits[searched]
    for v in range(directions):
        start, stop, share = _lowest_mean(covered_there[order[:, v]], least)
        if share < worst:
            worst, slab = share, (v, along[order[start, v], v], along[order[stop - 1, v], v])
    place = rows[~searched] @ axes[:, slab[0]]
    inside = (place >= slab[1]) & (place <= slab[2])
    if not inside.any():
        warnings.warn(
            "no held-out sample lies in the worst slab, so its coverage is not known.", CaveatWarning, stacklevel=2
        )
        return float("nan")
    return float(hits[~searched][inside].mean())


def _lowest_mean(values: NDArray[np.bool_], least: int) -> tuple[int, int, float]:
    """Start, stop and mean of a run of at least ``least`` values with the lowest mean.

    Against a mean that can be beaten, the run whose sum lies furthest below it has a lower one, and a few such steps
    arrive (Dinkelbach, Management Science 13(7), 1967). Each is one pass: the best start for an end is the largest
    prefix so far.
    """
    sums = np.concatenate([[0], np.cumsum(values)])
    steps = np.arange(sums.size)
    start, stop = 0, values.size
    while True:
        mean = (sums[stop] - sums[start]) / (stop - start)
        excess = sums - mean * steps
        end = int(np.argmin(excess[least:] - np.maximum.accumulate(excess[: sums.size - least])))
        begin, end = int(np.argmax(excess[: end + 1])), end + least
        if (sums[end] - sums[begin]) / (end - begin) >= mean:
            return start, stop, float(mean)
        start, stop = begin, end


def beta_binomial_region(n: int, a: int, b: int, *, delta: float) -> tuple[int, int]:
    """The least and the most of n that a beta-binomial count leaves with probability delta at most, half a side."""
    chance = _beta_binomial(n, a, b)
    at_most, at_least = np.cumsum(chance), np.cumsum(chance[::-1])
    least = int(np.searchsorted(at_most, delta / 2, side="right"))
    return least, n - int(np.searchsorted(at_least, delta / 2, side="right"))


def _beta_binomial(n: int, a: int, b: int) -> NDArray[np.float64]:
    """Probabilities of 0, 1, ..., n."""
    x = np.arange(n + 1)
    choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1)
    chance = np.exp(choose + betaln(a + x, b + n - x) - betaln(a, b))
    return np.asarray(chance / chance.sum())
