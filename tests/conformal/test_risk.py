from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from caveat import InputError
from caveat.conformal import threshold_for_risk
from caveat.conformal.risk import FIRST_SHARE, GRID, least_rows


def test_by_hand():
    # 100 right answers, then 100 wrong ones. At t = 100 all 100 accepted are right: .95^100 = .006 <= .05, at t = 103
    # 3 of 103: P(Bin(103, .05) <= 3) = .23 > .05; at 101 one of 101: P(Bin(101, .05) <= 1) = .035, at 102 two: .108.
    score, correct = np.arange(200.0), np.arange(200) < 100
    accept = threshold_for_risk(score=score, correct=correct, risk=0.05, delta=0.05)
    assert accept.threshold == 101
    assert accept.coverage.value == pytest.approx(101 / 200)


# -- a slow reference, written from the sheet --------------------------------------------------------------------------


def literal(score, correct, risk, delta, thresholds, *, fixed_start=False):
    accepted, delta = None, delta * (1 + 1e-12)  # 1 - .99 is a little more than .01 in floats
    for t in sorted(set(thresholds)):
        rows = [right for value, right in zip(score, correct, strict=True) if value < t]
        enough = (1 - risk) ** len(rows) <= delta
        if not enough and not fixed_start:
            continue
        if not enough or binom.cdf(len(rows) - sum(rows), len(rows), risk) > delta:
            break
        accepted = t
    return -math.inf if accepted is None else accepted


def literal_quantiles(score, first):
    """Values at evenly spread ranks from ``first`` up, and one above all."""
    ordered, n = sorted(score), len(score)
    ranks = sorted({int(rank) for rank in np.linspace(first, n - 1, min(GRID, n - first))}) if first < n else []
    return [*(ordered[rank] for rank in ranks), ordered[-1] + 1e-3]


def literal_first(n, risk, delta):
    """Rows below the first default threshold: the first number from 15 % up that just carries c = 1, 2, ... errors."""
    for errors in range(1, n):
        passing = binom.cdf(errors, np.arange(1, n + 1), risk) <= delta
        if not passing.any():
            break
        if (rows := int(np.argmax(passing)) + 1) >= FIRST_SHARE * n:
            if rows <= n / 2:
                return rows
            break
    return next((m for m in range(1, n + 1) if (1 - risk) ** m <= delta), n)


def draw(seed, n, *, ties):
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 40, size=n) / 7 if ties else 6 * rng.random(n)
    return rng, score, rng.random(n) > score / rng.choice([12, 60, 400])


@given(st.integers(0, 10_000), st.sampled_from([0.05, 0.2, 0.5, 0.99]), st.sampled_from([0.01, 0.1]), st.booleans())
def test_equals_the_literal_walk(seed, risk, delta, ties):
    rng, score, correct = draw(seed, 150, ties=ties)
    thresholds = rng.random(12) * 6
    accept = threshold_for_risk(score=score, correct=correct, risk=risk, delta=delta, thresholds=thresholds)
    assert accept.threshold == literal(score, correct, risk, delta, thresholds)


