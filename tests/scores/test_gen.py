from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError, Outputs
from caveat.scores import GEN

SHAPES = [(240, 12, 4), (60, 100, 4), (240, 12, 2), (400, 12, 100)]  # samples, features, classes
shapes = pytest.mark.parametrize("shape", SHAPES)


def softmax(row):
    """One row, with no care for overflow."""
    total = sum(np.exp(float(z)) for z in row)
    return [np.exp(float(z)) / total for z in row]


def test_by_hand():
    # p = (1/2, 1/2): 2 * (1/4)^(1/2) = 1; p = (1, 0): 0
    said = Outputs(probs=[[0.5, 0.5], [1.0, 0.0]])
    np.testing.assert_allclose(GEN(gamma=0.5).score(said), [1, 0], atol=1e-12)


def test_a_probability_of_zero_adds_nothing_however_small_the_exponent():
    # p = (1/2, 1/2, 0, ..., 0): 2 (1/4)^g; p = (1, 0, ..., 0): 0
    probs = np.zeros((2, 100))
    probs[0, :2], probs[1, 0] = 0.5, 1
    np.testing.assert_allclose(GEN(gamma=0.01).score(Outputs(probs=probs)), [2 * 0.25**0.01, 0], rtol=1e-12)


def test_the_largest_are_summed_not_averaged_and_not_renormalized():
    # p = (.5, .3, .2), M = 2: (.5 * .5)^.1 + (.3 * .7)^.1
    said = Outputs(probs=[[0.2, 0.5, 0.3]])
    assert GEN(top=2).score(said)[0] == pytest.approx(0.25**0.1 + 0.21**0.1)


@shapes
@pytest.mark.parametrize(("gamma", "top"), [(0.1, 100), (0.5, 3)])
def test_equals_the_loop(make_outputs, shape, gamma, top):
    n, width, classes = shape
    said = make_outputs(n=n, width=width, classes=classes)
    slow = []
    for row in said.logits:
        p = sorted(softmax(row), reverse=True)
        # 1 - p of the largest as the sum of the others: 1 - p itself has no digits left when p is almost one
        rest = [sum(p[1:]), *(1 - q for q in p[1:])]
        slow.append(sum(p_k**gamma * q_k**gamma for p_k, q_k in zip(p[:top], rest[:top], strict=True)))
    np.testing.assert_allclose(GEN(gamma=gamma, top=top).score(said), slow, rtol=1e-8)


def test_saturated_rows_do_not_tie():
    # both probabilities of a row have p (1 - p) = exp(-z) (1 + o(1)): 2 exp(-z gamma)
    said = Outputs(logits=[[40.0, 0.0], [50.0, 0.0]])
    np.testing.assert_allclose(GEN().score(said), [2 * np.exp(-4.0), 2 * np.exp(-5.0)], rtol=1e-9)


@given(st.lists(st.floats(-30, 30), min_size=2, max_size=8), st.floats(-5, 5))
def test_shifting_and_reordering_the_logits_changes_nothing(logits, shift):
    said = Outputs(logits=[logits, [z + shift for z in logits], logits[::-1]])
    values = GEN().score(said)
    np.testing.assert_allclose(values, values[0], rtol=1e-6)


def test_messages():
    with pytest.raises(InputError, match="gamma must be strictly between 0 and 1, got 2"):
        GEN(gamma=2)
    with pytest.raises(InputError, match="top must be a whole number, at least 1, got 0"):
        GEN(top=0)
