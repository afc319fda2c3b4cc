from __future__ import annotations

import numpy as np
import pytest

from caveat import Outputs
from caveat.scores import Guessing

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize(("n", "width", "classes"), SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def test_by_hand():
    # p = (.5, .3, .2) in any order: 1 * .5 + 2 * .3 + 3 * .2 = 1.7; uniform over 3: (1 + 2 + 3) / 3 = 2
    said = Outputs(probs=[[0.2, 0.5, 0.3], [1 / 3] * 3, [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(Guessing().score(said), [1.7, 2.0, 1.0])


@shapes
def test_equals_the_loop(make_outputs, n, width, classes):
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [sum(k * p for k, p in enumerate(sorted(softmax(row), reverse=True), start=1)) for row in said.logits]
    np.testing.assert_allclose(Guessing().score(said), slow, rtol=1e-10)


def test_a_row_gives_the_same_bits_in_any_batch(make_outputs):
    said = make_outputs(classes=10)
    values = Guessing().score(said)
    np.testing.assert_array_equal(values, [Guessing().score(said[i])[0] for i in range(said.n)])