@given(st.integers(0, 10_000), st.integers(1, 400), st.sampled_from([0.05, 0.2]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_default_thresholds_equal_the_literal_walk(seed, n, risk, ties):
    _, score, correct = draw(seed, n, ties=ties)
    accept = threshold_for_risk(score=score, correct=correct, risk=risk, delta=0.1)
    thresholds = literal_quantiles(score, literal_first(n, risk, 0.1))
    expected = literal(score, correct, risk, 0.1, thresholds)
    assert (score < accept.threshold).tolist() == (score < expected).tolist()


@given(st.integers(0, 10_000), st.integers(2, 300), st.booleans())
@settings(max_examples=40, deadline=None)
def test_tuning_rows_fix_thresholds_and_start(seed, k, ties):
    rng, score, correct = draw(seed, 200, ties=ties)
    tuning = rng.integers(0, 40, size=k) / 7 if ties else 6 * rng.random(k)
    accept = threshold_for_risk(score=score, correct=correct, risk=0.2, delta=0.1, tuning=tuning)
    chance = 1 + 200 / k  # calibration and tuning counts both vary: two deviations more than the first test needs
    wanted = (math.sqrt(chance) + math.sqrt(chance + literal_first(200, 0.2, 0.1))) ** 2 / 200
    thresholds = literal_quantiles(tuning, math.ceil(min(wanted, 1) * k))
    thresholds[-1] = accept_all(tuning)
    thresholds = [t for t in thresholds if sum(tuning < t) >= min(wanted, 1) * k]
    assert accept.threshold == literal(score, correct, 0.2, 0.1, thresholds, fixed_start=True)


def accept_all(values):
    """One float64 step above the largest, unless a coarser float type holds all values."""
    for kind in (np.float16, np.float32, np.float64):
        if (np.asarray(values).astype(kind) == values).all():
            return float(np.nextafter(kind(max(values)), kind(np.inf)))
    raise AssertionError


def test_tuning_rows_that_tie_at_the_surest_score_do_not_stop_the_walk():
    rng = np.random.default_rng(3)
    sure = rng.random(1000) < 0.4  # a confidence of exactly 1
    score, tuning = (np.where(sure, -1.0, -rng.random(1000)) for _ in range(2))
    accept = threshold_for_risk(score=score, correct=sure | (rng.random(1000) < 0.5), tuning=tuning)
    assert accept.promise.holds
    assert accept.coverage.value >= sure.mean()


@pytest.mark.parametrize("errors", [0, 1, 2, 7])
@pytest.mark.parametrize(("risk", "delta"), [(0.05, 0.05), (0.01, 0.1), (0.5, 0.3)])
def test_least_rows_is_the_smallest_number_that_passes(risk, delta, errors):
    m = least_rows(risk, delta, errors=errors)
    assert binom.cdf(errors, m, risk) <= delta < binom.cdf(errors, m - 1, risk)


# -- properties --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_only_the_order_of_the_scores_counts(seed, ties):
    _, score, correct = draw(seed, 300, ties=ties)
    accept = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.1)
    other = threshold_for_risk(score=np.exp(score), correct=correct, risk=0.1, delta=0.1)
    assert ((score < accept.threshold) == (np.exp(score) < other.threshold)).all()


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_what_is_accepted_carries_its_promise(seed):
    _, score, correct = draw(seed, 300, ties=True)
    accept = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.1)
    chosen = score < accept.threshold
    assert accept.coverage.value == pytest.approx(chosen.mean())
    assert accept.coverage.lower <= chosen.mean() <= accept.coverage.upper
    assert accept.promise.holds == chosen.any()
    if chosen.any():
        assert binom.cdf((~correct[chosen]).sum(), chosen.sum(), 0.1) <= 0.1
    wider = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.1, thresholds=[accept.threshold])
    assert wider.threshold == accept.threshold


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_all_rows_are_accepted_also_where_scores_are_compared_in_a_coarse_type(kind):
    score = np.random.default_rng(0).random(500).astype(kind)
    accept = threshold_for_risk(score=score, correct=np.ones(500, bool), risk=0.05, delta=0.05)
    assert (score < accept.threshold).all()  # numpy rounds the threshold to the type of the scores
    assert accept.coverage.value == 1


# -- what cannot be promised -------------------------------------------------------------------------------------------


def test_too_few_rows_promise_nothing_and_say_how_many_would_do():
    few = threshold_for_risk(score=np.arange(40.0), correct=np.ones(40, bool), risk=0.05, delta=0.05)
    assert few.threshold == -math.inf
    assert not few.promise.holds
    assert "n = 59 would carry 5 %" in str(few.promise)
    enough = threshold_for_risk(score=np.arange(59.0), correct=np.ones(59, bool), risk=0.05, delta=0.05)
    assert enough.threshold > 58  # all rows are accepted


def test_a_poor_model_is_told_that_more_rows_would_not_help():
    accept = threshold_for_risk(score=np.arange(400.0), correct=np.arange(400) % 2 == 0, risk=0.1, delta=0.05)
    assert "surest" in accept.promise.remedy
    # 3 in 10 and a risk of .1 + .2, a little more in floats: no number of rows can tell them apart
    even = threshold_for_risk(score=np.zeros(400), correct=np.arange(400) % 10 > 2, risk=0.1 + 0.2, delta=0.05)
    assert "surest" in even.promise.remedy


def test_more_rows_are_asked_for_where_they_would_help_and_they_do():
    wrong = np.arange(300) % 50 == 0  # 2 %, too many for 4 % with 300 rows
    accept = threshold_for_risk(score=np.arange(300.0), correct=~wrong, risk=0.04, delta=0.01)
    assert accept.threshold == -math.inf
    assert "rows with errors as rare" in accept.promise.remedy
    n = int(accept.promise.remedy.split("n = ")[1].split()[0])
    rng = np.random.default_rng(0)
    kept = [
        threshold_for_risk(score=rng.random(n), correct=rng.random(n) > 0.02, risk=0.04, delta=0.01).promise.holds
        for _ in range(200)
    ]
    assert np.mean(kept) > 0.4  # "about": the errors of the surest rows vary


def test_thresholds_that_are_too_low_are_named():
    accept = threshold_for_risk(score=np.arange(500.0), correct=np.ones(500, bool), thresholds=[3.0, 9.0])
    assert "higher thresholds" in accept.promise.remedy
    assert "9" in accept.promise.remedy


