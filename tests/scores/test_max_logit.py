from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import MaxLogit

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def test_by_hand():
    assert MaxLogit().score(Outputs(logits=[[1.0, 5.0, 2.0], [-3.0, -1.0, -2.0]])).tolist() == [-5.0, 1.0]


@shapes
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [-max(float(z) for z in row) for row in said.logits]
    np.testing.assert_array_equal(MaxLogit().score(said), slow)


def test_probabilities_have_no_logit():
    with pytest.raises(InputError, match=r"MaxLogit needs outputs\.logits, which is None"):
        MaxLogit().score(Outputs(probs=[[0.5, 0.5]]))
