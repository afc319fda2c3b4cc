r"""Layer normalization on a box.

$$ y_i = \gamma_i \frac{d_i}{\sqrt{v + e}} + \beta_i, \qquad d_i = x_i - \bar x, \qquad v = \tfrac1D \sum_j d_j^2 $$

over the D entries that are normalized together. Each d_i is affine in x, so its interval over the box is exact. For a
fixed rest $S_i = \sum_{j \ne i} d_j^2$ the quotient rises with d_i, because $v = (d_i^2 + S_i) / D$. So the upper end
of d_i, with the smallest v if that end is positive and the largest v if it is negative, bounds the quotient; the lower
end likewise. Bounds of v are the tighter of:

* from the intervals: $S_i$ between the sums of the smallest and of the largest $d_j^2$;
* from the triangle inequality: $|\sqrt v - \sigma(c)| \le \sqrt{\textstyle\sum_j r_j^2 / D}$, with $\sigma(c)$ the
  standard deviation of the center and r the radius: subtracting the mean makes no vector longer;
* from $\sum_j d_j = 0$: $v \ge d_i^2 / (D - 1)$. Thus $|d_i| / \sqrt{v + e} \le \sqrt{D - 1}$, however wide the box is.

Rounding of the mean and of the root of v, by up to $\delta = O(D u \max |x|)$ with u the unit roundoff, changes the
quotient by at most $(1 + \sqrt{D - 1})\, \delta / \sqrt{v + e}$. With e = 0 a box on which v can vanish has no finite
bound in floats.

Ba, Kiros and Hinton, "Layer Normalization", 2016, arXiv:1607.06450, section 3; the bounds are ours. They are
not exact, because each entry takes the v that is worst for it, though all entries share one: about 1.5 times as wide as
what attacks reach for 6 entries.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from caveat_lab.bounds.arithmetic import REAL, Arithmetic
from caveat_lab.bounds.box import Box

__all__ = ["layer_norm_box"]


def layer_norm_box(module: nn.LayerNorm, box: Box, slack: Arithmetic | None) -> Box:
    """The box of all that a layer normalization can give on a box.

    >>> norm, box = nn.LayerNorm(2, eps=0.0), Box(torch.tensor([[1.0, 3.0]]), torch.tensor([[0.5, 0.5]]))
    >>> out = layer_norm_box(norm, box, None)
    >>> out.lower.detach(), out.upper.detach()  # the layer gives -1 and 1 on the whole box
    (tensor([[-1.0000,  0.4472]]), tensor([[-0.4472,  1.0000]]))
    """
    axes = tuple(range(-len(module.normalized_shape), 0))
    size = math.prod(module.normalized_shape)
    off = torch.zeros_like(box.center)
    if slack is not None:
        # Mean and variance are sums over all entries: their rounding is of the size of the largest one. It enters the
        # bound as a change of x of that size does.
        largest = (box.center.abs() + box.radius).amax(dim=axes, keepdim=True)
        off = largest * slack.relative(size + 4) + slack.underflow(size, largest)
        off = slack.in_range(off, size * largest.square())  # squares are added up
        box = Box(box.center, box.radius + off)
    mean = box.center.mean(dim=axes, keepdim=True)
    center = box.center - mean
    radius = box.radius * (1 - 2 / size) + box.radius.mean(dim=axes, keepdim=True)  # (1 - 1/D) r_i + the others / D
    moves = _root(box.radius.square().mean(dim=axes, keepdim=True))
    lost = 0.0 if slack is None else REAL.relative(size)
    deviation = _root(center.square().mean(dim=axes, keepdim=True))
    ends = (deviation - moves).clamp_min(0), deviation + moves
    upper, lower = (_upper_quotient(side, radius, ends, axes, module.eps, lost) for side in (center, -center))
    out = Box.between(-lower, upper)
    if slack is not None:  # the rounding of the network
        off = off * (1 + math.sqrt(size - 1)) / (ends[0].square() + module.eps).sqrt()
        out = Box(out.center, out.radius + off).widened(size, slack)
    weight, bias = module.weight, module.bias
    if weight is not None:
        out = Box(out.center * weight, out.radius * weight.abs())
    if bias is not None:
        own = 0.0 if slack is None else slack.relative(2) * bias.abs()
        out = Box(out.center + bias, out.radius + own)
    return out if slack is None else out.widened(4, slack)


def _upper_quotient(
    center: Tensor, radius: Tensor, ends: tuple[Tensor, Tensor], axes: tuple[int, ...], e: float, lost: float
) -> Tensor:
    """The most that d_i / sqrt(v + e) can be for d within ``radius`` of ``center`` and sqrt v between two ``ends``.

    ``lost`` is the relative rounding error of a sum over the entries.
    """
    top, size = center + radius, math.prod(center.shape[axis] for axis in axes)
    square = top.square()
    near, far = (center.abs() - radius).clamp_min(0).square(), (center.abs() + radius).square()
    nearest, farthest = near.sum(dim=axes, keepdim=True), far.sum(dim=axes, keepdim=True)
    least_rest = (nearest - near - lost * nearest).clamp_min(0)
    most_rest = farthest - far + lost * farthest
    least = torch.maximum((square + least_rest) / size, ends[0].square())
    least = torch.maximum(least, square / max(size - 1, 1))
    most = torch.minimum((square + most_rest) / size, ends[1].square())
    return top / _root(torch.where(top > 0, least, most) + e)


def _root(value: Tensor) -> Tensor:
    """The square root, with gradient 0 instead of infinity at 0."""
    return value.clamp_min(torch.finfo(value.dtype).tiny).sqrt()
