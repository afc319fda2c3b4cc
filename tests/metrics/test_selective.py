from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat.metrics import (
    augrc,
    aurc,
    auroc,
    coverage_at_risk,
    e_augrc,
    e_aurc,
    risk_at_coverage,
    risk_curve,
)

SCORE, CORRECT = [0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], [1, 1, 1, 0, 1, 1, 0, 0]
cases = st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=40)


def literal_curve(score, correct):
    """Accept everything at or below each distinct score in turn."""
    points = [(0.0, None, 0.0)]
    for cut in sorted(set(score)):
        accepted = [bool(c) for s, c in zip(score, correct, strict=True) if s <= cut]
        wrong = accepted.count(False)
        points.append((len(accepted) / len(score), wrong / len(accepted), wrong / len(score)))
    points[0] = (0.0, points[1][1], 0.0)
    return np.array(points, dtype=float).T


def test_known_answer():
    # from the metrics specification: AUROC_f = 0.9, AUGRC = 0.09375, AURC = 0.1174851
    assert augrc(score=SCORE, correct=CORRECT) == pytest.approx(0.09375)
    assert aurc(score=SCORE, correct=CORRECT) == pytest.approx(0.1174851, abs=5e-8)


@given(cases)
def test_curve_equals_the_literal_walk(case):
    score, correct = zip(*case, strict=True)
    curve = risk_curve(score=score, correct=correct)
    expected = literal_curve(score, correct)
    np.testing.assert_allclose([curve.coverage, curve.selective, curve.generalized], expected)


@given(cases)
def test_augrc_is_exactly_what_the_failure_auroc_says(case):
    score, correct = (np.array(values) for values in zip(*case, strict=True))
    a = correct.mean()
    value = augrc(score=score, correct=correct)
    if 0 < a < 1:
        failure = auroc(inlier=score[correct], outlier=score[~correct])
        assert value == pytest.approx((1 - failure) * a * (1 - a) + (1 - a) ** 2 / 2)
    else:
        assert value == pytest.approx((1 - a) ** 2 / 2)


def test_all_right_all_wrong_and_one_sample():
    assert augrc(score=[1, 2], correct=[1, 1]) == 0
    assert aurc(score=[1, 2], correct=[1, 1]) == 0
    assert augrc(score=[1, 2], correct=[0, 0]) == 0.5
    assert aurc(score=[1, 2], correct=[0, 0]) == 1
    assert augrc(score=[3], correct=[0]) == 0.5


def test_constant_scores_are_accepted_together():
    curve = risk_curve(score=[5, 5, 5, 5], correct=[1, 0, 1, 1])
    assert curve.coverage.tolist() == [0, 1]
    assert augrc(score=[5, 5, 5, 5], correct=[1, 0, 1, 1]) == pytest.approx(0.25 / 2)


def test_bad_input():
    with pytest.raises(InputError, match="same length, got 2 and 1"):
        augrc(score=[1, 2], correct=[1])
    with pytest.raises(InputError, match="score has NaN, first at row 0"):
        aurc(score=[np.nan], correct=[1])
    with pytest.raises(InputError, match="correct must hold booleans"):
        aurc(score=[1.0], correct=[2])


@given(cases)
def test_areas_are_the_trapezoids_of_the_curve(case):
    score, correct = zip(*case, strict=True)
    coverage, selective, generalized = literal_curve(score, correct)
    assert aurc(score=score, correct=correct) == pytest.approx(np.trapezoid(selective, coverage))
    assert augrc(score=score, correct=correct) == pytest.approx(np.trapezoid(generalized, coverage))


@given(cases)
def test_excess_is_never_negative_and_zero_for_a_perfect_ranking(case):
    score, correct = (np.array(values) for values in zip(*case, strict=True))
    assert e_aurc(score=score, correct=correct) >= 0
    assert e_augrc(score=score, correct=correct) >= 0
    perfect = np.arange(correct.size) + 100 * ~correct
    assert e_aurc(score=perfect, correct=correct) == pytest.approx(0, abs=1e-15)
    assert e_augrc(score=perfect, correct=correct) == 0
    error = 1 - correct.mean()
    assert e_augrc(score=score, correct=correct) == pytest.approx(augrc(score=score, correct=correct) - error**2 / 2)


def test_e_aurc_by_hand():
    # perfect order right, right, wrong, wrong: risks 0, 0, 0, 1/3, 1/2 at coverage 0, 1/4, 1/2, 3/4, 1:
    # area (0 + 0 + 1/6 + 5/12) / 4 = 7/48; constant score: risk 1/2 everywhere
    assert e_aurc(score=[1, 1, 1, 1], correct=[1, 1, 0, 0]) == pytest.approx(1 / 2 - 7 / 48)
    # errors first: risks 1, 1, 1, 2/3, 1/2: area (1 + 1 + 5/6 + 7/12) / 4
    assert e_aurc(score=[3, 4, 1, 2], correct=[1, 1, 0, 0]) == pytest.approx((3 + 5 / 12) / 4 - 7 / 48)


def test_e_aurc_reference_tends_to_the_known_limit():
    # Geifman et al.: err + (1 - err) log(1 - err) for large n
    correct = np.arange(200_000) % 5 > 0
    best = aurc(score=~correct + np.linspace(0, 0.5, correct.size), correct=correct)
    assert best == pytest.approx(0.2 + 0.8 * np.log(0.8), abs=1e-5)


@given(cases, st.sampled_from([0.1, 0.3, 0.5, 0.9, 1.0]))
def test_operating_points_equal_the_search_over_the_curve(case, level):
    score, correct = zip(*case, strict=True)
    coverage, selective, _ = literal_curve(score, correct)
    reached = [r for c, r in zip(coverage[1:], selective[1:], strict=True) if c >= level - 1e-9]
    assert risk_at_coverage(score=score, correct=correct, coverage=level) == pytest.approx(reached[0])
    safe = [c for c, r in zip(coverage[1:], selective[1:], strict=True) if r <= level + 1e-9]
    assert coverage_at_risk(score=score, correct=correct, risk=level) == pytest.approx(max(safe, default=0))


def test_operating_points_reject_nonsense():
    with pytest.raises(InputError, match="coverage must be above 0 and at most 1, got 0"):
        risk_at_coverage(score=[1], correct=[1], coverage=0)
    with pytest.raises(InputError, match="risk must be .* at most 1, got 2"):
        coverage_at_risk(score=[1], correct=[1], risk=2)


def test_thresholds_of_the_curve_accept_what_they_say():
    curve = risk_curve(score=[0.3, 0.1, 0.1, np.inf], correct=[1, 1, 0, 0])
    assert curve.threshold.tolist() == [-np.inf, 0.1, 0.3, np.inf]
    assert curve.coverage.tolist() == [0, 0.5, 0.75, 1]
