from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from caveat import InputError
from caveat.conformal import threshold_for_risk
from caveat.conformal.risk import least_rows


def test_by_hand():
    # 100 right answers, then 100 wrong ones. At t = 100 all 100 accepted are right: .95^100 = .006 <= .05, at t = 103
    # 3 of 103: P(Bin(103, .05) <= 3) = .23 > .05; at 101 one of 101: P(Bin(101, .05) <= 1) = .035, at 102 two: .108.
    score, correct = np.arange(200.0), np.arange(200) < 100
    found = threshold_for_risk(score=score, correct=correct, risk=0.05, delta=0.05)
    assert found.threshold == 101
    assert found.coverage.value == pytest.approx(101 / 200)


def literal(score, correct, risk, delta, thresholds):
    accepted = None
    for t in sorted(set(thresholds)):
        rows = [right for value, right in zip(score, correct, strict=True) if value < t]
        if (1 - risk) ** len(rows) > delta:
            continue
        if binom.cdf(len(rows) - sum(rows), len(rows), risk) > delta:
            break
        accepted = t
    return -math.inf if accepted is None else accepted


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.5]), st.sampled_from([0.01, 0.1]))
def test_equals_the_literal_walk(seed, risk, delta):
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 40, size=150) / 7
    correct = rng.random(150) > score / 12
    thresholds = rng.random(12) * 6
    found = threshold_for_risk(score=score, correct=correct, risk=risk, delta=delta, thresholds=thresholds)
    assert found.threshold == literal(score, correct, risk, delta, thresholds)


def test_too_few_rows_promise_nothing_and_say_how_many_would_do():
    found = threshold_for_risk(score=np.arange(40.0), correct=np.ones(40, bool), risk=0.05, delta=0.05)
    assert found.threshold == -math.inf
    assert not found.promise.holds
    assert "59 would carry 5 %" in str(found.promise)
    assert least_rows(0.05, 0.05) == 59
    enough = threshold_for_risk(score=np.arange(59.0), correct=np.ones(59, bool), risk=0.05, delta=0.05)
    assert enough.threshold > 58  # all rows are accepted


def test_a_poor_model_is_told_that_more_rows_would_not_help():
    found = threshold_for_risk(score=np.arange(400.0), correct=np.arange(400) % 2 == 0, risk=0.1, delta=0.05)
    assert "surest" in found.promise.remedy


def test_more_rows_are_asked_for_where_they_would_help():
    wrong = np.arange(300) % 50 == 0  # 2 %, too many for 4 % with 300 rows
    found = threshold_for_risk(score=np.arange(300.0), correct=~wrong, risk=0.04, delta=0.01)
    assert found.threshold == -math.inf
    assert "rows with errors as rare" in found.promise.remedy


@pytest.mark.parametrize("n", [200, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("slope", [0.2, 0.052])  # rising, and nearly flat just above the allowed risk
def test_the_promise_holds(n, slope):
    """Errors rise with the score: P(wrong | s < t) = slope * t for uniform scores and P(wrong | s) = 2 slope s."""
    rng, trials, risk, delta = np.random.default_rng(n), 2000, 0.05, 0.1
    broken = 0
    for _ in range(trials):
        score = rng.random(n)
        correct = rng.random(n) > 2 * slope * score
        t = threshold_for_risk(score=score, correct=correct, risk=risk, delta=delta).threshold
        broken += slope * min(t, 1.0) > risk
    assert broken / trials <= delta + 3 * math.sqrt(delta * (1 - delta) / trials)


def test_the_naive_threshold_breaks_what_this_one_keeps():
    rng, n, risk, slope = np.random.default_rng(0), 1000, 0.05, 0.2
    broken = 0
    for _ in range(200):
        score = np.sort(rng.random(n))
        wrong = rng.random(n) < 2 * slope * score
        below = np.cumsum(wrong) / np.arange(1, n + 1) <= risk
        broken += slope * score[np.flatnonzero(below)[-1]] > risk
    assert broken / 200 > 0.4


@pytest.mark.parametrize("bad", [{"risk": 0}, {"risk": 1.5}, {"delta": "x"}, {"correct": [True]}, {"thresholds": []}])
def test_bad_input_gets_a_sentence(bad):
    with pytest.raises(InputError):
        threshold_for_risk(**({"score": [1.0, 2.0], "correct": [True, False]} | bad))
