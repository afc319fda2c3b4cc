from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.metrics import augrc, aurc, auroc
from caveat.stats import delong, paired_bootstrap, permutation


def literal_delong(inlier, outlier):
    """Structural components by the double loop of the 1988 paper."""
    parts = []
    for x, y in zip(inlier, outlier, strict=True):
        wins = (np.subtract.outer(y, x) > 0) + 0.5 * (np.subtract.outer(y, x) == 0)
        parts.append((wins.mean(axis=1), wins.mean(axis=0)))
    (v1, u1), (v2, u2) = parts
    s10, s01 = np.cov(v1, v2), np.cov(u1, u2)
    covariance = s10 / v1.size + s01 / u1.size
    contrast = np.array([1, -1])
    return v1.mean() - v2.mean(), contrast @ covariance @ contrast


def test_delong_equals_the_double_loop():
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    inlier = (rng.integers(0, 9, 30).astype(float), rng.integers(0, 9, 30).astype(float))
    outlier = (rng.integers(3, 12, 20).astype(float), rng.integers(2, 12, 20).astype(float))
    value, variance = literal_delong(inlier, outlier)
    found = delong(inlier=inlier, outlier=outlier)
    assert found.difference.value == pytest.approx(value)
    assert found.p_value == pytest.approx(2 * norm.sf(abs(value) / np.sqrt(variance)))
    assert found.difference.upper - found.difference.lower == pytest.approx(2 * norm.isf(0.025) * np.sqrt(variance))
    assert found.first == pytest.approx(auroc(inlier=inlier[0], outlier=outlier[0]))


def test_delong_of_a_score_and_its_copy():
    score = (np.arange(5.0), np.arange(5.0) * 2), (np.arange(3.0) + 2, np.arange(3.0) * 2 + 4)
    found = delong(inlier=score[0], outlier=score[1])
    assert (found.difference.value, found.p_value) == (0, 1)
    assert "variance is zero" in found.difference.caveat


def test_delong_of_few_samples_is_not_certain():
    found = delong(
        inlier=([0.0], [1.0]), outlier=([1.0], [0.0])
    )  # one pair, right by the first and wrong by the second
    assert (found.difference.value, found.difference.lower, found.p_value) == (1, -1, 1)
    found = delong(inlier=([0.0] * 9, [1.0] * 9), outlier=([1.0] * 8, [0.0] * 8))
    # eight disjoint pairs: 1 - sqrt(2 log(40) / 8), and p = 2 exp(-8 / 2)
    assert found.difference.lower == pytest.approx(1 - np.sqrt(np.log(40) / 4))
    assert found.p_value == pytest.approx(2 * np.exp(-4))
    assert str(found).endswith(", p = 0.0366. DeLong's variance is zero; the interval is that of 8 disjoint pairs.")


def test_a_bootstrap_without_spread_says_so():
    # right by the first and wrong by the second in every pair: every resample repeats it
    given = {"first": [1, 2, 3, 4], "second": [4, 3, 2, 1], "correct": [1, 1, 0, 0], "metric": "auroc"}
    found = paired_bootstrap(**given, rng=np.random.default_rng(0), stratified=True)
    assert (found.difference.lower, found.difference.upper) == (1, 1)
    assert "no doubt where there is some" in found.difference.caveat
    same = paired_bootstrap(**given | {"second": [1, 2, 3, 4]}, rng=np.random.default_rng(0), stratified=True)
    assert (same.p_value, same.difference.caveat) == (1, "")


def test_one_inlier_tells_no_scores_apart():
    # by DeLong's variance, which sees only the outliers here, half of these would differ at 0.05
    rng = np.random.default_rng(7)
    p = [delong(inlier=(rng.normal(size=1), rng.normal(size=1)), outlier=(rng.normal(size=200), rng.normal(size=200)))
         for _ in range(200)]  # fmt: skip
    assert np.mean([found.p_value <= 0.05 for found in p]) <= 0.05


def pair(rng, n, first, second, share=0.3):
    """Two scores of the same samples that see a common part, and how well each sees the failures."""
    correct = rng.random(n) >= share
    common = rng.normal(size=n)
    return [common + rng.normal(size=n) + strength * ~correct for strength in (first, second)], correct


def test_delong_level_and_power():
    rng, trials = np.random.default_rng(1), 600
    p = []
    for _ in range(trials):
        (a, b), correct = pair(rng, 150, 1.0, 1.0)
        p.append(delong(inlier=(a[correct], b[correct]), outlier=(a[~correct], b[~correct])).p_value)
    assert abs(np.mean(np.array(p) < 0.1) - 0.1) < 4 * np.sqrt(0.1 * 0.9 / trials)
    (a, b), correct = pair(rng, 2000, 2.0, 1.0)
    assert delong(inlier=(a[correct], b[correct]), outlier=(a[~correct], b[~correct])).p_value < 1e-6


