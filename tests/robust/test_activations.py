"""Activations on arrays: points against their formulas, boxes attacked by two million points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caveat_lab.robust.activations import LOWEST, gelu, leaky_relu, sigmoid, silu, tanh

LAYERS = {
    "leaky 0.01": leaky_relu(0.01), "leaky 2.5": leaky_relu(2.5), "leaky -0.5": leaky_relu(-0.5), "gelu": gelu(0),
    "gelu_tanh": gelu(1), "silu": silu(), "sigmoid": sigmoid(), "tanh": tanh(),
}  # fmt: skip
EPS = np.finfo(np.float64).eps


def boxes(n, seed=0):
    rng = np.random.default_rng(seed)
    near, far = rng.uniform(-3, 3, n // 2), 10 ** rng.uniform(-8, 3, n - n // 2) * rng.choice([-1, 1], n - n // 2)
    return np.concatenate([near, far])[:, None], 10 ** rng.uniform(-12, 1.5, (n, 1))


@pytest.mark.parametrize(("name", "x", "value"), [
    ("leaky 0.01", -2.0, -0.02), ("leaky -0.5", -2.0, 1.0), ("gelu", 1.0, 0.5 * (1 + math.erf(math.sqrt(0.5)))),
    ("gelu_tanh", 1.0, 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715))), ("silu", -1.0, -1 / (1 + math.e)),
    ("sigmoid", -1.0, 1 / (1 + math.e)), ("tanh", 0.5, math.tanh(0.5)),
])  # fmt: skip
def test_points_by_their_formulas(name, x, value):
    assert LAYERS[name].point(np.array([x])).item() == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("name", LAYERS)
def test_two_million_points_never_leave_their_boxes(name):
    layer, (center, radius) = LAYERS[name], boxes(4000)
    middle, half = layer.box((center, radius))
    share = np.random.default_rng(1).uniform(-1, 1, (4000, 500))
    share[:, :2] = -1, 1
    values = layer.point(np.clip(center + share * radius, center - radius, center + radius))
    assert (values <= middle + half).all()
    assert (values >= middle - half).all()


@pytest.mark.parametrize("name", LAYERS)
def test_bounds_are_the_range_up_to_the_grid(name):
    layer, (center, radius) = LAYERS[name], boxes(300, seed=2)
    radius = np.minimum(radius, 3.0)
    middle, half = layer.box((center, radius))
    values = layer.point(center + radius * np.linspace(-1, 1, 20_001))
    missed = (3 * radius / 10_000 if "leaky" in name else radius**2 / 20_000**2)[:, 0] + 1e-10
    assert (middle[:, 0] + half[:, 0] - values.max(axis=1) <= missed).all()
    assert (values.min(axis=1) - middle[:, 0] + half[:, 0] <= missed).all()


@pytest.mark.parametrize("name", LAYERS)
def test_a_box_of_one_point_is_the_value_up_to_rounding(name):
    layer, (x, _) = LAYERS[name], boxes(4000, seed=3)
    middle, half = layer.box((x, np.zeros_like(x)))
    value = layer.point(x)
    assert (np.abs(value - middle) <= half).all()
    assert (half <= 64 * EPS * (3 * np.abs(x) + np.abs(value)) + 1e-300).all()


@pytest.mark.parametrize("name", LOWEST)
def test_the_slope_vanishes_at_the_lowest_point(name):
    layer, at = LAYERS[name], LOWEST[name]
    steps = np.array([at - 1e-4, at, at + 1e-4])
    left, lowest, right = layer.point(steps)
    assert lowest < min(left, right)
    assert abs(left - right) < 1e-11  # f' h with h = 2e-4, and f''' h^3 / 3
