"""Rounding of scores: never turns an order around, ties what differs in the last bits, keeps sure rows apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from caveat._internal.rounding import NEAR_MINUS_ONE, Rounding, to_digits

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(values=st.lists(finite, min_size=2, max_size=20), unit=st.sampled_from([0.0, 2.0**-9, 1.0, 1024.0]))
def test_order_stays(values, unit):
    rounded = Rounding(unit=unit)(np.sort(np.array(values)))
    assert (np.diff(rounded) >= 0).all()
    np.testing.assert_array_equal(Rounding(unit=unit)(rounded), rounded)


def test_noise_between_machines_is_tied_but_for_one_in_a_million():
    rng = np.random.default_rng(0)
    scores = rng.lognormal(size=10**6)
    noisy = scores * (1 + 1e-14 * rng.normal(size=scores.size))
    assert np.count_nonzero(Rounding()(scores) != Rounding()(noisy)) <= 8  # 0.13 expected


def test_a_difference_of_large_numbers_has_their_noise():
    rng = np.random.default_rng(0)
    one, other = rng.normal(500, 5, size=(2, 10**5))
    noisy = one * (1 + 1e-14 * rng.normal(size=one.size)) - other
    rounding = Rounding(unit=512.0)
    assert np.count_nonzero(rounding(one - other) != rounding(noisy)) <= 4
    assert rounding.step == 512 * 2.0**-23


def test_sure_rows_stay_apart():
    p = np.array([1 - 1e-9, 1 - 2e-9, 0.3])
    assert np.unique(NEAR_MINUS_ONE(-p)).size == 3
    assert np.unique(Rounding()(-p)).size == 2  # not so by their distance from 0
    assert np.unique(Rounding()(np.array([1e-9, 1e-20, 1e-90, 1.1e-90]))).size == 4


def test_probabilities_keep_thirty_digits():
    rng = np.random.default_rng(0)
    p = rng.random(1000) ** 9
    np.testing.assert_allclose(to_digits(p), p, rtol=2**-30)
    assert (to_digits(p * (1 + 2e-16)) == to_digits(p)).mean() > 0.999
    narrow = p.astype(np.float32)
    assert to_digits(narrow) is narrow
    np.testing.assert_array_equal(to_digits(np.array([0.0, 1.0, 1e-300])), [0.0, 1.0, to_digits(np.array([1e-300]))[0]])
