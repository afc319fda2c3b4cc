from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from caveat.conformal.hoeffding import hoeffding_bentkus_p_values, hoeffding_lower


def entropy(a, b):
    parts = [p * math.log(p / q) for p, q in ((a, b), (1 - a, 1 - b)) if p > 0]
    return sum(parts)


@given(st.integers(0, 100), st.sampled_from([0.05, 0.1, 0.37, 0.9]))
def test_p_values_are_the_printed_formula(k, mean):
    found = hoeffding_bentkus_p_values(np.array([k / 100]), 100, mean)[0]
    hoeffding = math.exp(-100 * entropy(min(k / 100, mean), mean))
    assert found == pytest.approx(min(1, hoeffding, math.e * binom.cdf(k, 100, mean)))


@given(st.floats(0, 1), st.integers(1, 2000), st.sampled_from([0.2, 0.01]))
def test_the_lower_bound_solves_its_equation(average, n, delta):
    bound = hoeffding_lower(average, n, delta)
    assert 0 <= bound <= average
    if 1e-9 < bound < average - 1e-9:
        assert n * entropy(average, bound) == pytest.approx(math.log(1 / delta), rel=1e-3)


def test_known_ends():
    assert hoeffding_lower(1.0, 20, 0.05) == pytest.approx(0.05 ** (1 / 20))
    assert hoeffding_lower(0.0, 20, 0.05) == 0.0
    assert hoeffding_lower(1e-9, 5, 0.05) == 0.0


@pytest.mark.parametrize("p", [0.5, 0.95])
def test_the_lower_bound_keeps_its_promise(p):
    rng, trials, n, delta = np.random.default_rng(0), 4000, 40, 0.1
    failed = np.mean([hoeffding_lower(k / n, n, delta) > p for k in rng.binomial(n, p, trials)])
    assert failed <= delta
