"""Layer normalization on arrays: by hand, attacked, and equal to the bounds of torch."""

from __future__ import annotations

import numpy as np
import pytest

from caveat_lab.robust.layer_norm import LayerNorm


def layer_and_box(size, radius, offset=0.0, e=1e-5):
    rng = np.random.default_rng(size)
    layer = LayerNorm(rng.normal(size=size), rng.normal(size=size), e)
    return layer, rng.normal(size=(100, size)) + offset, radius * rng.random((100, size))


def test_a_point_by_hand():
    # mean 2, variance 2/3: (-1, 0, 1) / sqrt(2/3 + 1/3)
    layer = LayerNorm(np.array([1.0, 2.0, 3.0]), np.array([0.0, 5.0, 1.0]), 1 / 3)
    np.testing.assert_allclose(layer.point(np.array([[1.0, 2.0, 3.0]])), [[-1.0, 5.0, 4.0]], rtol=1e-15)


@pytest.mark.parametrize(("size", "radius", "offset", "e"), [
    (1, 1.0, 0.0, 1e-5), (2, 0.5, 0.0, 1e-5), (2, 0.5, 0.0, 1e-12), (5, 2.0, 3.0, 1e-5), (64, 0.2, -1.0, 1e-5),
    (64, 1e-3, 1e5, 1e-5), (5, 1e-7, 1e6, 1e-5), (8, 0.0, 1e6, 1e-5),
])  # fmt: skip
def test_points_never_leave_the_bounds(size, radius, offset, e):
    layer, center, radii = layer_and_box(size, radius, offset, e)
    middle, half = layer.box((center, radii))
    rng = np.random.default_rng(0)
    for number in range(200):
        share = rng.uniform(-1, 1, center.shape)
        share = np.sign(share) if number % 2 else share
        values = layer.point(np.clip(center + share * radii, center - radii, center + radii))
        assert (values <= middle + half).all()
        assert (values >= middle - half).all()


def test_without_epsilon_a_box_whose_variance_can_vanish_has_no_finite_bound():
    layer = LayerNorm(np.ones(2), np.zeros(2), 0.0)
    _, half = layer.box((np.array([[1.0, 1.1], [1.0, 1.3]]), np.full((2, 2), 0.1)))
    assert not np.isfinite(half[0]).any()
    assert np.isfinite(half[1]).all()


@pytest.mark.parametrize("radius", [0.0, 0.01, 3.0])
def test_the_bounds_are_those_of_torch(radius):
    torch = pytest.importorskip("torch")
    from caveat_lab.bounds import REAL, Box, propagate

    layer, center, radii = layer_and_box(7, radius)
    other = torch.nn.LayerNorm(7).double()
    other.weight.data, other.bias.data = torch.from_numpy(layer.weight), torch.from_numpy(layer.bias)
    out = propagate(other, Box(torch.from_numpy(center), torch.from_numpy(radii)), slack=REAL)
    middle, half = layer.box((center, radii))
    np.testing.assert_allclose(middle + half, out.upper.detach().numpy(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(middle - half, out.lower.detach().numpy(), rtol=1e-9, atol=1e-11)
