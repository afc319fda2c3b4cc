from __future__ import annotations

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, NotFittedError, Outputs
from caveat.conformal import SplitSets, p_values


def drawn(n, rng, classes=5):
    """Samples whose labels follow their stated probabilities."""
    probs = rng.dirichlet(np.full(classes, 0.6), size=n)
    labels = (probs.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return Outputs(probs=probs, labels=np.minimum(labels, classes - 1))


def test_by_hand():
    # nonconformity of the true labels: .1 .2 .3 .6; n = 4, alpha = .4: k = ceil(5 * .6) = 3, threshold .3
    calibration = Outputs(probs=[[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], labels=[0, 0, 1, 0])
    sets = SplitSets(alpha=0.4).calibrate(calibration)
    assert sets.threshold_ == pytest.approx(0.3)
    assert sets.level_ == pytest.approx(3 / 5)
    found = sets.predict(Outputs(probs=[[0.95, 0.05], [0.5, 0.5]]))
    np.testing.assert_array_equal(found.member, [[True, False], [False, False]])


def test_a_label_is_in_the_set_if_its_p_value_exceeds_alpha():
    rng = np.random.default_rng(0)
    calibration, asked = drawn(57, rng), drawn(200, rng)
    for alpha in (0.05, 0.1, 0.25, 0.5):
        sets = SplitSets(alpha=alpha).calibrate(calibration)
        np.testing.assert_array_equal(sets.predict(asked).member, sets.p_values(asked) > alpha)


@pytest.mark.parametrize(("n", "alpha"), [(30, 0.1), (99, 0.2)])
def test_coverage_and_size_are_what_theory_says(n, alpha):
    # exact coverage k/(n+1) for continuous scores; the mean size pins the direction of the inequality
    rng, trials, asked = np.random.default_rng(n), 2000, 20
    covered, sizes = [], []
    for _ in range(trials):
        test = drawn(asked, rng)
        sets = SplitSets(alpha=alpha).calibrate(drawn(n, rng)).predict(test)
        covered.append(sets.coverage(test.labels))
        sizes.append(sets.sizes.mean())
    promised = np.ceil((n + 1) * (1 - alpha)) / (n + 1)
    assert abs(np.mean(covered) - promised) < 4 * np.std(covered) / np.sqrt(trials)
    assert 1 < np.mean(sizes) < 3


def test_p_values_use_the_true_labels_of_the_calibration_set():
    rng = np.random.default_rng(1)
    calibration, asked = drawn(40, rng), drawn(10, rng)
    sets = SplitSets().calibrate(calibration)
    true = 1 - calibration.probs[np.arange(40), calibration.labels]
    np.testing.assert_array_equal(sets.p_values(asked), p_values(calibration=true, test=1 - asked.probs))


def test_too_few_calibration_points_put_every_label_in():
    sets = SplitSets(alpha=0.1)
    with pytest.warns(CaveatWarning, match="n = 3 is too small for alpha = 0.1"):
        sets.calibrate(drawn(3, np.random.default_rng(0)))
    found = sets.predict(drawn(4, np.random.default_rng(1)))
    assert found.member.all()
    assert found.level == 1.0
    assert "too small" in found.caveat


def test_one_calibration_point_is_enough_at_one_half():
    sets = SplitSets(alpha=0.5).calibrate(Outputs(probs=[[0.8, 0.2]], labels=[0]))
    assert sets.threshold_ == pytest.approx(0.2)


def test_bad_input(inlier):
    with pytest.raises(InputError, match="unknown nonconformity score 'lacc'. Did you mean 'lac'"):
        SplitSets("lacc")
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        SplitSets(alpha=0)
    with pytest.raises(NotFittedError, match="Call calibrate"):
        SplitSets().predict(inlier)
    with pytest.raises(InputError, match="calibrates on labels"):
        SplitSets().calibrate(Outputs(logits=inlier.logits))
    sets = SplitSets().calibrate(inlier)
    with pytest.raises(InputError, match="4 classes as in calibration, got 2"):
        sets.predict(Outputs(logits=[[1.0, 2.0]]))
    with pytest.raises(InputError, match="both are None"):
        sets.predict(Outputs(features=[[1.0]]))
