from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs
from caveat.scores import Collision

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def test_by_hand():
    # p = (1/2, 1/4, 1/4): -log(1/4 + 1/16 + 1/16) = log(8/3)
    said = Outputs(probs=[[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(Collision().score(said), [np.log(8 / 3), 0], atol=1e-12)


@shapes
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [-np.log(sum(p**2 for p in softmax(row))) for row in said.logits]
    np.testing.assert_allclose(Collision().score(said), slow, rtol=1e-9, atol=1e-13)


def test_saturated_rows_keep_their_order():
    # sum p^2 = 1 - 2 exp(-z) + ..., so the score is 2 exp(-z)
    said = Outputs(logits=[[40.0, 0.0], [50.0, 0.0]])
    np.testing.assert_allclose(Collision().score(said), [2 * np.exp(-40.0), 2 * np.exp(-50.0)], rtol=1e-9)
