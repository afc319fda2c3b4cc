from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError
from caveat.conformal import e_values, p_values, select_by_e_values, select_outliers


def test_selection_by_hand():
    # m = 4, q = .2: lines 20, 10, 6.67, 5. The third largest, 7, passes though the second, 9, misses its line.
    assert select_by_e_values([9.0, 30.0, 7.0, 4.0], q=0.2).tolist() == [True, True, True, False]
    assert not select_by_e_values([19.0, 9.0, 6.0, 4.0], q=0.2).any()
    assert select_by_e_values([np.inf, 0.0], q=0.2).tolist() == [True, False]
    assert select_by_e_values([], q=0.2).shape == (0,)


def test_equal_e_values_are_selected_together_and_rounding_does_not_lose_one():
    assert select_by_e_values([30.0, 0.0, 0.0], q=0.1).tolist() == [True, False, False]
    assert select_by_e_values([5.0] * 4, q=0.2).all()


def test_e_values_by_hand():
    # n = 9, m = 4, q = .5. t = 7.5: 2 calibration scores at or above it, 4/10 * 3/2 = .6 > .5. t = 9: one, 4/10 * 2/2
    # = .4 <= .5, and t = 8 (a calibration score): two, .6. So t = 9: e = 10 / 2.
    found = e_values(calibration=np.arange(1, 10), test=[0.5, 3.5, 9.0, 12.0], q=0.5)
    assert found.tolist() == [0, 0, 5, 5]
    # With 9.5 in place of 9 no calibration score is above, but t may go down to 9 and still pass: again 10 / 2.
    assert e_values(calibration=np.arange(1, 10), test=[0.5, 3.5, 9.5, 12.0], q=0.5).tolist() == [0, 0, 5, 5]
    assert e_values(calibration=np.arange(1, 10), test=[0.5, 3.5], q=0.1).tolist() == [0, 0]


def literal(calibration, test, q):
    n, m = len(calibration), len(test)
    for t in sorted([*calibration, *test]):
        exceeding, chosen = sum(a >= t for a in calibration), sum(s >= t for s in test)
        if chosen and m * (1 + exceeding) <= q * (1 + 1e-12) * chosen * (n + 1):
            return [(n + 1) * (s >= t) / (1 + exceeding) for s in test]
    return [0.0] * m


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 40), st.booleans(), st.sampled_from([0.1, 0.3]))
@settings(max_examples=100, deadline=None)
def test_equal_the_literal_formula_and_select_what_benjamini_hochberg_selects(seed, n, m, ties, q):
    rng = np.random.default_rng(seed)
    calibration, test = rng.normal(size=n), rng.normal(rng.choice([0, 3], size=m))
    if ties:
        calibration, test = np.round(calibration * 2), np.round(test * 2)
    found = e_values(calibration=calibration, test=test, q=q)
    assert found == pytest.approx(literal(calibration, test, q))
    assert (select_by_e_values(found, q) == select_outliers(p_values(calibration=calibration, test=test), q)).all()


@pytest.mark.parametrize("outliers", [0, 10, 30])
@pytest.mark.parametrize("q", [0.1, 0.5])
def test_e_values_of_inliers_sum_to_at_most_m(outliers, q):
    rng, m, trials = np.random.default_rng(outliers), 40, 1500
    sums = []
    for _ in range(trials):
        test = np.concatenate([rng.normal(3, size=outliers), rng.normal(size=m - outliers)])
        sums.append(e_values(calibration=rng.normal(size=60), test=test, q=q)[outliers:].sum())
    # The sum can be as large as (n + 1) m, so its mean has heavy tails; what theory gives is m - outliers.
    assert np.mean(sums) <= m - outliers + 4 * np.std(sums) / np.sqrt(trials)


@pytest.mark.parametrize("q", [0.1, 0.2])
@pytest.mark.parametrize("inliers", [15, 30, 36])
def test_averages_over_dependent_calibration_sets_keep_the_false_discovery_rate(q, inliers):
    rng, m, trials = np.random.default_rng(1), 40, 250
    share, caught = [], 0
    for _ in range(trials):
        test = np.concatenate([rng.normal(size=inliers), rng.normal(4, size=m - inliers)])
        pool = rng.normal(size=300)  # overlapping halves of one pool: strongly dependent
        runs = [e_values(calibration=rng.permutation(pool)[:150], test=test, q=q / 2) for _ in range(5)]
        chosen = select_by_e_values(np.mean(runs, axis=0), q)
        share.append(chosen[:inliers].sum() / max(1, chosen.sum()))
        caught += chosen[inliers:].mean() / trials
    assert np.mean(share) <= q * inliers / m + 4 * np.std(share) / np.sqrt(trials)
    assert caught > 0.2 or inliers == 36  # four outliers among 40 need p <= q / 20, and 150 scores give 1/151


def test_errors():
    with pytest.raises(InputError, match="e_values must be 0 or larger"):
        select_by_e_values([1.0, -1.0], 0.1)
    with pytest.raises(InputError, match="vector"):
        select_by_e_values([[1.0]], 0.1)
    with pytest.raises(InputError, match="q must be"):
        e_values(calibration=[1.0], test=[1.0], q=1)
    with pytest.raises(InputError, match="test must be a vector"):
        e_values(calibration=[1.0], test=[[1.0]], q=0.1)
