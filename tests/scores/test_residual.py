"""Residual: seen from the origin of the head, with the paper's rule for the dimension."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, InputError, Outputs
from caveat.scores import Residual
from caveat.scores.vim import principal_dimension

SHAPES = [
    {"n": 200, "width": 8, "classes": 4},
    {"n": 50, "width": 60, "classes": 4},
    {"n": 120, "width": 8, "classes": 2},
    {"n": 500, "width": 12, "classes": 100},
]


def reference(train, test, inside):
    origin = -np.linalg.pinv(train.head.weight, rcond=1e-10) @ train.head.bias
    moment = sum(np.outer(h - origin, h - origin) for h in train.features)
    _, vectors = np.linalg.eigh(moment)
    null = vectors[:, : len(moment) - inside]
    return [np.linalg.norm(null.T @ (h - origin)) for h in test.features]


def test_by_hand():
    # W = (2, 0), b = 4: o = (-2, 0). Seen from o the training rows lie along x, so the residual is |y|.
    head = Head([[2.0, 0.0]], [4.0])
    train = Outputs(features=[[3.0, 0.0], [1.0, 0.0], [8.0, 0.0]], head=head)
    np.testing.assert_allclose(Residual().fit(train).score(Outputs(features=[[7.0, -3.0], [-2.0, 1.0]])), [3, 1])


@pytest.mark.parametrize(("width", "inside"), [(2048, 1000), (4096, 1000), (2047, 512), (768, 512), (767, 383), (2, 1)])
def test_rule_for_the_dimension(width, inside):
    assert principal_dimension(width) == inside


@pytest.mark.parametrize("shape", SHAPES)
def test_as_in_the_paper(shape, make_outputs):
    train, test = make_outputs(seed=1, **shape), make_outputs(seed=2, **(shape | {"n": 20}))
    expected = reference(train, test, shape["width"] // 2)
    np.testing.assert_allclose(Residual().fit(train).score(test), expected, rtol=1e-7)
    expected = reference(train, test, 3)
    np.testing.assert_allclose(Residual(dimension=3).fit(train).score(test), expected, rtol=1e-7)


def test_the_mean_is_not_removed():
    # About o = 0 the far mean (10, 0) dominates, so the one principal direction is x; about the mean it would be y.
    head = Head([[1.0, 1.0]])
    train = Outputs(features=[[10.0, 1.0], [10.0, -1.0]], head=head)
    np.testing.assert_allclose(Residual().fit(train).score(Outputs(features=[[0.0, 2.0]])), [2.0])


def test_weights_that_sum_to_zero_do_not_blow_up_the_origin(make_outputs):
    """Such a head has a singular value of zero; in float32 it is 1e-8 and must not be inverted."""
    weight = np.random.default_rng(0).normal(size=(4, 12))
    weight -= weight.mean(axis=0)
    bias = np.array([0.1, -0.3, 0.7, -0.5])
    found = []
    for dtype in (np.float32, np.float64):
        said = make_outputs(seed=1, dtype=dtype)
        train = Outputs(features=said.features, head=Head(weight.astype(dtype), bias))
        found.append(Residual().fit(train).score(said))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_messages(train):
    with pytest.raises(InputError, match=r"dimension must be .* at most 11, got 12"):
        Residual(dimension=12).fit(train)
    with pytest.raises(InputError, match="dimension must be a whole number, at least 1, got 0"):
        Residual(dimension=0)
    with pytest.raises(InputError, match=r"Residual learns from train\.head, which is None"):
        Residual().fit(Outputs(features=train.features))