# -- two promises ------------------------------------------------------------------------------------------------------


def test_two_promises_by_hand():
    # 1,000 rows, the last 100 wrong. Each promise gets .025. Errors: t = 950 has 50 of 950, P(Bin(950, .1) <= 50) =
    # 1e-7, and at 1,000 P(Bin(1000, .1) <= 100) = .53; abstentions: P(Bin(1000, .2) <= 176) = .031, with 175 .025.
    score, correct = np.arange(1000.0), np.arange(1000) < 900
    accept = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.05, abstention=0.2)
    assert accept.holds
    assert accept.confidence == pytest.approx(0.95)
    assert [promise.confidence for promise in accept.promises] == pytest.approx([0.975, 0.975])
    assert "Both hold together with 95 % confidence" in str(accept)
    alone = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.025)
    assert alone.threshold == accept.threshold  # the walk is that of the part of delta that is left
    assert json.loads(json.dumps(accept.to_dict()))["promises"][1]["what"] == "abstentions"


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([None, 0.01, 0.09]))
@settings(max_examples=40, deadline=None)
def test_both_are_promised_exactly_where_both_tests_pass(seed, abstention, part):
    _, score, correct = draw(seed, 300, ties=True)
    accept = threshold_for_risk(
        score=score, correct=correct, risk=0.1, delta=0.1, abstention=abstention, abstention_delta=part
    )
    part = 0.05 if part is None else part
    alone = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.1 - part)
    assert alone.threshold == accept.threshold
    assert alone.promise == accept.promise
    left_out = (score >= accept.threshold).sum()
    assert accept.abstention.holds == (alone.promise.holds and bool(binom.cdf(left_out, 300, abstention) <= part))
    assert accept.holds or "cannot both" in str(accept)


def test_two_promises_that_exclude_each_other_say_so_and_keep_the_first():
    score, correct = np.arange(1000.0), np.arange(1000) < 600  # with 90 % accepted a third is wrong
    accept = threshold_for_risk(score=score, correct=correct, risk=0.1, delta=0.05, abstention=0.1)
    assert accept.promise.holds
    assert not accept.abstention.holds
    assert not accept.holds
    assert "cannot both" in str(accept)
    assert "33." in accept.abstention.remedy


def test_two_promises_that_need_more_rows_say_how_many():
    score, correct = np.arange(500.0), np.arange(500) % 20 < 19  # 5 % wrong everywhere, and .995^500 = .08
    wanted = {"risk": 0.2, "delta": 0.05, "abstention": 0.005}
    accept = threshold_for_risk(score=score, correct=correct, **wanted)
    assert accept.promise.holds
    assert not accept.holds
    n = int(accept.abstention.remedy.split("n = ")[1].split()[0])
    assert 736 <= n < 850  # .995^736 = .025
    assert threshold_for_risk(score=np.arange(n), correct=np.arange(n) % 20 < 19, **wanted).holds


def test_nothing_accepted_promises_neither():
    accept = threshold_for_risk(score=np.arange(20.0), correct=np.ones(20, bool), abstention=0.5)
    assert [promise.holds for promise in accept.promises] == [False, False]
    assert accept.to_dict()["threshold"] is None


# -- the promise, by simulation ----------------------------------------------------------------------------------------

# P(wrong | s) for uniform scores, and the error among the accepted, P(wrong | s < t)
RISKS = {
    "rising": (lambda s: 0.4 * s, lambda t: 0.2 * t),
    "nearly flat": (lambda s: 0.104 * s, lambda t: 0.052 * t),
    "flat just above": (lambda s: 0.0501 + 0 * s, lambda t: 0.0501),
    "falling": (lambda s: np.where(s < 0.3, 0.08, 0.04), lambda t: 0.08 if t < 0.3 else (0.024 + 0.04 * (t - 0.3)) / t),
    "up and down": (lambda s: 0.05 + 0.02 * np.sin(20 * s), lambda t: 0.05 + (1 - math.cos(20 * t)) / (1000 * t)),
}


def broken(kind, n, delta, trials, *, tuning=False, ties=False, risk=0.05):
    """Share of calibration sets whose threshold has a true error above the promised one."""
    rng = np.random.default_rng(n)
    chance, among = RISKS[kind]
    count = 0
    for _ in range(trials):
        score = rng.random(n)
        correct = rng.random(n) > chance(score)
        others = rng.random(n) if tuning else None
        if ties:  # 25 values; a threshold above value v accepts all scores up to (v + 1) / 25
            score, others = np.floor(25 * score), None if others is None else np.floor(25 * others)
        t = threshold_for_risk(score=score, correct=correct, risk=risk, delta=delta, tuning=others).threshold
        t = math.ceil(t) / 25 if ties and t > 0 else t
        count += t > 0 and among(min(t, 1.0)) > risk
    return count / trials


