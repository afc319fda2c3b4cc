from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.metrics import augrc, augrc_interval, aurc, aurc_interval, selective_intervals

SCORE, CORRECT = [0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9], [1, 1, 1, 0, 1, 1, 0, 0]
BOTH = pytest.mark.parametrize(("interval", "metric"), [(augrc_interval, augrc), (aurc_interval, aurc)])


@BOTH
def test_counted_resamples_equal_resampling_and_recomputing(interval, metric):
    # the same generator draws the same rows, so the intervals are equal, not only alike
    rng = np.random.default_rng(0)
    score, correct = rng.integers(0, 12, 80), rng.random(80) < 0.8
    found = interval(score=score, correct=correct, rng=np.random.default_rng(1), delta=0.1, resamples=300)
    again, plain = np.random.default_rng(1), []
    for _ in range(300):
        rows = again.integers(80, size=80)
        plain.append(metric(score=score[rows], correct=correct[rows]))
    assert [found.lower, found.upper] == pytest.approx(np.quantile(plain, [0.05, 0.95]))
    assert found.value == pytest.approx(metric(score=score, correct=correct))


@BOTH
def test_the_interval_covers_the_truth(interval, metric):
    # the truth: the metric of a very large sample of the same law
    rng, trials, delta = np.random.default_rng(2), 150, 0.1

    def sample(n):
        correct = rng.random(n) < 0.7
        return rng.normal(size=n) + 1.2 * ~correct, correct

    score, correct = sample(400_000)
    truth, hits = metric(score=score, correct=correct), 0
    for _ in range(trials):
        score, correct = sample(200)
        found = interval(score=score, correct=correct, rng=rng, delta=delta, resamples=200)
        hits += found.lower <= truth <= found.upper
    # percentile intervals at n = 200 lose a little: 0.03 is allowed for that, 4 sigma for the draw
    assert hits / trials >= 1 - delta - 0.03 - 4 * np.sqrt(delta * (1 - delta) / trials)


@BOTH
def test_the_interval_is_reproducible_and_needs_a_generator(interval, metric):
    first, second = (interval(score=SCORE, correct=CORRECT, rng=np.random.default_rng(3)) for _ in range(2))
    assert first == second
    with pytest.raises(TypeError):
        interval(score=SCORE, correct=CORRECT)


@BOTH
def test_an_interval_of_few_errors_says_so(interval, metric):
    # 2 % errors, n = 200: 4 errors on average, and the 95 % interval covers the truth in three of four draws
    rng = np.random.default_rng(5)
    score = rng.normal(size=200)
    one, many = np.arange(200) > 0, np.arange(200) >= 30
    assert "rests on 1 error:" in interval(score=score, correct=one, rng=rng, resamples=50).caveat
    assert interval(score=score, correct=many, rng=rng, resamples=50).caveat == ""


@BOTH
def test_all_right_and_all_wrong_still_have_doubt(interval, metric):
    rng = np.random.default_rng(0)
    right = interval(score=np.arange(50), correct=np.ones(50), rng=rng)
    assert (right.value, right.lower) == (0, 0)
    assert 0.03 < right.upper < 0.35
    assert "Every answer is right" in right.caveat
    wrong = interval(score=np.arange(50), correct=np.zeros(50), rng=rng)
    assert wrong.value == wrong.upper == metric(score=np.arange(50), correct=np.zeros(50))
    assert wrong.lower < wrong.value
    assert "Every answer is wrong" in wrong.caveat


def test_bounds_without_errors_by_hand():
    # n = 50, no error: Clopper-Pearson upper e = 1 - 0.025^(1/50); errors accepted first: e - e^2 / 2
    e = 1 - 0.025 ** (1 / 50)
    found = augrc_interval(score=np.arange(50), correct=np.ones(50), rng=np.random.default_rng(0))
    assert found.upper == pytest.approx(e - e**2 / 2)
    found = aurc_interval(score=np.arange(50), correct=np.ones(50), rng=np.random.default_rng(0))
    assert found.upper == pytest.approx(e - e * np.log(e))


def test_constant_scores_and_bad_input():
    found = augrc_interval(score=np.ones(40), correct=np.arange(40) % 4 > 0, rng=np.random.default_rng(0))
    assert found.lower < found.value == 0.125 < found.upper
    with pytest.raises(InputError, match="delta must be strictly between"):
        augrc_interval(score=[1], correct=[1], rng=np.random.default_rng(0), delta=0)
    with pytest.raises(InputError, match="resamples must be a whole number, at least 1, got 0"):
        aurc_interval(score=[1], correct=[1], rng=np.random.default_rng(0), resamples=0)


def test_both_from_the_same_resamples_are_those_of_each_alone():
    # each alone draws from the same state of the generator, so the intervals are equal, not only alike
    found = selective_intervals(score=SCORE, correct=CORRECT, rng=np.random.default_rng(3), resamples=50)
    for name, interval in (("aurc", aurc_interval), ("augrc", augrc_interval)):
        assert found[name] == interval(score=SCORE, correct=CORRECT, rng=np.random.default_rng(3), resamples=50)
    right = selective_intervals(score=SCORE, correct=[1] * 8, rng=np.random.default_rng(3))
    assert right["augrc"] == augrc_interval(score=SCORE, correct=[1] * 8, rng=np.random.default_rng(3))
    with pytest.raises(InputError, match="unknown selective metric 'augcr'"):
        selective_intervals(score=SCORE, correct=CORRECT, rng=np.random.default_rng(3), metrics=["augcr"])
