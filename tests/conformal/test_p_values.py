from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat.conformal import p_values

ties = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=30)


def literal(calibration, test, tau):
    return np.array(
        [
            (sum(a > t for a in calibration) + u * (1 + sum(a == t for a in calibration))) / (len(calibration) + 1)
            for t, u in zip(test, tau, strict=True)
        ]
    )


def test_by_hand():
    # calibration 1 2 2 3, test 2: one above, two equal: (1 + 1 * (1 + 2)) / 5
    assert p_values(calibration=[1, 2, 2, 3], test=[2])[0] == pytest.approx(4 / 5)
    assert p_values(calibration=[1, 2, 2, 3], test=[9])[0] == pytest.approx(1 / 5)


@given(calibration=ties, test=ties)
def test_equals_the_literal_count(calibration, test):
    np.testing.assert_allclose(
        p_values(calibration=calibration, test=test), literal(calibration, test, np.ones(len(test)))
    )
    tau = np.random.default_rng(5).random(len(test))
    smoothed = p_values(calibration=calibration, test=test, rng=np.random.default_rng(5))
    np.testing.assert_allclose(smoothed, literal(calibration, test, tau))


def test_one_tau_per_object_is_shared_by_its_labels():
    smoothed = p_values(calibration=[1.0], test=[[0.0, 0.0], [0.0, 0.0]], rng=np.random.default_rng(0))
    assert smoothed[0, 0] == smoothed[0, 1] != smoothed[1, 0]


def test_smoothed_p_values_are_exactly_uniform_even_with_ties():
    # exchangeable integers with many ties: P(p <= t) = t for every t
    rng, trials = np.random.default_rng(0), 20_000
    data = rng.integers(0, 4, size=(trials, 11)).astype(float)
    p = np.array([p_values(calibration=row[1:], test=row[:1], rng=rng)[0] for row in data])
    for t in (0.05, 0.3, 0.77):
        assert abs((p <= t).mean() - t) < 4 * np.sqrt(t * (1 - t) / trials)


def test_deterministic_p_values_are_valid_and_conservative_with_ties():
    rng, trials = np.random.default_rng(1), 20_000
    data = rng.integers(0, 4, size=(trials, 11)).astype(float)
    p = np.array([p_values(calibration=row[1:], test=row[:1])[0] for row in data])
    for t in (0.05, 0.3, 0.77):
        assert (p <= t).mean() < t + 4 * np.sqrt(t * (1 - t) / trials)


def test_bad_input():
    with pytest.raises(InputError, match="test has NaN, first at row 1"):
        p_values(calibration=[1.0], test=[[0.0], [np.nan]])
    with pytest.raises(InputError, match="calibration must be a non-empty vector"):
        p_values(calibration=[], test=[1.0])
    with pytest.raises(InputError, match=r"test must have shape \(m,\) or \(m, C\)"):
        p_values(calibration=[1.0], test=np.zeros((1, 1, 1)))
