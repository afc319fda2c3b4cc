from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs
from caveat.scores import Entropy

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def test_by_hand():
    # p = (1/2, 1/4, 1/4): 1/2 log 2 + 2 * 1/4 log 4 = 1.5 log 2
    said = Outputs(probs=[[0.5, 0.25, 0.25], [1.0, 0.0, 0.0], [1 / 3] * 3])
    np.testing.assert_allclose(Entropy().score(said), [1.5 * np.log(2), 0, np.log(3)], atol=1e-12)


@shapes
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [-sum(p * np.log(p) for p in softmax(row) if p > 0) for row in said.logits]
    np.testing.assert_allclose(Entropy().score(said), slow, rtol=1e-9, atol=1e-13)


def test_a_class_that_is_ruled_out_adds_nothing():
    said = Outputs(logits=[[1.0, -np.inf, 1.0], [1.0, -1e300, 1.0]], check=False)
    np.testing.assert_allclose(Entropy().score(said), np.log(2))


def test_saturated_rows_keep_their_order():
    # p_2 = exp(-z): the entropy of a sure row is about (1 + z) exp(-z), far below the rounding of log p_1
    said = Outputs(logits=[[40.0, 0.0], [50.0, 0.0], [60.0, 0.0]])
    expected = [(1 + z) * np.exp(-z) for z in (40.0, 50.0, 60.0)]
    np.testing.assert_allclose(Entropy().score(said), expected, rtol=1e-9)
