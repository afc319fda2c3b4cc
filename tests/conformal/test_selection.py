from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from caveat.conformal import conditional_p_values, p_values, select_outliers, select_outliers_from
from caveat.errors import InputError

some = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_by_hand():
    # Lines 0.02, 0.04, 0.06, 0.08, 0.1: 0.01, 0.045, 0.055 pass at i = 3 though 0.045 misses its own line 0.04.
    assert select_outliers([0.055, 0.9, 0.01, 0.045, 0.3], q=0.1).tolist() == [True, False, True, True, False]


def test_storey_by_hand():
    # BH lines: 0.0167, 0.033, 0.05, 0.067, 0.083, 0.1. One of six p-values is above 0.5, so at most (1 + 1) / 0.5 = 4
    # are taken for inliers and the lines are 0.025, 0.05, 0.075, 0.1, 0.125, 0.15: the fifth passes.
    p = [0.01, 0.02, 0.09, 0.1, 0.12, 0.9]
    assert select_outliers(p, q=0.1).tolist() == [True, True, False, False, False, False]
    assert select_outliers(p, q=0.1, method="storey").tolist() == [True, True, True, True, True, False]
    # With the 1 left out it would be 2, and 0.06 would pass the line 0.1.
    few = [0.01, 0.06, 0.2, 0.3, 0.4, 0.9]
    assert select_outliers(few, q=0.1, method="storey").tolist() == [True, False, False, False, False, False]
    # Two above 0.5: (1 + 2) / 0.5 = 6 is no fewer than all, and Storey is BH.
    assert select_outliers([0.01, 0.04, 0.9, 0.8], q=0.1, method="storey").tolist() == [True, True, False, False]
    assert select_outliers([0.01, 0.06, 0.9, 0.8], q=0.1, method="storey").tolist() == [True, False, False, False]


@given(some, st.floats(0.01, 0.5))
@settings(max_examples=80, deadline=None)
def test_agrees_with_scipy(p, q):
    adjusted = false_discovery_control(p)
    clear = np.abs(adjusted - q) > 1e-9
    assert (select_outliers(p, q)[clear] == (adjusted <= q)[clear]).all()


@given(some)
@settings(max_examples=50, deadline=None)
def test_more_risk_selects_more_and_storey_more_than_bh(p):
    few, many = select_outliers(p, 0.05), select_outliers(p, 0.2)
    assert (many | ~few).all()
    assert (select_outliers(p, 0.2, "storey") | ~many).all()


def test_ties_are_selected_together_and_rounding_does_not_lose_a_rank():
    assert select_outliers([0.1] * 4 + [1.0] * 4, q=0.2).tolist() == [True] * 4 + [False] * 4
    # p = 3/30 against the line 0.3 * 1/3: equal, though 0.3 / 3 < 0.1 in floats.
    assert select_outliers([3 / 30, 0.9, 0.9], q=0.3).tolist() == [True, False, False]


def test_empty_and_none():
    assert select_outliers([], q=0.1).shape == (0,)
    assert not select_outliers([0.9, 0.8], q=0.1).any()
    assert select_outliers([0.0, 0.0], q=0.1).all()


@pytest.mark.parametrize("method", ["bh", "storey"])
def test_false_discovery_rate_is_kept(method):
    # 40 test points, 30 of them inliers; 49 calibration scores. On average over calibration sets FDR <= q.
    rng, q, trials = np.random.default_rng(2), 0.2, 3000
    share, found = [], 0
    for _ in range(trials):
        test = np.concatenate([rng.normal(size=30), rng.normal(3, size=10)])
        chosen = select_outliers_from(calibration=rng.normal(size=49), test=test, q=q, method=method)
        share.append(chosen[:30].sum() / max(1, chosen.sum()))
        found += chosen[30:].sum()
    assert np.mean(share) < q + 4 * np.std(share) / np.sqrt(trials)
    assert np.mean(share) > 0.1  # BH: 0.2 * 30/40 = 0.15 at most, nearly reached
    assert found / trials > 3


@pytest.mark.parametrize("method", ["bh", "storey"])
def test_false_discovery_rate_is_kept_given_the_calibration_set(method):
    # For all but a share delta of calibration sets, the FDR over test sets is at most q. Marginal p-values break that.
    rng, q, delta, sets, tests = np.random.default_rng(3), 0.2, 0.1, 150, 150
    broken = {"marginal": 0, "conditional": 0}
    for _ in range(sets):
        calibration = rng.normal(size=100)
        test = np.concatenate([rng.normal(size=(tests, 15)), rng.normal(4, size=(tests, 5))], axis=1)
        for name, p in (
            ("marginal", p_values(calibration=calibration, test=test)),
            ("conditional", conditional_p_values(calibration=calibration, test=test, delta=delta)),
        ):
            chosen = np.array([select_outliers(row, q, method) for row in p])
            share = chosen[:, :15].sum(axis=1) / np.maximum(1, chosen.sum(axis=1))
            broken[name] += share.mean() > q + 3 * share.std() / np.sqrt(tests)
    assert broken["conditional"] / sets <= delta + 4 * np.sqrt(delta * (1 - delta) / sets)
    assert broken["marginal"] > broken["conditional"]


def test_conditional_selection_is_the_composition():
    rng = np.random.default_rng(4)
    calibration, test = rng.normal(size=400), rng.normal(2, size=60)
    p = conditional_p_values(calibration=calibration, test=test, delta=0.1)
    chosen = select_outliers_from(calibration=calibration, test=test, q=0.2, delta=0.1)
    assert (chosen == select_outliers(p, 0.2)).all()
    assert (select_outliers_from(calibration=calibration, test=test, q=0.2) | ~chosen).all()


def test_errors():
    for q in (0, 1, -0.1, np.nan):
        with pytest.raises(InputError, match="q must be strictly between 0 and 1"):
            select_outliers([0.1], q)
    with pytest.raises(InputError, match="p_values has NaN, first at row 1"):
        select_outliers([0.1, np.nan], 0.1)
    with pytest.raises(InputError, match="p_values must be a vector"):
        select_outliers([[0.1]], 0.1)
    with pytest.raises(InputError, match="unknown selection method 'storry'"):
        select_outliers([0.1], 0.1, "storry")
