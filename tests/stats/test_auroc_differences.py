from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from caveat import InputError
from caveat.conformal import mean_bounds
from caveat.metrics import auroc
from caveat.stats import auroc_differences, holm


def table(rng, n, m, noise=(0.0, 0.5, 1.5), shift=1.5):
    """Scores that see the same value with more or less noise."""
    sides = {}
    for side, size, mean in (("inlier", n, 0.0), ("outlier", m, shift)):
        value = rng.normal(mean, size=size)
        sides[side] = {f"s{i}": value + level * rng.normal(size=size) for i, level in enumerate(noise)}
    return sides


def test_a_pair_by_hand():
    # Outlier 1 for both scores. Inliers 0, 2 by the first (shares above 1, 0), 0, 1 by the second (1, 1/2).
    # Differences 0 and -1/2, mean -1/4; the bounds are those of a mean in [-1, 1].
    sides = {"inlier": {"a": [0, 2], "b": [0, 1]}, "outlier": {"a": [1], "b": [1]}}
    found = auroc_differences(**sides, delta=0.5, rng=np.random.default_rng(0))["a", "b"]
    bounds = mean_bounds([0, -0.5], delta=0.5, low=-1, high=1, two_sided=True, rng=np.random.default_rng(0))
    assert (found.first, found.second, found.difference.value) == (0.5, 0.75, -0.25)
    assert (found.difference.lower, found.difference.upper) == pytest.approx((bounds.lower, bounds.upper))


def test_all_pairs_share_delta_and_p_values_agree_with_intervals():
    sides = table(np.random.default_rng(1), 3000, 200)
    found = auroc_differences(**sides, delta=0.06)
    assert list(found) == [("s0", "s1"), ("s0", "s2"), ("s1", "s2")]
    alone = {
        pair: auroc_differences(**{side: {k: v[k] for k in pair} for side, v in sides.items()}, delta=0.02)[pair]
        for pair in found
    }
    raw = [alone[pair].p_value for pair in found]
    for pair, test in found.items():
        assert (test.difference.lower, test.difference.upper) == (
            alone[pair].difference.lower, alone[pair].difference.upper,
        )  # fmt: skip
        assert test.first == pytest.approx(auroc(inlier=sides["inlier"][pair[0]], outlier=sides["outlier"][pair[0]]))
        assert "3 pairs" in test.difference.method
        if not test.difference.lower <= 0 <= test.difference.upper:
            assert test.p_value <= 0.06  # Holm rejects whatever the union does
    np.testing.assert_allclose([test.p_value for test in found.values()], holm(raw))


def test_pairing_is_far_shorter_than_two_bounds_apart():
    sides = table(np.random.default_rng(2), 2000, 300, noise=(0.0, 0.1))
    found = auroc_differences(**sides)["s0", "s1"].difference
    apart = sum(
        (bound := mean_bounds(norm.sf(sides["inlier"][name] - 1.5), two_sided=True)).upper - bound.lower
        for name in ("s0", "s1")
    )
    assert found.upper - found.lower < apart / 4


def test_equal_scores_are_never_told_apart():
    sides = table(np.random.default_rng(3), 50, 20, noise=(0.0, 0.0))
    test = auroc_differences(**sides)["s0", "s1"]
    assert test.p_value == 1
    assert test.difference.lower < 0 == test.difference.value < test.difference.upper


@pytest.mark.parametrize("n", [40, pytest.param(400, marks=pytest.mark.slow)])
def test_all_differences_hold_together(n):
    # Given an outlier t seen with noise level s, an inlier is below it with probability Phi(t / sqrt(1 + s^2)).
    rng, trials, delta, noise = np.random.default_rng(n), 400, 0.2, (0.0, 0.5, 1.5)
    outlier = table(rng, 1, 30, noise)["outlier"]
    true = {f"s{i}": norm.cdf(outlier[f"s{i}"] / math.hypot(1, level)).mean() for i, level in enumerate(noise)}
    broken = 0
    for _ in range(trials):
        found = auroc_differences(inlier=table(rng, n, 1, noise)["inlier"], outlier=outlier, delta=delta)
        broken += any(
            not test.difference.lower <= true[a] - true[b] <= test.difference.upper for (a, b), test in found.items()
        )
    assert broken / trials <= delta + 4 * math.sqrt(delta * (1 - delta) / trials)


def test_errors():
    with pytest.raises(InputError, match="at least two scores, got 1"):
        auroc_differences(inlier={"a": [1.0]}, outlier={"a": [1.0]})
    with pytest.raises(InputError, match="same scores, got a, b and a, c"):
        auroc_differences(inlier={"a": [1.0], "b": [1.0]}, outlier={"a": [1.0], "c": [1.0]})
    with pytest.raises(InputError, match="same length, got 1 and 2"):
        auroc_differences(inlier={"a": [1.0], "b": [1.0, 2.0]}, outlier={"a": [1.0], "b": [1.0]})
    with pytest.raises(InputError, match="mapping of score names"):
        auroc_differences(inlier=[1.0], outlier={"a": [1.0], "b": [1.0]})
