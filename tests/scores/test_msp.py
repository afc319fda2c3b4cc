from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import MSP

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes


def test_by_hand():
    # logits (log 3, 0): p = (3/4, 1/4); at T = 1/2 the odds are squared: 9 to 1
    said = Outputs(logits=[[np.log(3), 0.0]])
    assert MSP().score(said)[0] == pytest.approx(-0.75)
    assert MSP(temperature=0.5).score(said)[0] == pytest.approx(-0.9)


@pytest.mark.parametrize(("n", "width", "classes"), SHAPES)
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [-max(np.exp(z) for z in row) / sum(np.exp(z) for z in row) for row in said.logits]
    np.testing.assert_allclose(MSP().score(said), slow, rtol=1e-12)


def test_class_scores_give_the_probabilities_back(make_outputs):
    said = make_outputs()
    np.testing.assert_allclose(np.exp(-MSP().class_scores(said)), said.probs, rtol=1e-10)


def test_hard_probabilities_stay_finite():
    said = Outputs(probs=[[1.0, 0.0]])
    assert MSP().score(said)[0] == -1
    assert np.isfinite(MSP().class_scores(said)).all()


def test_message():
    with pytest.raises(InputError, match="temperature must be a positive number, got -1"):
        MSP(temperature=-1)