@pytest.mark.parametrize(("metric", "function"), [("augrc", augrc), ("aurc", aurc)])
def test_bootstrap_equals_resampling_and_recomputing(metric, function):
    rng = np.random.default_rng(2)
    (a, b), correct = pair(rng, 60, 1.5, 0.5)
    a = np.round(a, 1)  # ties
    found = paired_bootstrap(
        first=a, second=b, correct=correct, metric=metric, rng=np.random.default_rng(5), resamples=400
    )
    again = np.random.default_rng(5)
    literal = []
    for _ in range(400):
        rows = again.integers(60, size=60)
        literal.append(function(score=a[rows], correct=correct[rows]) - function(score=b[rows], correct=correct[rows]))
    lower, upper = np.quantile(literal, [0.025, 0.975])
    assert found.difference.lower == pytest.approx(lower)
    assert found.difference.upper == pytest.approx(upper)
    assert found.first == pytest.approx(function(score=a, correct=correct))
    tail = min(np.sum(np.array(literal) <= 0), np.sum(np.array(literal) >= 0))
    assert found.p_value == pytest.approx(min(1, 2 * (tail + 1) / 401))


def test_bootstrap_of_auroc_agrees_with_delong():
    rng = np.random.default_rng(3)
    (a, b), correct = pair(rng, 800, 1.5, 1.0)
    boot = paired_bootstrap(first=a, second=b, correct=correct, metric="auroc", rng=rng, stratified=True)
    exact = delong(inlier=(a[correct], b[correct]), outlier=(a[~correct], b[~correct]))
    assert boot.difference.value == pytest.approx(exact.difference.value)
    width = exact.difference.upper - exact.difference.lower
    assert boot.difference.lower == pytest.approx(exact.difference.lower, abs=0.1 * width)
    assert boot.difference.upper == pytest.approx(exact.difference.upper, abs=0.1 * width)


def test_stratified_resamples_keep_the_sizes():
    # one failure: plain resamples often have none and are left out, stratified ones always have it
    score, other = np.arange(10.0), np.arange(10.0)[::-1].copy()
    correct = np.arange(10) < 9
    options = {"first": score, "second": other, "correct": correct, "metric": "auroc", "resamples": 200}
    plain = paired_bootstrap(**options, rng=np.random.default_rng(0))
    assert "resamples had only one kind of answer" in plain.difference.caveat
    kept = paired_bootstrap(**options, rng=np.random.default_rng(0), stratified=True)
    assert "only one kind" not in kept.difference.caveat


def literal_permutation(a, b, correct, swap, function):
    from scipy.stats import rankdata

    ranks = np.array([rankdata(a), rankdata(b)])
    first = np.where(swap, ranks[1], ranks[0])
    second = np.where(swap, ranks[0], ranks[1])
    return function(score=first, correct=correct) - function(score=second, correct=correct)


@pytest.mark.parametrize(("metric", "function"), [("augrc", augrc), ("aurc", aurc)])
def test_permutation_equals_swapping_ranks(metric, function):
    rng = np.random.default_rng(4)
    (a, b), correct = pair(rng, 40, 1.0, 0.3)
    a = np.round(a, 1)
    found = permutation(
        first=a, second=b, correct=correct, metric=metric, rng=np.random.default_rng(7), permutations=300
    )
    again = np.random.default_rng(7)
    gaps = [literal_permutation(a, b, correct, again.integers(2, size=40) == 1, function) for _ in range(300)]
    observed = function(score=a, correct=correct) - function(score=b, correct=correct)
    assert found.difference.value == pytest.approx(observed)
    assert found.p_value == pytest.approx((1 + np.sum(np.abs(gaps) >= abs(observed) - 1e-12)) / 301)


def test_permutation_level():
    rng, trials = np.random.default_rng(6), 300
    p = []
    for _ in range(trials):
        (a, b), correct = pair(rng, 40, 1.0, 1.0)
        p.append(permutation(first=a, second=b, correct=correct, rng=rng, permutations=99).p_value)
    assert np.mean(np.array(p) <= 0.1) <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / trials)


def test_identical_scores_never_differ():
    score, correct = np.arange(20.0), np.arange(20) % 3 > 0
    for test in (paired_bootstrap, permutation):
        found = test(first=score, second=score, correct=correct, rng=np.random.default_rng(0))
        assert (found.difference.value, found.p_value) == (0, 1)


def test_bad_input():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="both right answers and failures"):
        paired_bootstrap(first=[1, 2], second=[2, 1], correct=[1, 1], rng=rng)
    with pytest.raises(InputError, match="unknown metric 'augr'"):
        permutation(first=[1, 2], second=[2, 1], correct=[1, 0], metric="augr", rng=rng)
    with pytest.raises(InputError, match="must hold two values"):
        delong(inlier=([1.0],), outlier=([1.0], [2.0]))
    with pytest.raises(InputError, match="only on the same samples"):
        delong(inlier=([1.0], [1.0, 2.0]), outlier=([1.0], [2.0]))
    with pytest.raises(InputError, match="score has NaN, first at row 1"):
        permutation(first=[1, 2], second=[2, np.nan], correct=[1, 0], rng=rng)
