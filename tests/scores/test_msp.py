from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import MSP


def test_by_hand():
    # softmax(log 3, 0) = (3/4, 1/4); at T = 2 the odds are sqrt(3) : 1
    said = Outputs(logits=[[np.log(3), 0.0]])
    assert MSP().score(said)[0] == pytest.approx(-0.75)
    assert MSP(temperature=2).score(said)[0] == pytest.approx(-np.sqrt(3) / (1 + np.sqrt(3)))


def test_given_probabilities_are_used_as_they_are():
    said = Outputs(probs=[[0.7, 0.3], [1.0, 0.0]])
    np.testing.assert_allclose(MSP().score(said), [-0.7, -1.0])
    assert np.isfinite(MSP().class_scores(said)).all()


def test_confident_float32_samples_are_still_told_apart():
    # in float32 both probabilities round to 1; the order must survive
    said = Outputs(logits=np.array([[20.0, 0.0], [25.0, 0.0]], dtype=np.float32))
    sure, surer = MSP().score(said)
    assert surer < sure


def test_huge_logits_do_not_overflow():
    np.testing.assert_array_equal(MSP().score(Outputs(logits=[[1e300, -1e300], [-1e4, -1e4]])), [-1.0, -0.5])


def test_class_scores_give_the_probabilities_back(inlier):
    np.testing.assert_allclose(np.exp(-MSP().class_scores(inlier)), inlier.probs, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0, -1, np.nan, "1"])
def test_temperature_is_positive(temperature):
    with pytest.raises(InputError, match="temperature must be a positive number"):
        MSP(temperature=temperature)


@pytest.mark.parametrize(("n", "width", "classes"), [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)])
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [-max(np.exp(z) for z in row) / sum(np.exp(z) for z in row) for row in said.logits]
    np.testing.assert_allclose(MSP().score(said), slow, rtol=1e-12)
