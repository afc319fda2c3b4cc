from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.metrics import log_loss

from caveat import InputError, Outputs
from caveat.metrics import brier, calibration, ece, nll, reliability
from caveat.metrics.calibration import _resampled_distances


def sample(seed, n=60, classes=4, sharp=2.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, classes)) * sharp, rng.integers(classes, size=n)


def literal_ece(probs, labels, bins):
    confidence, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    total = 0.0
    for b in range(bins):
        inside = (confidence > b / bins) & (confidence <= (b + 1) / bins)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return total


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([1, 5, 15]))
def test_against_the_formulas_and_scikit_learn(seed, bins):
    logits, labels = sample(seed)
    probs = softmax(logits, axis=1)
    assert ece(probs=probs, labels=labels, bins=bins) == pytest.approx(literal_ece(probs, labels, bins))
    assert brier(probs=probs, labels=labels) == pytest.approx(((probs - np.eye(4)[labels]) ** 2).sum(axis=1).mean())
    expected = log_loss(labels, probs, labels=range(4))
    assert nll(probs=probs, labels=labels) == pytest.approx(expected)
    assert nll(logits=logits, labels=labels) == pytest.approx(expected)


def test_ece_by_hand():
    # bins (0, .5], (.5, 1]: confidences .9 (right), .8 (wrong), .6 (right): |2/3 - 2.3/3|
    assert ece(probs=[[0.9, 0.1], [0.8, 0.2], [0.4, 0.6]], labels=[0, 1, 1], bins=2) == pytest.approx(0.3 / 3)


def test_perfect_and_worst_answers():
    probs = np.eye(3)
    assert (
        ece(probs=probs, labels=[0, 1, 2])
        == brier(probs=probs, labels=[0, 1, 2])
        == nll(probs=probs, labels=[0, 1, 2])
        == 0
    )
    assert brier(probs=probs, labels=[1, 2, 0]) == 2
    assert nll(probs=probs, labels=[1, 2, 0]) == np.inf


def test_bins_of_equal_mass():
    logits, labels = sample(0, n=100)
    points = reliability(probs=softmax(logits, axis=1), labels=labels, bins=5, by="mass")
    assert points.count.tolist() == [20] * 5
    assert (np.diff(points.confidence) > 0).all()


def test_calibrated_probabilities_have_small_error_and_sharpened_ones_do_not():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(20_000, 5)) * 2
    probs = softmax(logits, axis=1)
    labels = (rng.random((20_000, 1)) > np.cumsum(probs, axis=1)).sum(axis=1).clip(0, 4)  # drawn from the probabilities
    good = calibration(Outputs(logits=logits, labels=labels), rng=rng, resamples=200)
    assert good.ece.value < 0.02
    assert good.ece.lower < 0.01
    proud = calibration(Outputs(logits=3 * logits, labels=labels), rng=rng, resamples=200)
    assert proud.ece.lower > good.ece.upper
    assert proud.nll.lower > good.nll.upper
    assert proud.brier.lower > good.brier.upper


def missed(n, classes, sharp, temperature, *, trials, resamples, seed=0):
    """How often the interval of ECE lies above and below the truth, for a model whose truth is known.

    Labels are drawn from softmax(logits), the model says softmax(logits / temperature): temperature 1 is calibrated.
    """
    rng = np.random.default_rng([seed, n, classes])

    def drawn(size):
        logits = rng.normal(size=(size, classes)) * sharp
        return logits, softmax(logits, axis=1)

    truth = 0.0
    if temperature != 1:
        logits, probs = drawn(100_000)
        said = softmax(logits / temperature, axis=1)
        gap = probs[np.arange(said.shape[0]), said.argmax(axis=1)] - said.max(axis=1)
        truth = np.abs(np.bincount(np.ceil(15 * said.max(axis=1)).astype(int), weights=gap)).sum() / gap.size
    above, below = 0, 0
    for _ in range(trials):
        logits, probs = drawn(n)
        labels = (rng.random((n, 1)) > np.cumsum(probs, axis=1)).sum(axis=1).clip(0, classes - 1)
        said = Outputs(probs=softmax(logits / temperature, axis=1), labels=labels)
        found = calibration(said, rng=rng, resamples=resamples).ece
        assert found.lower <= found.value <= found.upper
        above, below = above + (found.lower > truth), below + (found.upper < truth)
    return above / trials, below / trials


@pytest.mark.parametrize(("n", "classes"), [(100, 4), (300, 10), (1000, 10)])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_interval_of_ece_holds(n, classes, temperature):
    trials = 100
    for share in missed(n, classes, 3.0, temperature, trials=trials, resamples=99):
        assert share <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / trials)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "trials"), [(100, 800), (1000, 400), (10_000, 150), (100_000, 40)])
