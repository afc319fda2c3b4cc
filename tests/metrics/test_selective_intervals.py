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
    found = interval(score=score, correct=correct, method="bootstrap", rng=1, delta=0.1, resamples=300)
    again, plain = np.random.default_rng(1), []
    for _ in range(300):
        rows = again.integers(80, size=80)
        plain.append(metric(score=score[rows], correct=correct[rows]))
    assert [found.lower, found.upper] == pytest.approx(np.quantile(plain, [0.05, 0.95]))
    assert found.value == pytest.approx(metric(score=score, correct=correct))


def sample(n, rate, shift, rng):
    correct = rng.random(n) >= rate
    return {"score": rng.normal(size=n) + shift * ~correct, "correct": correct}


def truth(metric, rate, shift):
    return metric(**sample(1_000_000, rate, shift, np.random.default_rng(9)))


@BOTH
@pytest.mark.parametrize(("n", "rate", "shift"), [(30, 0.5, 2.3), (100, 0.2, 2.3), (300, 0.2, 0.0), (1000, 0.05, 2.3)])
def test_the_interval_covers_the_truth(interval, metric, n, rate, shift):
    rng, trials, level = np.random.default_rng(n), 500, 0.95
    area, intervals = truth(metric, rate, shift), [interval(**sample(n, rate, shift, rng)) for _ in range(trials)]
    hits = np.mean([found.lower <= area <= found.upper for found in intervals])
    # the committed table has 0.94 to 0.97 for these cases: 0.02 for that, 4 sigma for the draw
    assert abs(hits - level) <= 0.02 + 4 * np.sqrt(level * (1 - level) / trials)


@BOTH
@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_few_errors_are_covered_more_often_than_by_the_bootstrap(interval, metric, rate):
    # 5 or 10 errors in 100 rows: percentiles miss large values, the interval on the logit scale does not
    rng, trials, area, hits = np.random.default_rng(4), 200, truth(metric, rate, 1.5), {}
    rows = [sample(100, rate, 1.5, rng) for _ in range(trials)]
    for method in ("influence", "bootstrap"):
        ends = [interval(**row, method=method, rng=i, resamples=200) for i, row in enumerate(rows)]
        hits[method] = np.mean([found.lower <= area <= found.upper for found in ends])
    assert hits["influence"] >= max(0.9, hits["bootstrap"])


@BOTH
def test_the_interval_stays_within_what_is_possible(interval, metric):
    largest = {augrc: 0.5, aurc: 1.0}[metric]
    for errors in (1, 2, 19):
        found = interval(score=np.arange(20), correct=np.arange(20) >= errors, delta=0.001)
        assert 0 <= found.lower < found.value < found.upper <= largest


@BOTH
def test_a_smaller_delta_gives_a_longer_interval(interval, metric):
    long, short = (interval(score=SCORE, correct=CORRECT, delta=delta) for delta in (0.01, 0.2))
    assert long.lower < short.lower < short.upper < long.upper


@BOTH
def test_the_interval_needs_no_generator_and_the_bootstrap_follows_its_seed(interval, metric):
    options = {"score": SCORE, "correct": CORRECT}
    assert interval(**options) == interval(**options, rng=5)
    first, again, other = (interval(**options, method="bootstrap", rng=seed) for seed in (3, 3, 4))
    assert first == again != other
    assert (interval(**options).method, first.method) == ("influence function", "bootstrap")


@BOTH
def test_an_interval_of_few_errors_says_so(interval, metric):
    rng = np.random.default_rng(5)
    score = rng.normal(size=400)
    one, many = np.arange(400) > 0, np.arange(400) >= 60
    assert "rests on 1 error:" in interval(score=score, correct=one).caveat
    assert interval(score=score, correct=many).caveat == ""
    assert (
        "bootstrap interval is too narrow"
        in interval(score=score, correct=np.arange(400) >= 20, method="bootstrap", resamples=50).caveat
    )
    assert interval(score=score, correct=many, method="bootstrap", resamples=50).caveat == ""


@BOTH
def test_a_few_rows_that_carry_the_area_are_told(interval, metric):
    # 60 errors at the end of 4,000 rows hardly count; two at the start do
    correct = np.arange(4000) < 3940
    assert interval(score=np.arange(4000), correct=correct).caveat == ""
    correct[:2] = False
    assert "A few rows carry most of it" in interval(score=np.arange(4000), correct=correct).caveat


@BOTH
def test_all_right_and_all_wrong_still_have_doubt(interval, metric):
    right = interval(score=np.arange(50), correct=np.ones(50))
    assert (right.value, right.lower) == (0, 0)
    assert 0.03 < right.upper < 0.35
    assert "Every answer is right" in right.caveat
    wrong = interval(score=np.arange(50), correct=np.zeros(50))
    assert wrong.value == wrong.upper == metric(score=np.arange(50), correct=np.zeros(50))
    assert wrong.lower < wrong.value
    assert "Every answer is wrong" in wrong.caveat


def test_bounds_without_errors_by_hand():
    # n = 50, no error: Clopper-Pearson upper e = 1 - 0.025^(1/50); errors accepted first: e - e^2 / 2
    e = 1 - 0.025 ** (1 / 50)
    found = augrc_interval(score=np.arange(50), correct=np.ones(50))
    assert found.upper == pytest.approx(e - e**2 / 2)
    found = aurc_interval(score=np.arange(50), correct=np.ones(50))
    assert found.upper == pytest.approx(e - e * np.log(e))


def test_one_kind_of_answer_has_the_same_interval_by_the_bootstrap():
    options = {"score": SCORE, "correct": [1] * 8}
    assert selective_intervals(**options) == selective_intervals(**options, method="bootstrap", rng=3)


def test_constant_scores_and_bad_input():
    found = augrc_interval(score=np.ones(40), correct=np.arange(40) % 4 > 0)
    assert found.lower < found.value == 0.125 < found.upper
    with pytest.raises(InputError, match="delta must be strictly between"):
        augrc_interval(score=[1], correct=[1], delta=0)
    with pytest.raises(InputError, match="resamples must be a whole number, at least 1, got 0"):
        aurc_interval(score=[1], correct=[1], resamples=0)
    with pytest.raises(InputError, match="unknown method 'jackknife'"):
        aurc_interval(score=[1], correct=[1], method="jackknife")
    with pytest.raises(InputError, match="unknown selective metric 'augcr'"):
        selective_intervals(score=SCORE, correct=CORRECT, metrics=["augcr"])


@pytest.mark.parametrize("method", ["influence", "bootstrap"])
def test_both_together_are_those_of_each_alone(method):
    # each alone draws from the same state of the generator, so the intervals are equal, not only alike
    options = {"score": SCORE, "correct": CORRECT, "method": method, "rng": 3, "resamples": 50}
    found = selective_intervals(**options)
    for name, interval in (("aurc", aurc_interval), ("augrc", augrc_interval)):
        assert found[name] == interval(**options)
