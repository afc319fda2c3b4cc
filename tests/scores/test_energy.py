from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from caveat import InputError, Outputs
from caveat.scores import Energy


def test_by_hand():
    # -log(e^log2 + e^log6) = -log 8; at T = 2: -2 log(sqrt 2 + sqrt 6)
    said = Outputs(logits=[[np.log(2), np.log(6)]])
    assert Energy().score(said)[0] == pytest.approx(-np.log(8))
    assert Energy(temperature=2).score(said)[0] == pytest.approx(-2 * np.log(np.sqrt(2) + np.sqrt(6)))


def test_a_shift_of_the_logits_shifts_the_score(inlier):
    moved = Outputs(logits=inlier.logits + 3)
    np.testing.assert_allclose(Energy().score(moved), Energy().score(Outputs(logits=inlier.logits)) - 3)


def test_probabilities_are_not_enough():
    with pytest.raises(InputError, match=r"Energy needs outputs\.logits, which is None"):
        Energy().score(Outputs(probs=[[0.5, 0.5]]))


def test_temperature_is_positive():
    with pytest.raises(InputError, match="temperature must be a positive number"):
        Energy(temperature=0)


@pytest.mark.parametrize(("n", "width", "classes"), [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)])
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_equals_scipy(make_outputs, n, width, classes, temperature):
    said = make_outputs(n=n, width=width, classes=classes)
    expected = -temperature * logsumexp(said.logits / temperature, axis=1)
    np.testing.assert_allclose(Energy(temperature=temperature).score(said), expected, rtol=1e-12)


def test_class_scores_are_minus_the_logits_over_t(inlier):
    np.testing.assert_allclose(Energy(temperature=2.0).class_scores(inlier), -inlier.logits / 2)
