"""Boxes of activations: no point of a box leaves its bounds, and the bounds are the exact range up to rounding."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds import Box, propagate  # noqa: E402
from caveat_lab.bounds.activations import ACTIVATIONS  # noqa: E402
from caveat_lab.bounds.arithmetic import REAL  # noqa: E402

EPS = torch.finfo(torch.float64).eps
LAYERS = [
    nn.ReLU(), nn.LeakyReLU(0.01), nn.LeakyReLU(0.0), nn.LeakyReLU(1.0), nn.LeakyReLU(2.5), nn.LeakyReLU(-0.5),
    nn.LeakyReLU(-3.0), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Sigmoid(), nn.Tanh(),
]  # fmt: skip
every_layer = pytest.mark.parametrize("layer", LAYERS, ids=str)


def boxes(n, seed=0):
    """Boxes of all sizes and places (n, 1): around 0, around the lowest points, far out on both sides."""
    generator = torch.Generator().manual_seed(seed)

    def draw(low, high):
        return low + (high - low) * torch.rand(n, 1, dtype=torch.float64, generator=generator)

    center = torch.cat([draw(-3, 3)[: n // 2], (10 ** draw(-8, 3) * draw(-1, 1).sign())[n // 2 :]])
    return Box(center, 10 ** draw(-12, 1.5))


def inside(box, points, seed=1):
    """Points of each box (n, points): its ends, its center, random ones; clamped, so that rounding leaves none out."""
    generator = torch.Generator().manual_seed(seed)
    share = 2 * torch.rand(box.shape[0], points, dtype=torch.float64, generator=generator) - 1
    share[:, :3] = torch.tensor([-1.0, 0.0, 1.0])
    return (box.center + share * box.radius).clamp(box.lower, box.upper)


@every_layer
def test_two_million_points_never_leave_their_boxes(layer):
    box = boxes(4000)
    out = propagate(layer, box, slack=REAL)
    values = layer(inside(box, 500))
    assert (values <= out.upper).all()
    assert (values >= out.lower).all()


@every_layer
@pytest.mark.parametrize("sign", [1, -1])
def test_steps_along_the_gradient_never_leave_the_box(layer, sign):
    box = boxes(4000, seed=2)
    out, points = propagate(layer, box, slack=REAL), inside(box, 8, seed=3)
    step = box.radius.expand_as(points).clone()
    for _ in range(30):
        z = points.clone().requires_grad_()
        (slope,) = torch.autograd.grad(layer(z).sum(), z)
        moved = (points + sign * step * slope.sign()).clamp(box.lower, box.upper)
        better = sign * (layer(moved) - layer(points)) > 0
        points, step = torch.where(better, moved, points), torch.where(better, step, step / 2)
    values = layer(points)
    assert (values <= out.upper).all()
    assert (values >= out.lower).all()


@every_layer
def test_the_bounds_are_the_range_of_the_function(layer):
    # On 20,001 grid points a smooth function misses its extreme by at most max|f''| (step / 2)^2 / 2.
    box = boxes(300, seed=4)
    box = Box(box.center, box.radius.clamp(max=3.0))
    grid = box.center + box.radius * torch.linspace(-1, 1, 20_001, dtype=torch.float64)
    values, out = layer(grid), propagate(layer, box)
    missed = 0.8 * (box.radius / 20_000).square() / 2 + 8 * EPS * (1 + box.center.abs() + box.radius)
    if isinstance(layer, nn.LeakyReLU):  # the kink may lie between two points
        missed = missed + 3 * box.radius / 10_000
    assert (out.upper[:, 0] - values.amax(dim=1) <= missed[:, 0]).all()
    assert (values.amin(dim=1) - out.lower[:, 0] <= missed[:, 0]).all()


@every_layer
def test_a_box_of_one_point_is_the_value_up_to_rounding(layer):
    x = boxes(4000, seed=5).center
    out, value = propagate(layer, Box(x, torch.zeros_like(x)), slack=REAL), layer(x)
    assert ((out.center - value).abs() <= out.radius).all()
    slope = ACTIVATIONS[type(layer)](layer).steepest
    assert (out.radius <= 64 * EPS * (slope * x.abs() + value.abs()) + 1e-300).all()


@every_layer
def test_training_gradients_are_those_of_the_ends(layer):
    box = boxes(200, seed=6)
    keep = box.radius[:, 0] > 1e-6
    center, radius = (part[keep].clone().requires_grad_() for part in (box.center, box.radius))
    out = propagate(layer, Box(center, radius))
    found = torch.autograd.grad(out.upper.sum(), [center, radius])
    lower, upper = center - radius, center + radius
    want = torch.autograd.grad(torch.maximum(layer(lower), layer(upper)).sum(), [center, radius])
    for got, exact in zip(found, want, strict=True):
        torch.testing.assert_close(got, exact)


@pytest.mark.parametrize(("layer", "lowest", "value"), [
    (nn.GELU(), -0.75179, -0.16997), (nn.GELU(approximate="tanh"), -0.75246, -0.17004), (nn.SiLU(), -1.27846, -0.27846),
    (nn.LeakyReLU(-2.0), 0.0, 0.0),
])  # fmt: skip
def test_the_lowest_value_is_found_inside_a_box_and_at_the_nearest_end_of_others(layer, lowest, value):
    ends = torch.tensor([[-5.0, 5.0], [-6.0, lowest - 1], [lowest + 1, 4.0]], dtype=torch.float64)
    out = propagate(layer, Box.between(ends[:, :1], ends[:, 1:]))
    want = torch.stack([torch.tensor(value).double(), layer(ends[1, 1]), layer(ends[2, 0])])
    torch.testing.assert_close(out.lower[:, 0], want, atol=1e-5, rtol=0)


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if ACTIVATIONS[type(layer)](layer).curvature], ids=str)
def test_slopes_and_curvatures_are_below_what_is_declared(layer):
    activation = ACTIVATIONS[type(layer)](layer)
    z = torch.linspace(-50, 50, 1_000_001, dtype=torch.float64).requires_grad_()
    (slope,) = torch.autograd.grad(layer(z).sum(), z, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), z)
    assert slope.abs().max() <= activation.steepest
    assert bend.abs().max() <= activation.curvature
    assert bend.abs().max() >= 0.98 * activation.curvature
    turns = torch.diff(slope.detach()[slope.detach().abs() > 1e-12].sign()).count_nonzero()
    assert turns == (1 if activation.lowest > -torch.inf else 0)
    assert bend[z.abs() >= activation.straight].abs().max() < 1e-13


@pytest.mark.parametrize("layer", LAYERS[7:], ids=str)
def test_real_values_lie_in_the_box_of_a_float(layer):
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 50
    phi, tanh, exp = mpmath.ncdf, mpmath.tanh, mpmath.exp
    inner = mpmath.sqrt(2 / mpmath.pi)
    exact = {
        "GELU(approximate='none')": lambda z: z * phi(z),
        "GELU(approximate='tanh')": lambda z: z / 2 * (1 + tanh(inner * (z + mpmath.mpf("0.044715") * z**3))),
        "SiLU()": lambda z: z / (1 + exp(-z)), "Sigmoid()": lambda z: 1 / (1 + exp(-z)), "Tanh()": tanh,
    }[str(layer)]  # fmt: skip
    x = boxes(600, seed=7).center
    out = propagate(layer, Box(x, torch.zeros_like(x)), slack=REAL)
    rows = zip(x[:, 0].tolist(), out.lower[:, 0].tolist(), out.upper[:, 0].tolist(), strict=True)
    assert all(lower <= exact(mpmath.mpf(z)) <= upper for z, lower, upper in rows)
