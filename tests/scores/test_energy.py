from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from caveat import InputError, Outputs
from caveat.scores import Energy

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes


def test_by_hand():
    # -log(e^0 + e^0) = -log 2; at T = 2: -2 log 2; a huge logit stays finite
    assert Energy().score(Outputs(logits=[[0.0, 0.0], [1e4, 0.0]])).tolist() == pytest.approx([-np.log(2), -1e4])
    assert Energy(temperature=2.0).score(Outputs(logits=[[0.0, 0.0]]))[0] == pytest.approx(-2 * np.log(2))


@pytest.mark.parametrize(("n", "width", "classes"), SHAPES)
@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_equals_scipy(make_outputs, n, width, classes, temperature):
    said = make_outputs(n=n, width=width, classes=classes)
    expected = -temperature * logsumexp(said.logits / temperature, axis=1)
    np.testing.assert_allclose(Energy(temperature=temperature).score(said), expected, rtol=1e-12)


def test_class_scores_are_minus_the_logits_over_t(make_outputs):
    said = make_outputs()
    np.testing.assert_allclose(Energy(temperature=2.0).class_scores(said), -said.logits / 2)


def test_message():
    with pytest.raises(InputError, match="temperature must be a positive number, got 0"):
        Energy(temperature=0)
