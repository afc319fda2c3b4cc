from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError
from caveat.conformal import RankHistogram, conditional_p_values, p_values, select_outliers, select_outliers_from


def draw(seed, n, m, *, ties):
    rng = np.random.default_rng(seed)
    calibration = rng.normal(size=n)
    test = np.concatenate([rng.normal(size=m), rng.normal(rng.uniform(0, 4), size=int(rng.integers(0, m + 1)))])
    if ties:
        calibration, test = np.round(calibration * 2), np.round(test * 2)
    return rng, calibration, rng.permutation(test)


def merged(rng, calibration, test):
    """The histogram of the whole from parts of random sizes, some of them empty."""
    ends = np.sort(rng.integers(0, test.size + 1, size=4))
    return sum((RankHistogram.of(calibration=calibration, test=part) for part in np.split(test, ends)), start=None)


def test_by_hand():
    # Of 1, 2, 3, 3: none is at or above 9, two are at or above 3, three at or above 1.5, all at or above 0.
    counts = RankHistogram.of(calibration=[1, 2, 3, 3], test=[9, 3, 1.5, 0, 9])
    assert counts.counts.tolist() == [2, 0, 1, 1, 1]
    assert (counts.n, counts.m) == (4, 5)
    # p-values .2, .2, .6, .8, 1 against the lines .5 * (2, 2, 3, 4, 5) / 5 = .2, .2, .3, .4, .5
    assert counts.largest_p(0.5) == 0.2
    assert counts.largest_p(0.4) == 0


@given(
    st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 60), st.booleans(),
    st.sampled_from([0.05, 0.1, 0.2, 0.5]), st.sampled_from(["bh", "storey"]), st.sampled_from([0.3, 0.5, 0.75]),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_parts_select_what_all_p_values_together_select(seed, n, m, ties, q, method, cut):
    rng, calibration, test = draw(seed, n, m, ties=ties)
    largest = merged(rng, calibration, test).largest_p(q, method, threshold=cut)
    p = p_values(calibration=calibration, test=test)
    assert ((p <= largest) == select_outliers(p, q, method, threshold=cut)).all()
    assert largest == 0 or largest in p


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(["bh", "storey"]))
@settings(max_examples=30, deadline=None)
def test_conditional_p_values_are_a_function_of_the_rank_too(seed, ties, method):
    rng, calibration, test = draw(seed, 80, 50, ties=ties)
    largest = merged(rng, calibration, test).largest_p(0.3, method, delta=0.1)
    chosen = conditional_p_values(calibration=calibration, test=test, delta=0.1) <= largest
    assert (chosen == select_outliers_from(calibration=calibration, test=test, q=0.3, delta=0.1, method=method)).all()


def test_parts_add_up_in_any_order():
    rng, calibration, test = draw(0, 50, 40, ties=True)
    whole = RankHistogram.of(calibration=calibration, test=test)
    for _ in range(5):
        assert (merged(rng, calibration, rng.permutation(test)).counts == whole.counts).all()
    assert (RankHistogram.of(calibration=rng.permutation(calibration), test=test) + whole).m == 2 * whole.m


def test_no_rows_select_nothing():
    nothing = RankHistogram.of(calibration=[1.0, 2.0], test=[])
    assert nothing.m == 0
    assert nothing.largest_p(0.5) == nothing.largest_p(0.5, "storey") == 0


def test_infinite_scores_have_a_rank():
    counts = RankHistogram.of(calibration=[-np.inf, 0.0, np.inf], test=[np.inf, -np.inf]).counts
    assert counts.tolist() == [0, 1, 0, 1]


def test_errors():
    first = RankHistogram.of(calibration=[1.0, 2.0], test=[1.0])
    for other in ([1.0, 3.0], [1.0, 2.0, 3.0]):
        with pytest.raises(InputError, match="different calibration scores"):
            first + RankHistogram.of(calibration=other, test=[1.0])
    with pytest.raises(TypeError):
        first + 1
    with pytest.raises(InputError, match="test must be a vector"):
        RankHistogram.of(calibration=[1.0], test=[[1.0]])
    with pytest.raises(InputError, match="unknown selection method"):
        first.largest_p(0.1, "by")
    with pytest.raises(InputError, match="q must be"):
        first.largest_p(0)


@pytest.mark.parametrize(("counts", "words"), [
    (np.ones((2, 3, 4)), "non-empty vector"), ([], "non-empty vector"), ([3], "an entry more"),
    ([1, -1], "whole numbers from 0 on"), ([0.5, 1], "whole numbers from 0 on"), ([np.nan, 1], "NaN"),
    (["a", "b"], "real numbers"),
])  # fmt: skip
def test_counts_that_are_none_are_refused(counts, words):
    with pytest.raises(InputError, match=words):
        RankHistogram(counts, "fingerprint")


def test_counts_stay_whole_numbers():
    assert RankHistogram([1, 2.0], "x").counts.dtype == np.int64
    assert RankHistogram(np.array([0, 2**60 + 1]), "x").m == 2**60 + 1
    with pytest.raises(InputError, match="calibration must be"):
        RankHistogram([1, 2], 3)
