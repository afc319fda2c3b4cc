r"""Differences of AUROC between the scores of a table, guaranteed for every n and for all pairs at once.

Given the outliers, AUROC is the mean over inliers of g(x), the share of outliers above x with half of the ties. The
difference of two scores is the mean of $g_a(x) - g_b(x)$, n independent values in [-1, 1] that are small where the
scores agree. That mean is bounded by betting (``conformal.mean_bounds``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from caveat._internal.checks import Rng, as_kind, as_level, as_vector, same_length
from caveat._internal.ranking import share_above
from caveat.conformal.betting import Bets, random_order
from caveat.errors import InputError
from caveat.results import Estimate, PairedTest
from caveat.stats.posthoc import holm

__all__ = ["auroc_differences"]


def auroc_differences(
    *, inlier: Mapping[str, ArrayLike], outlier: Mapping[str, ArrayLike], delta: float = 0.05, rng: Rng = 0
) -> dict[tuple[str, str], PairedTest]:
    """First minus second AUROC for every pair of scores on the same samples, with bounds that hold for every n.

    With probability 1 - delta over the inliers, every interval holds the difference of these outliers against *all*
    inliers (union bound: each of P pairs spends delta / P). The p-values of "both scores have the same AUROC" are
    adjusted by Holm: with the same probability, no pair with a p-value of at most delta is equal. DeLong's test
    (``stats.delong``) is sharper and relies on large samples.

    Parameters
    ----------
    inlier, outlier
        Name of the score -> scores of the same n inliers, and of the same m outliers; larger is stranger. The inliers
        must be independent of each other, of training and of the choice of the scores.
    delta
        Allowed failure of all intervals together.
    rng
        Seed, or a generator, of the order in which the inliers are bet on.

    Returns
    -------
    dict
        (first name, second name) -> PairedTest; ``difference`` is the Estimate with the bounds, ``p_value`` is
        adjusted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> noise = {"inlier": rng.normal(size=(2, 2000)), "outlier": rng.normal(size=(2, 300)) + [[2], [0]]}
    >>> sides = {side: {"good": a, "poor": a + b} for side, (a, b) in noise.items()}
    >>> print(auroc_differences(**sides)["good", "poor"])
    auroc 0.930 against 0.852: 0.078 [0.071, 0.088] (95 % betting, 1 pair, n = 2000), p = 1.05e-25
    """
    delta = as_level(delta, "delta")
    inside, outside = (_table(side, name) for side, name in ((inlier, "inlier"), (outlier, "outlier")))
    if inside.keys() != outside.keys():
        raise InputError(
            f"inlier and outlier must hold the same scores, got {', '.join(inside)} and {', '.join(outside)}."
        )
    shares = {name: share_above(values, outside[name]) for name, values in inside.items()}
    pairs = list(combinations(shares, 2))
    each = delta / len(pairs)
    method = f"betting, {len(pairs)} pair{'s' * (len(pairs) > 1)}"
    tests, p_values = [], []
    for first, second in pairs:
        a, b = shares[first], shares[second]
        gaps = (a - b + 1) / 2
        bets = Bets(gaps[random_order(gaps, rng)], each / 2)
        sides = (bets, bets.upside_down())
        lower, upper = 2 * sides[0].lower_bound() - 1, 1 - 2 * sides[1].lower_bound()
        value = float(a.mean() - b.mean())
        estimate = Estimate(value, min(value, lower), max(value, upper), level=1 - delta, n=a.size, method=method)
        tests.append((float(a.mean()), float(b.mean()), estimate))
        p_values.append(min(1.0, 2 * math.exp(-max(side.log_capital(0.5) for side in sides))))
    adjusted = holm(p_values)
    return {pair: PairedTest("auroc", *test, float(p)) for pair, test, p in zip(pairs, tests, adjusted, strict=True)}


def _table(scores: Mapping[str, ArrayLike], side: str) -> dict[str, np.ndarray]:
    """The scores of one side, at least two, of the same samples."""
    table = {
        name: as_vector(values, f"{side}[{name!r}]", allow_infinite=True)
        for name, values in as_kind(scores, Mapping, side, what="a mapping of score names to scores").items()
    }
    if len(table) < 2:
        raise InputError(f"{side} must hold at least two scores, got {len(table)}.")
    same_length(**{f"{side}[{name!r}]": values for name, values in table.items()})
    return table
