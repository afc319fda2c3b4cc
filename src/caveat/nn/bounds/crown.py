r"""CROWN: linear bounds of the outputs, carried back through the network. Tighter than boxes, and far slower.

A ReLU whose input lies in [l, u] with l < 0 < u is enclosed by two lines:

$$ \alpha z \le \max(z, 0) \le \frac{u}{u - l}(z - l), \qquad \alpha = 1 \text{ if } u > -l \text{ else } 0 $$

An upper bound of a linear function of the outputs then goes back layer by layer as a linear function, until it is one
of the input, where a box is exact. The bounds l, u of inner layers are made in the same way, for the units that can
switch. Zhang, Weng, Chen, Hsieh and Daniel, "Efficient Neural Network Robustness Certification with General Activation
Functions", NeurIPS 2018, arXiv:1811.00866. One sample at a time: meant for the few a box leaves open.
"""

from __future__ import annotations

from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from caveat.errors import InputError
from caveat.nn.bounds.agreement import demand_agreement
from caveat.nn.bounds.box import Box
from caveat.nn.bounds.rules import module_rule, relu
from caveat.nn.bounds.tracing import traced

__all__ = ["crown_differences"]

_AFFINE = (nn.Linear, nn.Conv2d, nn.BatchNorm1d, nn.BatchNorm2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Flatten,
           nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d)  # fmt: skip
_RELU: tuple[Any, ...] = (F.relu, torch.relu, torch.relu_, "relu")
_ROWS = 512  # linear functions carried back at once
_SLACK = 1e-10  # of all that was added up; float64 rounding is ten thousand times smaller
_LOST = 1e-12  # of what was added up before it cancelled, here or in the network; rounding of some thousand terms


@final
class _Chain:
    """Affine modules one after the other."""

    def __init__(self, parts: list[nn.Module]) -> None:
        self.parts = parts

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def box(self, box: Box) -> Box:
        for part in self.parts:
            box = module_rule(part, type(part).__name__)(part, box, True)
        return box

    def size(self, size: Tensor) -> Tensor:
        """What entries up to ``size`` add up to if nothing cancels."""
        for part in self.parts:
            box = module_rule(part, type(part).__name__)(part, Box(torch.zeros_like(size), size), False)
            size = box.centre.abs() + box.radius
        return size


def crown_differences(net: nn.Module, box: Box) -> Tensor:
    """Upper bounds (n, K, K) of all logit differences for each input box (n, ...) of the batch.

    The network is in float64, at rest, a chain of linear layers, convolutions, batch normalizations, average pools and
    ReLUs.

    >>> net = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 2, bias=False)).double()
    >>> net[0].weight.data[:], net[2].weight.data[:] = torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0, -1.0], [0, 0]])
    >>> one = torch.ones(1, 1, dtype=torch.float64)
    >>> crown_differences(net, Box(one, one / 2))[0, 0, 1].item() < 1e-8  # relu(z) - relu(z) = 0; a box says 1
    True
    """
    blocks = _blocks(net, box.centre)
    with torch.no_grad():
        rows = zip(torch.split(box.centre, 1), torch.split(box.radius, 1), strict=True)
        return torch.stack([_differences(blocks, Box(*row)) for row in rows])


def _differences(blocks: list[_Chain], box: Box) -> Tensor:
    starts = [box]  # before each affine block
    inner: list[Box] = []  # before each ReLU
    size = box.centre.abs() + box.radius
    for block in blocks[:-1]:
        size = block.size(size)
        inner.append(_tightened(blocks, starts, inner, block.box(starts[-1]), size))
        starts.append(relu(inner[-1], slack=True))
    logits = blocks[-1](starts[-1].centre)
    classes = logits.shape[1]
    eye = torch.eye(classes, dtype=logits.dtype, device=logits.device)
    pairs = (eye[:, None] - eye).flatten(0, 1)
    upper = _carried_back(blocks, starts, inner, pairs, blocks[-1].size(size)).reshape(classes, classes)
    return upper * (1 - eye)


