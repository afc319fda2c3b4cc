"""The weighted quantile and p-values: by hand, with equal weights, and coverage under a known shift."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.conformal import effective_n, p_values, quantile, shift_promise, weighted_p_values, weighted_quantile
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
    # 1.7e308 three times has no finite sum; the weight of the test point is negligible: the third of three is needed.
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


def test_p_values_by_hand():
    # test score 2.5, weight 1: of weights 1, 1, 2 only the last (score 3) is at or above it: (2 + 1) / 5
    found = weighted_p_values(
        calibration=[1, 2, 3], test=[2.5, 3, 9], calibration_weights=[1, 1, 2], test_weights=[1, 1, 1]
    )
    np.testing.assert_allclose(found, [3 / 5, 3 / 5, 1 / 5])
    # one weight per label: label 1 of the only object weighs nothing
    by_label = weighted_p_values(
        calibration=[1, 2, 3], test=[[2.5, 9]], calibration_weights=[1, 1, 2], test_weights=[[4, 0]]
    )
    np.testing.assert_allclose(by_label, [[6 / 8, 0]])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1000), columns=st.sampled_from([None, 3]), smooth=st.booleans())
def test_equal_weights_give_the_plain_p_values(seed, columns, smooth):
    rng = np.random.default_rng(seed)
    calibration, test = rng.integers(0, 9, size=20), rng.integers(0, 9, size=(7,) if columns is None else (7, columns))
    tau = seed if smooth else None
    found = weighted_p_values(
        calibration=calibration, test=test, calibration_weights=np.full(20, 0.3), test_weights=np.full(7, 0.3), rng=tau
    )
    np.testing.assert_allclose(found, p_values(calibration=calibration, test=test, rng=tau), rtol=1e-12)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 1000), percent=st.integers(1, 99))
def test_a_score_is_at_or_below_the_quantile_exactly_if_its_p_value_exceeds_alpha(seed, percent):
    rng = np.random.default_rng(seed)
    scores, weights, own = rng.integers(0, 8, size=15), rng.integers(0, 6, size=15) + 0.0, float(rng.integers(1, 6))
    asked = np.arange(-1, 9)
    p = weighted_p_values(
        calibration=scores, test=asked, calibration_weights=weights, test_weights=np.full(asked.size, own)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)
        most = weighted_quantile(scores, percent / 100, weights=weights, test_weight=own)
    np.testing.assert_array_equal(asked <= most, p > percent / 100 * (1 + 1e-12))


def test_only_ratios_of_weights_count_for_p_values():
    rng = np.random.default_rng(0)
    scores, asked, weights, own = rng.normal(size=50), rng.normal(size=9), rng.random(50), rng.random(9)
    plain = weighted_p_values(calibration=scores, test=asked, calibration_weights=weights, test_weights=own)
    for factor in (1e-300, 1e-5, 1e307):
        found = weighted_p_values(
            calibration=scores, test=asked, calibration_weights=factor * weights, test_weights=factor * own
        )
        np.testing.assert_allclose(found, plain, rtol=1e-12)
    alone = weighted_p_values(calibration=[1, 2], test=[9], calibration_weights=[1e-300, 1e-300], test_weights=[1e300])
    assert alone.tolist() == [1.0]


def test_smoothed_p_values_under_a_known_shift_are_uniform():
    # Labels with ties: the score is the label, calibration shares 1/3 each, test shares .1, .3, .6: weights 3 q.
    rng, trials, n, shares = np.random.default_rng(2), 6000, 40, np.array([0.1, 0.3, 0.6])
    found = np.empty(trials)
    for t in range(trials):
        calibration, new = rng.integers(3, size=n), rng.choice(3, p=shares)
        found[t] = weighted_p_values(
            calibration=calibration, test=[new], calibration_weights=3 * shares[calibration],
            test_weights=[3 * shares[new]], rng=rng,
        )[0]  # fmt: skip
    for level in (0.05, 0.1, 0.3, 0.7):
        assert abs(np.mean(found <= level) - level) < 4 * math.sqrt(level * (1 - level) / trials)


def test_effective_n_by_hand():
    assert effective_n([2, 2, 2]) == pytest.approx(3)
    assert effective_n([3, 1]) == pytest.approx(16 / 10)
    assert effective_n([1e308, 1e308]) == pytest.approx(2)


def test_a_small_effective_n_promises_nothing_and_says_how_many_rows_would_do():
    # 50 rows of effective size 8; 10 are needed at alpha .1, so 50 * 10 / 8 rows
    weights = np.concatenate([np.ones(8), np.full(42, 1e-12)])
    none = shift_promise(weights, alpha=0.1)
    assert not none.holds
    assert "about 63 such rows" in str(none)
    made = shift_promise(np.concatenate([np.ones(10), np.full(42, 1e-30)]), alpha=0.1)
    assert made.holds
    assert "at least 90 %" in str(made)
    assert "effective n = 10.0" in made.method
    assert "weights are right" in made.assumption


def test_clear_errors_of_p_values():
    good = {"calibration": [1, 2], "test": [1], "calibration_weights": [1, 1], "test_weights": [1]}
    with pytest.raises(InputError, match="calibration and calibration_weights must have the same length, got 2 and 1"):
        weighted_p_values(**{**good, "calibration_weights": [1]})
    with pytest.raises(InputError, match=r"test_weights must have shape \(1,\), got \(2,\)"):
        weighted_p_values(**{**good, "test_weights": [1, 1]})
    with pytest.raises(InputError, match="calibration_weights must be 0 or larger"):
        weighted_p_values(**{**good, "calibration_weights": [1, -1]})
    with pytest.raises(InputError, match="at least one weight must be positive"):
        weighted_p_values(**{**good, "calibration_weights": [0, 0], "test_weights": [0]})
    with pytest.raises(InputError, match="at least one weight must be positive"):
        effective_n([0.0, 0.0])