def allowed(delta, trials):
    return delta + 3 * math.sqrt(delta * (1 - delta) / trials)


@pytest.mark.parametrize("kind", ["rising", "nearly flat", "flat just above"])
@pytest.mark.parametrize("ties", [False, True])
def test_the_promise_holds(kind, ties):
    assert broken(kind, 300, 0.1, 1000, ties=ties) <= allowed(0.1, 1000)


@pytest.mark.parametrize("kind", RISKS)
def test_with_tuning_rows_it_holds_whatever_the_error_does(kind):
    assert broken(kind, 300, 0.1, 1000, tuning=True) <= allowed(0.1, 1000)


def test_delta_is_spent():
    """A flat error just above the risk is accepted in nearly delta of the draws: the test wastes little."""
    assert broken("flat just above", 1000, 0.1, 1500) > 0.06


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 1000, 10_000])
@pytest.mark.parametrize("delta", [0.05, 0.1])
@pytest.mark.parametrize("kind", RISKS)
@pytest.mark.parametrize("ties", [False, True])
def test_the_promise_holds_at_length(kind, n, delta, ties):
    trials = 2000
    assert broken(kind, n, delta, trials, tuning=True, ties=ties) <= allowed(delta, trials)
    if kind not in ("falling", "up and down"):
        assert broken(kind, n, delta, trials, ties=ties) <= allowed(delta, trials)


@pytest.mark.parametrize("abstention", [0.5, 0.76])  # the truth: 1 - t; errors 0.2 t
def test_two_promises_hold_together(abstention):
    rng, n, risk, delta, trials = np.random.default_rng(7), 1000, 0.05, 0.1, 1000
    wrong_promises = uncovered = 0
    for _ in range(trials):
        score = rng.random(n)
        accept = threshold_for_risk(
            score=score, correct=rng.random(n) > 0.4 * score, risk=risk, delta=delta, abstention=abstention
        )
        t = min(max(accept.threshold, 0.0), 1.0)
        too_many = accept.abstention.holds and 1 - t > abstention
        wrong_promises += (accept.promise.holds and 0.2 * t > risk) or too_many
        uncovered += not accept.coverage.lower <= t <= accept.coverage.upper
    assert wrong_promises / trials <= allowed(delta, trials)
    assert uncovered / trials <= allowed(delta, trials)  # the interval of the coverage holds at the chosen threshold


def test_the_naive_threshold_breaks_what_this_one_keeps():
    rng, n, risk, slope = np.random.default_rng(0), 1000, 0.05, 0.2
    count = 0
    for _ in range(200):
        score = np.sort(rng.random(n))
        wrong = rng.random(n) < 2 * slope * score
        below = np.cumsum(wrong) / np.arange(1, n + 1) <= risk
        count += slope * score[np.flatnonzero(below)[-1]] > risk
    assert count / 200 > 0.4


# -- messages and assumptions ------------------------------------------------------------------------------------------


def test_the_promise_says_which_assumption_it_needs():
    rows = {"score": np.arange(300.0), "correct": np.ones(300, bool)}
    by_counts = threshold_for_risk(**rows).promise
    by_tuning = threshold_for_risk(**rows, tuning=np.arange(200.0)).promise
    single = threshold_for_risk(**rows, thresholds=[250]).promise
    assert "does not fall" in by_counts.assumption
    assert "counts" in by_counts.method
    for promise in (by_tuning, single):
        assert "does not fall" not in promise.assumption
        assert "fixed before" in promise.method


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"risk": 0}, "risk"),
        ({"risk": 1.5}, "risk"),
        ({"delta": "x"}, "delta"),
        ({"correct": [True]}, "same length"),
        ({"thresholds": []}, "thresholds"),
        ({"thresholds": [1.0], "tuning": [1.0, 3.0]}, "Give one of them"),
        ({"tuning": [1.0, 2.0]}, "other rows"),
        ({"tuning": [1.0, np.nan]}, "tuning has NaN"),
        ({"abstention": 1.0}, "abstention"),
        ({"abstention_delta": 0.01}, "abstention is None"),
        ({"abstention": 0.2, "abstention_delta": 0.05}, "below"),
    ],
)
def test_bad_input_gets_a_sentence(bad, words):
    with pytest.raises(InputError, match=words):
        threshold_for_risk(**({"score": [1.0, 2.0], "correct": [True, False]} | bad))


def test_a_tiny_risk_is_no_overflow():
    accept = threshold_for_risk(score=np.arange(50.0), correct=np.ones(50, bool), risk=1e-299, delta=0.05)
    assert accept.threshold == -math.inf
