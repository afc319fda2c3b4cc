from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.scores import Entropy, Renyi

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize("shape", SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def test_by_hand():
    # uniform over 4: log(4 * 4^-1/2) / (1/2) = log 4, for every order
    uniform = Outputs(logits=np.zeros((1, 4)))
    assert Renyi(order=0.5).score(uniform)[0] == pytest.approx(np.log(4))
    # M = 1 keeps p = 1/4 as it is: log(1/2) / (1/2) = -2 log 2
    assert Renyi(order=0.5, top=1).score(uniform)[0] == pytest.approx(-2 * np.log(2))


def test_a_probability_of_zero_adds_nothing_however_small_the_order():
    # uniform over k of 100 classes: log k, for every order
    probs = np.zeros((3, 100))
    for row, k in enumerate((1, 2, 50)):
        probs[row, :k] = 1 / k
    np.testing.assert_allclose(Renyi(order=0.01).score(Outputs(probs=probs)), np.log([1, 2, 50]), rtol=1e-12)


@shapes
@pytest.mark.parametrize(("order", "top"), [(0.1, 100), (0.6, 3)])
def test_equals_the_loop(make_outputs, shape, order, top):
    n, width, classes = shape
    said = make_outputs(n=n, width=width, classes=classes)
    slow = [
        np.log(sum(p**order for p in sorted(softmax(row), reverse=True)[:top])) / (1 - order) for row in said.logits
    ]
    np.testing.assert_allclose(Renyi(order=order, top=top).score(said), slow, rtol=1e-9, atol=1e-13)


def test_order_near_one_is_shannon(make_outputs):
    said = make_outputs()
    np.testing.assert_allclose(Renyi(order=1 - 1e-7).score(said), Entropy().score(said), rtol=1e-4, atol=1e-6)


def test_message():
    with pytest.raises(InputError, match="order must be strictly between 0 and 1, got 2"):
        Renyi(order=2)
