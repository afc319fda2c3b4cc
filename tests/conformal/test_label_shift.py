"""Weights of a label shift: the equation by hand, intervals that hold, and coverage on real digits."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from caveat import Outputs
from caveat.conformal import SplitSets, label_shift_weights
from caveat.errors import InputError
from caveat_lab.data import digits


def answered(predictions, labels=None, classes=2):
    return Outputs(probs=0.8 * np.eye(classes)[predictions] + 0.2 / classes, labels=labels)


def test_by_hand():
    # Source: of 6 rows of class 0 five are right, of 4 rows of class 1 all. Target: 3 of 10 predicted as 0.
    # .5 w0 + 0 w1 = .3, so w0 = .6; .1 * .6 + .4 w1 = .7, so w1 = 1.6
    source = answered([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [0] * 6 + [1] * 4)
    shift = label_shift_weights(source=source, target=answered([0] * 3 + [1] * 7))
    np.testing.assert_allclose(shift.weights, [0.6, 1.6])
    np.testing.assert_allclose(shift.target_shares, [0.36, 0.64])
    # effective n: (6 * .6 + 4 * 1.6)^2 / (6 * .36 + 4 * 2.56)
    assert shift.effective_n == pytest.approx(100 / 12.4)
    assert not shift.promise(0.1).holds
    assert shift.promise(0.2).holds


def test_weights_are_clipped_at_zero():
    # All target rows are predicted as 1, more than even class 1 alone would be: class 0 would get a negative weight.
    source = answered([0, 0, 0, 1, 0, 1, 1, 1], [0] * 4 + [1] * 4)
    shift = label_shift_weights(source=source, target=answered([1] * 10))
    assert shift.weights[0] == shift.lower[0] == 0
    assert shift.weights[1] > 1


def test_a_singular_matrix_is_a_sentence():
    target = answered([0, 1, 2], classes=3)
    with pytest.raises(InputError, match="class 2 has no row in source"):
        label_shift_weights(source=answered([0, 1, 2], [0, 1, 1], classes=3), target=target)
    with pytest.raises(InputError, match="class 1 is never predicted"):
        label_shift_weights(source=answered([0, 0, 2], [0, 1, 2], classes=3), target=target)
    alike = answered([0, 1, 2, 0, 1, 2], [0, 0, 2, 1, 1, 2], classes=3)  # 0 and 1 are separated at random
    with pytest.raises(InputError, match="singular: the model cannot tell"):
        label_shift_weights(source=alike, target=target)


def drawn(n, shares, rng, classes=4):
    labels = rng.choice(classes, size=n, p=shares)
    return Outputs(logits=2 * np.eye(classes)[labels] + rng.normal(size=(n, classes)), labels=labels)


def test_intervals_hold_the_true_weight_as_often_as_they_say():
    rng, trials = np.random.default_rng(0), 120
    source, target = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
    held = np.zeros((trials, 4), dtype=bool)
    for t in range(trials):
        shift = label_shift_weights(
            source=drawn(600, source, rng), target=drawn(600, target, rng), delta=0.1, resamples=200, rng=rng
        )
        held[t] = (shift.lower <= target / source) & (target / source <= shift.upper)
    # a percentile bootstrap is right to first order only: two per cent for that, and four standard errors
    assert np.abs(held.mean(axis=0) - 0.9).max() < 0.02 + 4 * math.sqrt(0.09 / trials)


@pytest.fixture(scope="module")
def weak_digits():
    images = digits()
    pixels, labels = images.pixels.reshape(len(images.labels), -1), images.labels
    order = np.random.default_rng(0).permutation(labels.size)
    model = LogisticRegression(C=0.1, max_iter=300).fit(pixels[order[:300]], labels[order[:300]])
    return Outputs(probs=model.predict_proba(pixels[order[300:]]), labels=labels[order[300:]])


@pytest.mark.parametrize("trials", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_weights_restore_coverage_of_real_digits_under_a_known_shift(weak_digits, trials):
    # A row of class y goes to the target with odds 4 for 1, 8 and 9, the hard digits, and 0.4 for the others: the
    # weights are proportional to these odds.
    odds = np.where(np.isin(np.arange(10), [1, 8, 9]), 4.0, 0.4)
    rng, hits = np.random.default_rng(1), {"none": [], "true": [], "estimated": []}
    for _ in range(trials):
        shifted = rng.random(weak_digits.n) < (odds / (1 + odds))[weak_digits.labels]
        source, target = (rng.permutation(np.flatnonzero(part)) for part in (~shifted, shifted))
        calibration, test = weak_digits[source[400:]], weak_digits[target[300:]]
        shift = label_shift_weights(
            source=weak_digits[source[:400]], target=weak_digits[target[:300]], resamples=1, rng=rng
        )
        plain = SplitSets(alpha=0.1).calibrate(calibration).predict(test)
        true = SplitSets(alpha=0.1).calibrate(calibration, weights=odds[calibration.labels])
        estimated = SplitSets(alpha=0.1).calibrate(calibration, weights=shift.of_labels(calibration.labels))
        hits["none"].append(plain.coverage(test.labels))
        hits["true"].append(true.predict(test, weights=np.tile(odds, (test.n, 1))).coverage(test.labels))
        hits["estimated"].append(estimated.predict(test, weights=shift.of_rows(test.n)).coverage(test.labels))
    mean = {name: np.mean(found) for name, found in hits.items()}
    spread = {name: np.std(found) / math.sqrt(trials) for name, found in hits.items()}
    assert mean["none"] < 0.9 - 4 * spread["none"]
    assert 0.9 - 4 * spread["true"] < mean["true"] < 0.93 + 4 * spread["true"]
    assert abs(mean["estimated"] - mean["true"]) < 0.015 + 4 * spread["estimated"]


def test_clear_errors():
    good = answered([0, 0, 1, 1], [0, 0, 1, 1])
    with pytest.raises(InputError, match=r"source=\) needs outputs.labels"):
        label_shift_weights(source=answered([0, 1]), target=good)
    with pytest.raises(InputError, match="same number of classes, got 2 and 3"):
        label_shift_weights(source=good, target=answered([0], classes=3))
    with pytest.raises(InputError, match="between 0 and 1"):
        label_shift_weights(source=good, target=good).of_labels([2])
