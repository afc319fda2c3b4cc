r"""CROWN: linear bounds of the outputs, carried back through the network. Tighter than boxes, and far slower.

A ReLU whose input lies in [l, u] with l < 0 < u is enclosed by two lines:

$$ \alpha z \le \max(z, 0) \le \frac{u}{u - l}(z - l), \qquad \alpha = 1 \text{ if } u > -l \text{ else } 0 $$

Other activations have lines of their own (``caveat_lab.bounds.lines``).
An upper bound of a linear function of the outputs then goes back layer by layer as a linear function, until it is one
of the input, where a box is exact. The bounds l, u of inner layers are made in the same way, for the units that can
switch. Zhang, Weng, Chen, Hsieh and Daniel, "Efficient Neural Network Robustness Certification with General Activation
Functions", NeurIPS 2018, arXiv:1811.00866. One sample at a time: meant for the few a box leaves open. For K classes
there are K (K - 1) functions to carry back, some at a time; all of them are held for one sample only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor, nn

from caveat.errors import InputError
from caveat_lab.bounds.activations import ACTIVATIONS, Activation, activation_box
from caveat_lab.bounds.agreement import demand_agreement
from caveat_lab.bounds.arithmetic import REAL
from caveat_lab.bounds.box import Box
from caveat_lab.bounds.lines import Lines, enclosing_lines
from caveat_lab.bounds.rules import AFFINE_LAYERS, module_rule
from caveat_lab.bounds.tracing import traced

__all__ = ["crown_by_sample", "crown_differences"]

_ROWS = 512  # linear functions carried back at once
_SLACK = 1e-10  # of all that was added up; float64 rounding is ten thousand times smaller
_LOST = 1e-12  # of what was added up before it cancelled, here or in the network; rounding of some thousand terms


@final
class _Chain:
    """Affine layers one after the other, and the activation that follows; None after the last."""

    def __init__(self) -> None:
        self.parts: list[nn.Module] = []
        self.activation: Activation | None = None

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def box(self, box: Box) -> Box:
        for part in self.parts:
            box = module_rule(part, type(part).__name__)(part, box, REAL)
        return box

    def size(self, size: Tensor) -> Tensor:
        """What entries up to ``size`` add up to if nothing cancels."""
        for part in self.parts:
            box = module_rule(part, type(part).__name__)(part, Box(torch.zeros_like(size), size), None)
            size = box.center.abs() + box.radius
        return size


def crown_differences(net: nn.Module, box: Box) -> Tensor:
    """Upper bounds (n, K, K) of all logit differences for each input box (n, ...) of the batch.

    The network is in float64, at rest, a chain of linear layers, convolutions, batch normalizations, average pools and
    activations.

    >>> net = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False)).double()
    >>> net[0].weight.data[:], net[2].weight.data[:] = torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0, -1.0], [0, 0]])
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> crown_differences(net, Box(one, one / 2))[0, 0, 1].item() < 1e-8  # relu(z) - relu(z) = 0; a box says 1
    True
    """
    return torch.stack(list(crown_by_sample(net, box)))


def crown_by_sample(net: nn.Module, box: Box) -> Iterator[Tensor]:
    """``crown_differences``, (K, K) for one sample after the other."""
    with torch.no_grad():
        blocks = _blocks(net, box.center)
        for row in zip(torch.split(box.center, 1), torch.split(box.radius, 1), strict=True):
            yield _differences(blocks, Box(*row))


def _differences(blocks: list[_Chain], box: Box) -> Tensor:
    starts = [box]  # before each affine block
    inner: list[Lines] = []  # of each activation
    size = box.center.abs() + box.radius
    for block in blocks[:-1]:
        assert block.activation is not None
        size = block.size(size)
        before = _tightened(blocks, starts, inner, block.box(starts[-1]), size)
        inner.append(enclosing_lines(block.activation, before.lower, before.upper))
        starts.append(activation_box(block.activation, before, slack=REAL))
        # Values and rounding errors of the activation: |f(z)| <= |f(0)| + L |z|.
        size = block.activation.steepest * size + block.activation.function(torch.zeros_like(size)).abs()
    classes = blocks[-1](starts[-1].center).shape[1]
    eye = torch.eye(classes, dtype=size.dtype, device=size.device)
    last = blocks[-1].size(size)
    rows = max(1, _ROWS // classes)  # classes k at once
    upper = [
        _carried_back(blocks, starts, inner, (some[:, None] - eye).flatten(0, 1), last).reshape(-1, classes)
        for some in torch.split(eye, rows)
    ]
    return torch.cat(upper).fill_diagonal_(0.0)


def _tightened(blocks: list[_Chain], starts: list[Box], inner: list[Lines], before: Box, size: Tensor) -> Box:
    """The box before an activation, made tighter by linear bounds for the units where that is not a straight line."""
    lower, upper = before.lower.flatten(), before.upper.flatten()
    activation = blocks[len(inner)].activation
    assert activation is not None
    bent = (lower < 0) & (upper > 0) if activation.curvature is None else lower < upper
    open_ = bent.nonzero()[:, 0]
    if not inner or not open_.numel():  # the first layer's box is exact
        return before
    depth = blocks[: len(inner) + 1]
    for some in torch.split(open_, _ROWS):
        unit = torch.zeros(some.numel(), lower.numel(), dtype=lower.dtype, device=lower.device)
        unit = unit.scatter_(1, some[:, None], 1.0).reshape(-1, *before.shape[1:])
        upper[some] = torch.minimum(upper[some], _carried_back(depth, starts, inner, unit, size))
        lower[some] = torch.maximum(lower[some], -_carried_back(depth, starts, inner, -unit, size))
    return Box.between(lower.reshape(before.shape), upper.reshape(before.shape)).widened(1)


def _carried_back(blocks: list[_Chain], starts: list[Box], inner: list[Lines], rows: Tensor, size: Tensor) -> Tensor:
    """Upper bounds (S,) of linear functions, rows (S, ...), of what the last block gives, which adds up to ``size``."""
    upper = torch.cat([_carry(blocks, starts, inner, part) for part in torch.split(rows, _ROWS)])
    return upper + _LOST * (rows.flatten(1).abs() @ size.flatten())


def _carry(blocks: list[_Chain], starts: list[Box], inner: list[Lines], rows: Tensor) -> Tensor:
    constant = rows.new_zeros(rows.shape[0])
    size = torch.zeros_like(constant)
    for depth in range(len(blocks) - 1, -1, -1):
        rows, offset = _pull(blocks[depth], starts[depth].shape[1:], rows)
        constant, size = constant + offset, size + offset.abs()
        if depth == 0:
            break
        lines = inner[depth - 1]
        up, down = rows.clamp(min=0), rows.clamp(max=0)
        for part, intercept in ((up, lines.upper_intercept), (down, lines.lower_intercept)):
            constant = constant + (part * intercept).flatten(1).sum(dim=1)
            size = size + (part * intercept).flatten(1).abs().sum(dim=1)
        rows = up * lines.upper_slope + down * lines.lower_slope
    flat, box = rows.flatten(1), starts[0]
    center, radius = box.center.flatten(), box.radius.flatten()
    size = size + flat.abs() @ (center.abs() + radius)
    return flat @ center + flat.abs() @ radius + constant + _SLACK * size


def _pull(block: _Chain, shape: torch.Size, rows: Tensor) -> tuple[Tensor, Tensor]:
    """A linear function of the block's output as one of its input: coefficients (S, ...) and constants (S,)."""
    with torch.enable_grad():
        dummy = rows.new_zeros((rows.shape[0], *shape)).requires_grad_()
        out = block(dummy)
        (back,) = torch.autograd.grad(out, dummy, rows)
    return back, (out.detach() * rows).flatten(1).sum(dim=1)  # dummy is 0, so the output is the constant part


def _blocks(net: nn.Module, like: Tensor) -> list[_Chain]:
    """The network as affine blocks with an activation between each two."""
    reading, blocks = traced(net), [_Chain()]
    demand_agreement(net, reading, like)
    for node, layer in reading.layers(net, "CROWN"):
        if layer is not None and type(layer) in ACTIVATIONS:
            blocks[-1].activation = ACTIVATIONS[type(layer)](layer)
            blocks.append(_Chain())
        elif layer is not None and type(layer) in AFFINE_LAYERS:
            blocks[-1].parts.append(layer)
        else:
            what = type(layer).__name__ if layer is not None else getattr(node.target, "__name__", node.target)
            raise InputError(f"CROWN does not know '{what}' (node '{node.name}'). Use method 'ibp'.")
    return blocks
