"""The weighted quantile: by hand, as the plain one, and coverage under a known shift."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.conformal import quantile, weighted_quantile
from caveat.errors import CaveatWarning, InputError


def test_by_hand():
    # sorted 1 2 3 with weights 5 5 .1; total 11.1 with the test point; 75 % of it is 8.325: reached at 2 (10)
    assert weighted_quantile([3, 1, 2], 0.25, weights=[0.1, 5, 5], test_weight=1) == 2
    # weights given in the order of the scores, not of the sorted scores: the other way round 3 would be needed
    assert weighted_quantile([3, 1, 2], 0.25, weights=[5, 5, 0.1], test_weight=1) == 3


@settings(max_examples=100, deadline=None)
@given(
    n=st.integers(1, 200), alpha=st.sampled_from([0.05, 0.1, 0.25, 0.3, 0.5]), weight=st.sampled_from([1.0, 0.1, 3.7])
)
def test_equal_weights_give_the_plain_quantile(n, alpha, weight):
    scores = np.random.default_rng(n).normal(size=n)
    if math.ceil(round((n + 1) * (1 - alpha), 9)) > n:
        return
    found = weighted_quantile(scores, alpha, weights=np.full(n, weight), test_weight=weight)
    assert found == quantile(scores, alpha)


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(st.integers(0, 6), min_size=1, max_size=30),
    own=st.integers(1, 6),
    percent=st.integers(1, 99),
    seed=st.integers(0, 100),
)
def test_it_is_the_definition_in_exact_arithmetic(weights, own, percent, seed):
    scores = np.random.default_rng(seed).integers(0, 8, size=len(weights))  # with ties
    total = own + sum(weights)

    def kept(a: int) -> bool:
        mass_above = own + sum(w for s, w in zip(scores, weights, strict=True) if s > a)
        return 100 * mass_above <= percent * total

    expected = min((int(a) for a in scores if kept(a)), default=math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)
        found = weighted_quantile(scores, percent / 100, weights=weights, test_weight=own)
        from_confidence = weighted_quantile(scores, 1 - (100 - percent) / 100, weights=weights, test_weight=own)
    assert found == from_confidence == expected


def test_only_ratios_of_weights_count():
    # 1.7e308 three times has no finite sum; the test point weighs nothing beside them: the third of three is needed.
    assert weighted_quantile([1, 2, 3], 0.2, weights=[1.7e308] * 3, test_weight=1.0) == 3
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=50), rng.random(50)
    plain = weighted_quantile(scores, 0.2, weights=weights, test_weight=0.5)
    for factor in (1e-300, 1e-5, 3.7, 1e307):
        assert weighted_quantile(scores, 0.2, weights=factor * weights, test_weight=factor * 0.5) == plain


def test_coverage_under_a_known_shift():
    # x uniform at calibration, density 2x at test; the score spreads with x, so that plain calibration undercovers.
    rng, trials, n, alpha = np.random.default_rng(0), 4000, 200, 0.2
    weighted, plain = 0, 0
    for _ in range(trials):
        x, new = rng.random(n), math.sqrt(rng.random())
        scores, score = x**2 * np.abs(rng.normal(size=n)), new**2 * abs(rng.normal())
        weighted += score <= weighted_quantile(scores, alpha, weights=2 * x, test_weight=2 * new)
        plain += score <= quantile(scores, alpha)
    spread = math.sqrt(0.16 / trials)
    assert weighted / trials > 0.8 - 4 * spread
    assert weighted / trials < 0.82 + 4 * spread
    assert plain / trials < 0.8 - 8 * spread


def test_clear_errors():
    with pytest.warns(CaveatWarning, match="more than alpha = 0.1 of all weight"):
        assert weighted_quantile([1, 2], 0.1, weights=[1, 1], test_weight=1) == math.inf
    with pytest.raises(InputError, match="scores and weights must have the same length, got 2 and 1"):
        weighted_quantile([1, 2], 0.1, weights=[1], test_weight=1)
    with pytest.raises(InputError, match="weights must be 0 or larger"):
        weighted_quantile([1, 2], 0.1, weights=[1, -1], test_weight=1)
    with pytest.raises(InputError, match="at least one weight must be positive"):
        weighted_quantile([1, 2], 0.1, weights=[0, 0], test_weight=0)