def _tightened(blocks: list[_Chain], starts: list[Box], inner: list[Box], before: Box, size: Tensor) -> Box:
    """The box before a ReLU, made tighter by linear bounds for the units that can be on or off."""
    lower, upper = before.lower.flatten(), before.upper.flatten()
    open_ = ((lower < 0) & (upper > 0)).nonzero()[:, 0]
    if not inner or not open_.numel():  # the first layer's box is exact
        return before
    unit = torch.zeros(open_.numel(), lower.numel(), dtype=lower.dtype, device=lower.device)
    unit.scatter_(1, open_[:, None], 1.0)
    unit = unit.reshape(-1, *before.shape[1:])
    depth = blocks[: len(inner) + 1]
    upper[open_] = torch.minimum(upper[open_], _carried_back(depth, starts, inner, unit, size))
    lower[open_] = torch.maximum(lower[open_], -_carried_back(depth, starts, inner, -unit, size))
    return Box.between(lower.reshape(before.shape), upper.reshape(before.shape)).widened(1)


def _carried_back(blocks: list[_Chain], starts: list[Box], inner: list[Box], rows: Tensor, size: Tensor) -> Tensor:
    """Upper bounds (S,) of linear functions, rows (S, ...), of what the last block gives, which adds up to ``size``."""
    upper = torch.cat([_carry(blocks, starts, inner, part) for part in torch.split(rows, _ROWS)])
    return upper + _LOST * (rows.flatten(1).abs() @ size.flatten())


def _carry(blocks: list[_Chain], starts: list[Box], inner: list[Box], rows: Tensor) -> Tensor:
    constant = rows.new_zeros(rows.shape[0])
    size = torch.zeros_like(constant)
    for depth in range(len(blocks) - 1, -1, -1):
        rows, offset = _pull(blocks[depth], starts[depth].shape[1:], rows)
        constant, size = constant + offset, size + offset.abs()
        if depth == 0:
            break
        lower, upper = inner[depth - 1].lower, inner[depth - 1].upper
        crossing = (lower < 0) & (upper > 0)
        on = (lower >= 0).to(rows.dtype)
        slope = torch.where(crossing, upper / (upper - lower), on)
        intercept = torch.where(crossing, -lower * slope, torch.zeros_like(lower))
        floor = torch.where(crossing, (upper > -lower).to(rows.dtype), on)
        lift = (rows.clamp(min=0) * intercept).flatten(1).sum(dim=1)
        constant, size = constant + lift, size + lift
        rows = torch.where(rows > 0, rows * slope, rows * floor)
    flat, box = rows.flatten(1), starts[0]
    centre, radius = box.centre.flatten(), box.radius.flatten()
    size = size + flat.abs() @ (centre.abs() + radius)
    return flat @ centre + flat.abs() @ radius + constant + _SLACK * size


def _pull(block: _Chain, shape: torch.Size, rows: Tensor) -> tuple[Tensor, Tensor]:
    """A linear function of the block's output as one of its input: coefficients (S, ...) and constants (S,)."""
    with torch.enable_grad():
        dummy = rows.new_zeros((rows.shape[0], *shape)).requires_grad_()
        out = block(dummy)
        (back,) = torch.autograd.grad(out, dummy, rows)
    return back, (out.detach() * rows).flatten(1).sum(dim=1)  # dummy is 0, so the output is the constant part


def _blocks(net: nn.Module, like: Tensor) -> list[_Chain]:
    """The network as affine blocks with a ReLU between each two."""
    reading, blocks = traced(net), [_Chain([])]
    demand_agreement(net, reading, like)
    for node in reading.chain("CROWN"):
        module = reading.module(net, node)
        if isinstance(module, nn.ReLU) or node.target in _RELU:
            blocks.append(_Chain([]))
        elif isinstance(module, _AFFINE):
            blocks[-1].parts.append(module)
        elif node.target in (torch.flatten, "flatten"):
            blocks[-1].parts.append(nn.Flatten(*node.args[1:], **node.kwargs))
        else:
            what = type(module).__name__ if module is not None else getattr(node.target, "__name__", node.target)
            raise InputError(f"CROWN does not know '{what}' (node '{node.name}'). Use method 'ibp'.")
    return blocks
