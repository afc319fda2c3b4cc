"""Two lines around an activation: they enclose it at every point, and they are close to it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from caveat_lab.bounds.activations import ACTIVATIONS  # noqa: E402
from caveat_lab.bounds.lines import enclosing_lines  # noqa: E402

PIECES = [nn.ReLU(), nn.LeakyReLU(0.1), nn.LeakyReLU(1.0), nn.LeakyReLU(2.5), nn.LeakyReLU(-0.5), nn.LeakyReLU(-3.0)]
CURVES = [nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Sigmoid(), nn.Tanh()]


def intervals(n, widest, seed=0):
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(3, n, dtype=torch.float64, generator=generator)
    center = torch.where(draws[2] < 0.7, 6 * draws[0] - 3, 200 * draws[0] - 100)
    width = 10 ** (draws[1] * 10 - 10) * widest
    return center - width / 2, center + width / 2


def of(layer, lower, upper):
    return enclosing_lines(ACTIVATIONS[type(layer)](layer), lower, upper)


@pytest.mark.parametrize("layer", [*PIECES, *CURVES], ids=str)
@pytest.mark.parametrize("widest", [1.0, 300.0])
def test_a_million_points_lie_between_the_lines(layer, widest):
    lower, upper = intervals(2000, widest)
    lines = of(layer, lower, upper)
    share = torch.rand(500, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    share[:2, 0] = torch.tensor([0.0, 1.0])
    z = (lower + (upper - lower) * share).clamp(lower, upper)
    value = layer(z)
    room = 1e-14 * (1 + z.abs())  # linear bounds add their own slack for the products
    assert (value <= lines.upper_slope * z + lines.upper_intercept + room).all()
    assert (value >= lines.lower_slope * z + lines.lower_intercept - room).all()


@pytest.mark.parametrize("layer", CURVES, ids=str)
def test_lines_of_a_curve_are_as_close_as_parallels_to_its_chord(layer):
    # Between its ends a function leaves its chord by at most max|f''| width^2 / 8; the grid of 48 parts
    # adds 1/48^2 of it.
    lower, upper = intervals(2000, 20.0, seed=2)
    lines, width, middle = of(layer, lower, upper), upper - lower, (lower + upper) / 2
    gap = (lines.upper_slope - lines.lower_slope) * middle + lines.upper_intercept - lines.lower_intercept
    curvature = ACTIVATIONS[type(layer)](layer).curvature
    assert (gap <= 2 * curvature * width.square() / 8 * (1 + 2 / 48**2) + 1e-10).all()


@pytest.mark.parametrize("layer", CURVES, ids=str)
def test_lines_are_at_most_a_tenth_wider_than_the_best_ones_in_the_middle(layer):
    # The best gap in the middle, over all slopes: a search on a fine grid of slopes and points.
    lower, upper = intervals(40, 1.0, seed=3)
    lower, upper = lower.clamp(-4, 4) - 2, upper.clamp(-4, 4) + 2
    lines, middle = of(layer, lower, upper), (lower + upper) / 2
    z = lower + (upper - lower) * torch.linspace(0, 1, 1001, dtype=torch.float64)[:, None]
    slopes = torch.linspace(-1.2, 1.2, 1201, dtype=torch.float64)[:, None, None]
    rest = layer(z) - slopes * z
    best = (rest.amax(dim=1) + slopes[:, 0] * middle).amin(dim=0) - (rest.amin(dim=1) + slopes[:, 0] * middle).amax(
        dim=0
    )
    gap = (lines.upper_slope - lines.lower_slope) * middle + lines.upper_intercept - lines.lower_intercept
    assert (gap <= 1.1 * best + 0.02).all()


@pytest.mark.parametrize(("slope", "below", "above"), [
    (0.5, (1.0, 0.0), (0.875, 0.375)),  # [-1, 3]: z below, the chord from (-1, -0.5) to (3, 3) above
    (2.0, (1.25, -0.75), (1.0, 0.0)),  # concave: the chord from (-1, -2) below, z above
    (-1.0, (1.0, 0.0), (0.5, 1.5)),  # |z|
])  # fmt: skip
def test_leaky_relu_by_hand(slope, below, above):
    lines = of(nn.LeakyReLU(slope), torch.tensor([-1.0]), torch.tensor([3.0]))
    assert (lines.lower_slope.item(), lines.lower_intercept.item()) == pytest.approx(below)
    assert (lines.upper_slope.item(), lines.upper_intercept.item()) == pytest.approx(above)
