from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat.metrics import augrc, augrc_interval, aurc, auroc, risk_curve

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


def test_bootstrap_weights_equal_resampling_the_samples():
    # the same law: compare mean and spread with a plain bootstrap that draws samples and recomputes
    rng = np.random.default_rng(0)
    score, correct = rng.integers(0, 12, 80), rng.random(80) < 0.8
    plain = []
    for _ in range(3000):
        rows = rng.integers(0, 80, 80)
        plain.append(augrc(score=score[rows], correct=correct[rows]))
    found = augrc_interval(score=score, correct=correct, rng=np.random.default_rng(1), delta=0.1, resamples=3000)
    assert found.value == pytest.approx(augrc(score=score, correct=correct))
    lower, upper = np.quantile(plain, [0.05, 0.95])
    spread = np.std(plain)
    assert abs(found.lower - lower) < 0.15 * spread
    assert abs(found.upper - upper) < 0.15 * spread


def test_the_interval_is_reproducible_and_needs_a_generator():
    first, second = (augrc_interval(score=SCORE, correct=CORRECT, rng=np.random.default_rng(3)) for _ in range(2))
    assert first == second
    with pytest.raises(TypeError):
        augrc_interval(score=SCORE, correct=CORRECT)


def test_bad_input():
    with pytest.raises(InputError, match="same length, got 2 and 1"):
        augrc(score=[1, 2], correct=[1])
    with pytest.raises(InputError, match="score has NaN, first at row 0"):
        aurc(score=[np.nan], correct=[1])
    with pytest.raises(InputError, match="correct must hold booleans"):
        aurc(score=[1.0], correct=[2])
