"""P-values within groups against a literal count."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.conformal import p_values
from caveat.errors import InputError


def literal(a, groups, asked, group, tau):
    inside = [v for v, g in zip(a, groups, strict=True) if g == group]
    above, equal = sum(v > asked for v in inside), sum(v == asked for v in inside)
    return (above + tau * (1 + equal)) / (len(inside) + 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_group_p_values_are_the_literal_count(data):
    n, m = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    known, groups = rng.integers(0, 5, n).astype(float), rng.integers(0, 3, n)
    asked, asked_groups = rng.integers(-1, 6, (m, 2)).astype(float), rng.choice(groups, m)
    seed = int(rng.integers(100))
    tau = np.random.default_rng(seed).random(m)
    for smoothing, taus in ((None, np.ones(m)), (np.random.default_rng(seed), tau)):
        found = p_values(
            calibration=known, test=asked, rng=smoothing, calibration_groups=groups, test_groups=asked_groups
        )
        for i in range(m):
            for j in range(2):
                assert found[i, j] == pytest.approx(literal(known, groups, asked[i, j], asked_groups[i], taus[i]))


def test_one_group_is_the_marginal_p_value():
    rng = np.random.default_rng(0)
    known, asked = rng.normal(size=30), rng.normal(size=(5, 4))
    plain = p_values(calibration=known, test=asked)
    grouped = p_values(calibration=known, test=asked, calibration_groups=["x"] * 30, test_groups=["x"] * 5)
    np.testing.assert_array_equal(plain, grouped)


def test_groups_named_as_a_pandas_column_names_them():
    site = np.array(["north", "south", "north"], dtype=object)
    found = p_values(calibration=[1, 2, 3], test=[2, 2, 2], calibration_groups=site, test_groups=site)
    assert found.tolist() == [2 / 3, 1.0, 2 / 3]
    with pytest.raises(InputError, match="whole numbers or strings, got dtype object"):
        p_values(calibration=[1, 2], test=[1], calibration_groups=np.array(["a", None]), test_groups=["a"])


def test_many_groups_cost_one_sort():
    # 30,000 groups by a look at all rows each would take a minute.
    rng, n = np.random.default_rng(0), 60_000
    known, groups = rng.random(n), rng.permutation(n) // 2
    found = p_values(calibration=known, test=known, calibration_groups=groups, test_groups=groups)
    # of the two in a group the larger has itself above or level: 2 of 3, the smaller has both: 1
    assert sorted(set(found.tolist())) == [2 / 3, 1.0]
    assert found.mean() == pytest.approx(5 / 6)


def test_unseen_groups():
    with pytest.raises(InputError, match="group 7 at row 1 was not seen in calibration"):
        p_values(calibration=[1, 2], test=[1, 1], calibration_groups=[0, 0], test_groups=[0, 7])
    found = p_values(calibration=[1, 2], test=[1, 1], calibration_groups=[0, 0], test_groups=[0, 7], unseen="all")
    assert found.tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="or neither"):
        p_values(calibration=[1, 2], test=[1], calibration_groups=[0, 0])
