"""Layer normalization on a box: attacked, exact at a point, and compared with the range found by search."""

from __future__ import annotations

import math

import pytest

from caveat import InputError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import Box, propagate  # noqa: E402
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402

EPS = torch.finfo(torch.float64).eps


def norm(size, eps=1e-5, seed=0):
    torch.manual_seed(seed)
    layer = nn.LayerNorm(size, eps=eps).double()
    layer.weight.data.normal_()
    layer.bias.data.normal_()
    return layer


def a_box(n, size, radius, offset=0.0, seed=0):
    torch.manual_seed(seed)
    center = torch.randn(n, size, dtype=torch.float64) + offset
    return Box(center, radius * torch.rand(n, size, dtype=torch.float64))


def attacked(layer, box, starts=20, steps=60):
    """The smallest and largest value (n, D) that corners, random points and steps along the gradient reach."""
    torch.manual_seed(1)
    n, size = box.shape
    moves = 2 * torch.rand(starts, n, size, dtype=torch.float64) - 1
    moves[::2] = moves[::2].sign()
    points = (box.center + moves * box.radius).clamp(box.lower, box.upper)
    least, most = layer(points).amin(dim=0), layer(points).amax(dim=0)
    for entry in range(size):
        for sign in (1, -1):
            z = points
            for number in range(steps):
                z = z.detach().requires_grad_()
                (slope,) = torch.autograd.grad(layer(z)[..., entry].sum(), z)
                step = box.radius * (1.0 if number < 10 else 0.5 ** ((number - 10) / 5))
                z = (z + sign * step * slope.sign()).clamp(box.lower, box.upper)
                values = layer(z.detach()).detach()
                least, most = torch.minimum(least, values.amin(dim=0)), torch.maximum(most, values.amax(dim=0))
    return least.detach(), most.detach()


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 1.0])
@pytest.mark.parametrize("radius", [1e-9, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_attacks_never_leave_the_bounds(size, radius, eps):
    layer, box = norm(size, eps), a_box(12, size, radius)
    out = propagate(layer, box, slack=REAL)
    least, most = attacked(layer, box, starts=8, steps=30)
    assert (most <= out.upper).all()
    assert (least >= out.lower).all()


@pytest.mark.parametrize(("size", "radius", "offset"), [
    (2, 0.5, 0.0), (5, 0.05, 0.0), (5, 2.0, 3.0), (64, 0.2, -1.0), (64, 1e-3, 1e5), (5, 1e-7, 1e6), (1, 1.0, 0.0),
])  # fmt: skip
def test_two_million_points_never_leave_the_bounds(size, radius, offset):
    layer, box = norm(size), a_box(100, size, radius, offset)
    out = propagate(layer, box, slack=REAL)
    torch.manual_seed(2)
    for number in range(math.ceil(2e6 / (100 * 100 * size))):
        share = 2 * torch.rand(100, 100, size, dtype=torch.float64) - 1
        share = share.sign() if number % 2 else share
        values = layer((box.center + share * box.radius).clamp(box.lower, box.upper))
        assert (values <= out.upper).all()
        assert (values >= out.lower).all()


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_a_box_of_one_point_is_the_value_up_to_rounding(offset, spread):
    # Rounding of the mean, of the size of the offset, is divided by the deviation: 48 units in the last place for 16
    # entries, times 2 for d and 1 + sqrt(15) each for the bound and the network.
    layer = norm(16)
    torch.manual_seed(3)
    x = spread * torch.randn(200, 16, dtype=torch.float64) + offset
    out, value = propagate(layer, Box(x, torch.zeros_like(x)), slack=REAL), layer(x)
    assert ((value - out.center).abs() <= out.radius).all()
    deviation = (x.var(dim=1, correction=0, keepdim=True) + layer.eps).sqrt()
    room = 600 * EPS * (layer.weight.abs() * (4 + x.abs().amax(dim=1, keepdim=True) / deviation) + layer.bias.abs())
    assert (out.radius <= room).all()


def test_real_values_lie_in_the_bounds_where_the_mean_cancels():
    from fractions import Fraction

    layer = nn.LayerNorm(7, elementwise_affine=False, eps=0.0).double()
    torch.manual_seed(4)
    x = 1e6 + 1e-6 * torch.randn(50, 7, dtype=torch.float64)
    out = propagate(layer, Box(x, torch.zeros_like(x)), slack=REAL)
    for row, lower, upper in zip(x.tolist(), out.lower.tolist(), out.upper.tolist(), strict=True):
        mean = sum(map(Fraction, row)) / 7
        variance = sum((Fraction(value) - mean) ** 2 for value in row) / 7
        for value, low, high in zip(row, lower, upper, strict=True):
            d = Fraction(value) - mean
            exact = math.copysign(math.sqrt(d * d / variance), d) if variance else 0.0
            assert low - 1e-15 <= exact <= high + 1e-15


@pytest.mark.parametrize("size", [2, 5, 100])
def test_no_entry_passes_the_root_of_size_less_one(size):
    # The box is huge; of D numbers one is at most sqrt(D - 1) deviations from their mean.
    layer = nn.LayerNorm(size, elementwise_affine=False).double()
    out = propagate(layer, Box(torch.zeros(1, size).double(), torch.full((1, size), 100.0).double()), slack=REAL)
    limit = math.sqrt(size - 1)
    assert (out.upper <= limit * (1 + 1e-6)).all()
    assert (out.upper >= limit * (1 - 1e-6)).all()
    corner = -torch.ones(1, size).double()
    corner[0, 0] = 1
    assert layer(100 * corner)[0, 0].item() == pytest.approx(limit)  # it is reached


@pytest.mark.parametrize("radius", [0.001, 0.1, 0.5, 2.0])
def test_the_bounds_are_at_most_1_6_times_as_wide_as_what_attacks_reach(radius):
    layer, box = nn.LayerNorm(6, elementwise_affine=False).double(), a_box(20, 6, radius, seed=5)
    least, most = attacked(layer, box)
    out = propagate(layer, box)
    assert (2 * out.radius).mean() <= 1.6 * (most - least).mean()


def test_several_axes_without_weights_and_by_a_function():
    torch.manual_seed(0)
    box = Box(torch.randn(3, 4, 2, 5).double(), 0.1 * torch.rand(3, 4, 2, 5).double())
    layer = nn.LayerNorm((2, 5), elementwise_affine=False)

    class Call(nn.Module):
        def forward(self, x):
            return nn.functional.layer_norm(x, (2, 5))

    out, called = propagate(layer, box), propagate(Call(), box)
    torch.testing.assert_close(out.upper, called.upper)
    share = 2 * torch.rand(200, *box.shape, dtype=torch.float64) - 1
    values = layer(box.center + share * box.radius)
    assert (values <= out.upper).all()
    assert (values >= out.lower).all()


def test_without_epsilon_a_box_whose_variance_can_vanish_has_no_finite_bound():
    # (a, a + ulp): the mean is rounded to one of them, and the float quotient may be anything.
    layer = nn.LayerNorm(2, elementwise_affine=False, eps=0.0).double()
    touching, apart = (torch.tensor([[1.0, 1.0 + gap]]).double() for gap in (0.1, 0.3))
    radius = torch.full((1, 2), 0.1).double()
    assert not propagate(layer, Box(touching, radius), slack=REAL).upper.isfinite().all()
    assert propagate(layer, Box(apart, radius), slack=REAL).upper.isfinite().all()


def test_gradients_are_finite_where_nothing_varies():
    layer = norm(4)
    center = torch.ones(2, 4, dtype=torch.float64, requires_grad=True)
    out = propagate(layer, Box(center, torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)))
    out.upper.sum().backward()
    assert center.grad.isfinite().all()
    assert layer.weight.grad.isfinite().all()


def test_a_normalization_over_the_samples_is_refused():
    box = Box(torch.zeros(2, 4).double(), torch.ones(2, 4).double())
    with pytest.raises(InputError, match="LayerNorm over the samples"):
        propagate(nn.LayerNorm((2, 4)).double(), box)