@pytest.mark.parametrize(("classes", "sharp"), [(4, 2.0), (10, 5.0)])
@pytest.mark.parametrize("temperature", [1.0, 0.5, 1.5])
def test_the_interval_of_ece_holds_for_any_n(n, trials, classes, sharp, temperature):
    for share in missed(n, classes, sharp, temperature, trials=trials, resamples=199):
        assert share <= 0.025 + 4 * np.sqrt(0.025 * 0.975 / trials)


def test_too_few_resamples_exclude_nothing():
    # 20 draws are too few for the largest 2.5 %.
    wrong = Outputs(probs=[[0.99, 0.01]] * 200, labels=[1] * 200)
    assert calibration(wrong, rng=np.random.default_rng(0), resamples=20).ece.lower == 0
    assert calibration(wrong, rng=np.random.default_rng(0), resamples=100).ece.lower > 0.9


def test_the_caveat_says_what_a_calibrated_model_would_have():
    # 400 samples of confidence 0.5 in one bin: E |Bin(400, 1/2) - 200| / 400 = 0.0199
    said = Outputs(probs=[[0.5, 0.5]] * 400, labels=[0] * 400)
    found = calibration(said, rng=np.random.default_rng(0), resamples=4000).ece
    assert found.value == 0.5
    on_average = float(re.search(r"has (0\.\d+) on average", found.caveat)[1])
    assert abs(on_average - 0.0199) < 4 * 0.015 / np.sqrt(4000) + 0.0005


def test_one_sample_and_probs_instead_of_logits():
    found = calibration(Outputs(probs=[[0.7, 0.3]], labels=[0]), rng=np.random.default_rng(0))
    assert found.nll.value == pytest.approx(-np.log(0.7))
    assert found.nll.upper == np.inf
    assert "One sample" in found.nll.caveat


def test_five_perfect_answers_are_not_certainty():
    found = calibration(Outputs(probs=[[1.0, 0.0]] * 5, labels=[0] * 5), rng=np.random.default_rng(0))
    assert (found.brier.lower, found.brier.upper) == (0, 0)
    assert "same value" in found.brier.caveat


def test_bad_input():
    with pytest.raises(InputError, match="rows of probabilities that sum to 1"):
        ece(probs=[[0.2, 0.2]], labels=[0])
    with pytest.raises(InputError, match="labels must be between 0 and 1, got 2"):
        brier(probs=[[0.5, 0.5]], labels=[2])
    with pytest.raises(InputError, match="probs and labels must have the same length, got 1 and 2"):
        nll(probs=[[0.5, 0.5]], labels=[0, 1])
    with pytest.raises(InputError, match="exactly one of probs and logits"):
        nll(labels=[0])
    with pytest.raises(InputError, match="unknown kind of bins"):
        ece(probs=[[0.5, 0.5]], labels=[0], by="size")
    with pytest.raises(InputError, match="probs has NaN"):
        brier(probs=[[np.nan, 0.5]], labels=[0])
    with pytest.raises(InputError, match="needs outputs.labels"):
        calibration(Outputs(logits=[[1.0, 2.0]]), rng=np.random.default_rng(0))


@pytest.mark.parametrize("n", [60, 2000])
def test_drawing_counts_of_cells_is_the_bootstrap_of_rows(n):
    # mean and upper quantile of the distance of resampled gaps, against resampling the rows; 4,000 draws of each
    rng, bins, draws = np.random.default_rng(n), 15, 4000
    confidence = rng.beta(5, 2, size=n)
    right = (rng.random(n) < confidence**2).astype(float)
    where = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    options = {"bins": bins, "rng": rng, "resamples": draws}
    found = _resampled_distances(confidence, right, where, **options)
    gap, plain = right - confidence, np.empty(draws)
    sums = np.bincount(where, weights=gap, minlength=bins)
    for i in range(draws):
        rows = rng.integers(n, size=n)
        plain[i] = np.abs(np.bincount(where[rows], weights=gap[rows], minlength=bins) - sums).sum() / n
    assert found.mean() == pytest.approx(plain.mean(), abs=4 * np.sqrt(2 * plain.var() / draws))
    # the 97.5 % quantile of 4,000 draws errs by about 0.04 standard deviations, twice; 4 sigma
    assert np.quantile(found, 0.975) == pytest.approx(np.quantile(plain, 0.975), abs=4 * 0.06 * plain.std())
