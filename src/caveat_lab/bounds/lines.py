r"""Two lines that enclose an activation on an interval, for linear bounds.

$$ a_1 z + b_1 \le f(z) \le a_2 z + b_2 \qquad (l \le z \le u) $$

A function of two straight pieces that meet at 0, s z + (1 - s) max(z, 0) with slope s on the left, takes its lines from
those of ReLU. For a smooth function any slope a will do with the intercept max (f(z) - a z). That maximum is bounded by
values at grid points of distance h, between which f leaves its chord by at most max|f''| h^2 / 8; outside the part
where f is curved, it is a straight line up to 1e-15. Of several slopes the one whose line is best in the middle of the
interval is kept. The lines are sound for every slope; the choice only decides how tight they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from caveat_lab.bounds.activations import Activation

__all__ = ["Lines", "enclosing_lines"]

_PARTS = 48  # of the grid
_SLOPES = 17
_ROOM = 1e-13  # of the numbers that make an intercept: their rounding, and how far f is from straight in its tails


@final
@dataclass(frozen=True, eq=False)
class Lines:
    """Slopes and intercepts of the lower and of the upper line, each with the shape of the interval ends."""

    lower_slope: Tensor
    lower_intercept: Tensor
    upper_slope: Tensor
    upper_intercept: Tensor


def enclosing_lines(activation: Activation, lower: Tensor, upper: Tensor) -> Lines:
    """Lines below and above an activation on [lower, upper], entry by entry.

    >>> from torch import nn
    >>> from caveat_lab.bounds.activations import ACTIVATIONS
    >>> relu = ACTIVATIONS[nn.ReLU](nn.ReLU())
    >>> lines = enclosing_lines(relu, torch.tensor([-1.0]), torch.tensor([3.0]))
    >>> lines.upper_slope, lines.upper_intercept, lines.lower_slope  # 3/4 (z + 1) above, z below
    (tensor([0.7500]), tensor([0.7500]), tensor([1.]))
    """
    if activation.curvature is None:
        return _of_two_pieces(activation, lower, upper)
    return _of_curve(activation, activation.curvature, lower, upper)


def _of_two_pieces(activation: Activation, lower: Tensor, upper: Tensor) -> Lines:
    left = -activation.function(-lower.new_ones(()))  # its slope for z < 0
    crossing = (lower < 0) & (upper > 0)
    on = (lower >= 0).to(lower.dtype)
    above = torch.where(crossing, upper / (upper - lower), on)
    intercept = torch.where(crossing, -lower * above, torch.zeros_like(lower))
    below = torch.where(crossing, (upper > -lower).to(lower.dtype), on)
    bend = 1 - left  # f = left z + bend max(z, 0): a negative bend turns the lines of ReLU over
    chord = left + bend * above, bend * intercept
    tangent = left + bend * below, torch.zeros_like(lower)
    return Lines(*tangent, *chord) if bend >= 0 else Lines(*chord, *tangent)


def _of_curve(activation: Activation, curvature: float, lower: Tensor, upper: Tensor) -> Lines:
    limit = torch.full_like(lower, activation.straight)
    first, last = (torch.minimum(upper, torch.maximum(lower, end)) for end in (-limit, limit))
    share = torch.linspace(0, 1, _PARTS + 1, dtype=lower.dtype, device=lower.device)
    grid = first + (last - first) * share.reshape(-1, *[1] * lower.ndim)
    grid = torch.cat([lower[None], grid, upper[None]])
    values, middle = activation.function(grid), (lower + upper) / 2
    sizes = torch.maximum(lower.abs(), upper.abs())
    step = (last - first) / _PARTS + 4 * torch.finfo(lower.dtype).eps * sizes
    bulge = curvature * step.square() / 8 + _ROOM * values.abs().amax(dim=0) + _ROOM

    def line(slope: Tensor) -> Tensor:
        """The intercepts of the lower and of the upper line with a slope, (2, ...)."""
        rest = values - slope * grid
        room = bulge + _ROOM * (slope.abs() + activation.steepest) * sizes
        return torch.stack([rest.amin(dim=0) - room, rest.amax(dim=0) + room])

    slopes = _slopes(activation, lower, upper)
    best = slopes[:1].expand(2, *lower.shape), line(slopes[0])
    for slope in slopes[1:]:
        intercept = line(slope)
        gain = (intercept - best[1]) + (slope - best[0]) * middle  # of the line in the middle
        better = torch.stack([gain[0] > 0, gain[1] < 0])
        best = torch.where(better, slope, best[0]), torch.where(better, intercept, best[1])
    return Lines(best[0][0], best[1][0], best[0][1], best[1][1])


def _slopes(activation: Activation, lower: Tensor, upper: Tensor) -> Tensor:
    """Slopes to try, (S, ...): of the chord, and evenly from the smallest to the largest tangent at some points."""
    share = torch.linspace(0, 1, _SLOPES, dtype=lower.dtype, device=lower.device).reshape(-1, *[1] * lower.ndim)
    width = upper - lower
    with torch.enable_grad():
        points = (lower + width * share).requires_grad_()
        values = activation.function(points)
        (tangents,) = torch.autograd.grad(values.sum(), points)
    ends = values.detach()[[0, -1]]
    chord = (ends[1] - ends[0]) / width.clamp_min(torch.finfo(width.dtype).tiny)
    chord = chord.clamp(-activation.steepest, activation.steepest)  # rounding makes it large on tiny intervals
    least, most = tangents.amin(dim=0), tangents.amax(dim=0)
    return torch.cat([chord[None], least + (most - least) * share])
