"""Layers on arrays: points against scipy and loops, boxes against what points of the box give."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import correlate2d

from caveat_lab.robust.layers import Affine, AveragePool, Conv, Dense, Flatten, GlobalAverage, MaxPool, ReLU, widened

RNG = np.random.default_rng(0)
LAYERS = [
    Dense(RNG.normal(size=(3, 32)), RNG.normal(size=3)),
    Conv(RNG.normal(size=(3, 2, 3, 3)), RNG.normal(size=3), (1, 1), (1, 1), (1, 1), 1),
    Conv(RNG.normal(size=(4, 1, 2, 2)), RNG.normal(size=4), (2, 2), (0, 0), (1, 1), 2),
    Affine(RNG.normal(size=2), RNG.normal(size=2)),
    AveragePool((2, 2), (2, 2), (0, 0)),
    GlobalAverage(),
    MaxPool((2, 2), (1, 1), (1, 1)),
    ReLU(),
    Flatten(),
]


def test_convolution_agrees_with_scipy():
    x, weight = RNG.normal(size=(2, 3, 7, 6)), RNG.normal(size=(4, 3, 3, 2))
    layer = Conv(weight, np.arange(4.0), (2, 1), (0, 0), (1, 1), 1)
    want = np.stack([
        np.stack([sum(correlate2d(image[c], w[c], mode="valid") for c in range(3)) for w in weight]) for image in x
    ])[:, :, ::2, :] + np.arange(4.0)[:, None, None]  # fmt: skip
    np.testing.assert_allclose(layer.point(x), want, atol=1e-12)


def test_dilated_convolution_by_hand():
    # a 2 x 1 kernel of ones with dilation 2 adds a row to the row two below
    x = np.arange(12.0).reshape(1, 1, 4, 3)
    layer = Conv(np.ones((1, 1, 2, 1)), np.zeros(1), (1, 1), (0, 0), (2, 1), 1)
    np.testing.assert_array_equal(layer.point(x)[0, 0], x[0, 0, :2] + x[0, 0, 2:])


def test_pools_by_hand():
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    assert AveragePool((2, 2), (2, 2), (0, 0)).point(x)[0, 0].tolist() == [[2.5, 4.5], [10.5, 12.5]]
    assert MaxPool((2, 2), (2, 2), (0, 0)).point(x)[0, 0].tolist() == [[5, 7], [13, 15]]
    assert MaxPool((2, 2), (2, 2), (1, 1)).point(-x)[0, 0].tolist() == [[0, -1, -3], [-4, -5, -7], [-12, -13, -15]]
    assert GlobalAverage().point(x).tolist() == [[[[7.5]]]]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_no_point_of_a_box_leaves_its_box(layer):
    rng = np.random.default_rng(1)
    shape = (2, 32) if isinstance(layer, Dense) else (2, 2, 4, 4)
    center, radius = rng.normal(size=shape), rng.random(shape)
    middle, half = layer.box((center, radius))
    for _ in range(100):
        got = layer.point(center + radius * rng.integers(-1, 2, size=shape))
        assert (got <= middle + half).all()
        assert (got >= middle - half).all()
    point, none = layer.box((center, np.zeros(shape)))
    np.testing.assert_allclose(point, layer.point(center), atol=1e-12)
    assert none.max() < 1e-9


def test_a_unit_that_is_off_stays_exactly_off():
    middle, half = ReLU().box((np.array([[-5.0]]), np.array([[1.0]])))
    assert middle.item() == half.item() == 0


def test_widening_leaves_zero_alone():
    assert widened((np.zeros(2), np.zeros(2)), 100)[1].tolist() == [0, 0]


@pytest.mark.parametrize("scale", [1e-6, 1e-10, 1e-13])
def test_boxes_enclose_sums_that_begin_with_the_constant(scale):
    rng = np.random.default_rng(0)
    layer = Dense(scale * rng.random((50, 784)), rng.normal(size=50))
    x = rng.random((20, 784))
    center, radius = layer.box((x, np.zeros_like(x)))
    total = np.tile(layer.bias, (20, 1))
    for column, weight in zip(x.T, layer.weight.T, strict=True):
        total = total + np.outer(column, weight)
    assert (np.abs(total - center) <= radius).all()
