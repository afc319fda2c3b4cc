from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError
from caveat.conformal import case_p_values, select_cases, select_outliers


def test_by_hand():
    # Cases without the condition score 3 and 4. Below 0 lies none: (0 + 1) / 5; up to 3 one: 2/5; up to 9 both: 3/5.
    p = case_p_values(calibration=[1, 2, 3, 4], satisfied=[True, True, False, False], test=[0, 3, 9])
    assert p.tolist() == [0.2, 0.4, 0.6]
    assert select_cases(
        calibration=[1, 2, 3, 4], satisfied=[True, True, False, False], test=[0, 3, 9], q=0.6
    ).tolist() == [True, True, True]  # lines .2, .4, .6


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(0, 20))
@settings(max_examples=60, deadline=None)
def test_equals_the_literal_formula(seed, n, m):
    rng = np.random.default_rng(seed)
    score, holds, test = rng.integers(0, 8, size=n), rng.random(n) < 0.5, rng.integers(0, 8, size=m)
    tau = np.random.default_rng(seed).random(m)
    expected, smoothed = [], []
    for s, u in zip(test, tau, strict=True):
        below = sum(a < s and not h for a, h in zip(score, holds, strict=True))
        tied = sum(a == s and not h for a, h in zip(score, holds, strict=True))
        expected.append((below + tied + 1) / (n + 1))
        smoothed.append((below + u * (tied + 1)) / (n + 1))
    arguments = {"calibration": score, "satisfied": holds, "test": test}
    assert case_p_values(**arguments) == pytest.approx(expected)
    assert case_p_values(**arguments, rng=seed) == pytest.approx(smoothed)
    chosen = select_cases(**arguments, q=0.3)
    assert (chosen == select_outliers(np.array(expected), 0.3)).all()
    for row in np.flatnonzero(chosen):  # a surer case is never left out
        assert chosen[test < test[row]].all()


def test_where_all_cases_satisfy_the_condition_only_n_limits_the_selection():
    score, test = np.arange(20.0), np.arange(5.0)
    everything = {"calibration": score, "satisfied": np.ones(20, bool), "test": test}
    assert select_cases(**everything, q=0.05).all()  # 1/21 <= .05
    assert not select_cases(**everything, q=0.04).any()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("q", [0.1, 0.2])
@pytest.mark.parametrize("power", [0.25, 1, 3])  # P(condition fails | doubt u) = u^power: 80, 50 and 25 % fail
def test_the_false_discovery_rate_is_kept_on_average(q, power, ties):
    """All test cases share one small calibration set; ties are broken at random, or not at all."""
    rng, n, m, trials = np.random.default_rng(5), 60, 40, 1500
    share, number = {"tau = 1": [], "tau random": []}, 0
    for _ in range(trials):
        doubt = rng.random(n + m)
        holds = rng.random(n + m) >= doubt**power
        if ties:
            doubt = np.round(doubt * 6)
        for name, tau in (("tau = 1", None), ("tau random", rng)):
            chosen = select_cases(calibration=doubt[:n], satisfied=holds[:n], test=doubt[n:], q=q, rng=tau)
            share[name].append((chosen & ~holds[n:]).sum() / max(1, chosen.sum()))
        number += chosen.sum() / trials
    for values in share.values():
        assert np.mean(values) <= q + 4 * np.std(values) / np.sqrt(trials)
    if power == 3:
        assert number > 5
        assert np.mean(share["tau random"]) > 0.5 * q  # the bound is used


@pytest.mark.parametrize("bound", [0.0, 0.8])
def test_outcomes_above_a_bound_are_selected_by_a_prediction(bound):
    """The condition y > c with a regression: the score is minus the prediction."""
    rng, q, trials = np.random.default_rng(6), 0.2, 600
    share = []
    for _ in range(trials):
        prediction = rng.normal(size=150)
        y = prediction + rng.normal(size=150)
        chosen = select_cases(calibration=-prediction[:100], satisfied=y[:100] > bound, test=-prediction[100:], q=q)
        share.append((chosen & (y[100:] <= bound)).sum() / max(1, chosen.sum()))
    assert np.mean(share) <= q + 4 * np.std(share) / np.sqrt(trials)


def test_errors():
    good = {"calibration": [1.0, 2.0], "satisfied": [True, False], "test": [1.0], "q": 0.1}
    for bad, words in (
        ({"satisfied": [True]}, "same length"),
        ({"satisfied": [0.5, 1.0]}, "satisfied must hold booleans"),
        ({"test": [[1.0]]}, "test must be a vector"),
        ({"calibration": [1.0, np.nan]}, "calibration has NaN"),
        ({"q": 1}, "q must be"),
    ):
        with pytest.raises(InputError, match=words):
            select_cases(**(good | bad))
