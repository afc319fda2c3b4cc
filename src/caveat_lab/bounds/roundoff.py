r"""How far rounding can move the outputs of a network, carried through it by lines.

Layer l of the deployed network adds an error of at most d_l, entry by entry, to what it would give in real numbers. Of
two inputs that differ by e, an activation gives outputs that differ by s e, with s between its smallest and its largest
slope over all values that can occur. With m the middle of the two slopes and h half their distance,

$$ s e = m e + \theta h E, \qquad |\theta| \le 1, \quad E \ge |e| $$

so the error of the outputs is linear in small boxes, d_l and h E, whose coefficients one pass back per output gives:

$$ |(\hat f_k - \hat f_j) - (f_k - f_j)| \le \sum_i |A_{ki} - A_{ji}| \, b_i $$

A difference of two rows of A is tighter than two rows, and where no activation can switch, A is the derivative itself.
Carried by |W| from layer to layer instead, errors only add up. Both are bounds, and the smaller one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from caveat.errors import InputError
from caveat_lab.bounds.activations import ACTIVATIONS, Activation
from caveat_lab.bounds.agreement import demand_agreement
from caveat_lab.bounds.arithmetic import Arithmetic
from caveat_lab.bounds.box import Box, cast_box
from caveat_lab.bounds.calls import layer_of_call
from caveat_lab.bounds.interval import ruled
from caveat_lab.bounds.rules import AFFINE_LAYERS
from caveat_lab.bounds.tracing import Reading, traced

__all__ = ["difference_errors", "output_errors"]

_CLASSES = 100  # with more, as many passes back cost more than they are worth
_ENTRIES = 2**23  # coefficients held at once
_ROWS = 128
_ROOM = 1e-10  # of what adds up if nothing cancels; the rounding of the coefficients is a thousand times smaller
_POOLS = (nn.MaxPool1d, nn.MaxPool2d)


def difference_errors(model: nn.Module, box: Box, slack: Arithmetic) -> Tensor | None:
    """The most that rounding can change each difference of two outputs by, (n, K, K), for inputs in a box.

    None where a layer, or their number of outputs, leaves no lines. The model is in float64, at rest.

    >>> head = nn.Linear(1, 2, bias=False).double()
    >>> _ = head.weight.data.copy_(torch.tensor([[2.0], [1.0]]))
    >>> one, none = torch.ones(1, 1).double(), torch.zeros(1, 1).double()
    >>> from caveat_lab.bounds.arithmetic import arithmetic_of
    >>> slack = arithmetic_of(nn.Linear(1, 1))  # float32: u = 6e-8
    >>> errors = difference_errors(head, Box(one, none), slack)  # each output is rounded, at sizes 2 and 1; so is x
    >>> bool(3 * slack.unit < errors[0, 0, 1] < 16 * slack.unit)
    True
    """
    parts = []
    for rows, sizes, most in _coefficients(model, box, slack):
        if rows.shape[1] > _CLASSES:
            return None
        apart = [((rows - rows[:, k, None]).abs() @ sizes[:, :, None]).squeeze(2) for k in range(rows.shape[1])]
        parts.append(torch.stack(apart, dim=1) + _ROOM * (most[:, :, None] + most[:, None, :]))
    return torch.cat(parts) if parts else None


def output_errors(model: nn.Module, box: Box, slack: Arithmetic) -> Tensor | None:
    """The most that rounding can change each output by, (n, K), for inputs in a box; None as above."""
    parts = [
        (rows.abs() @ sizes[:, :, None]).squeeze(2) + _ROOM * most
        for rows, sizes, most in _coefficients(model, box, slack)
    ]
    return torch.cat(parts) if parts else None


class _NoLines(Exception):
    """A layer through which errors go by no line."""


@final
@dataclass(frozen=True, eq=False)
class _Carried:
    """A value inside the network, with and without rounding, and its error.

    ``error.center`` is 0; what counts is how it depends on the small boxes. ``error.radius`` bounds the error.
    """

    value: Box
    error: Box


@final
class _Errors:
    """The small boxes that errors come from: where they enter, and how large they are."""

    def __init__(self) -> None:
        self.places: list[Tensor] = []
        self.sizes: list[Tensor] = []

    def added(self, error: Box, size: Tensor) -> Box:
        if not bool((size != 0).any()):
            return error
        place = torch.zeros_like(error.center).requires_grad_()
        self.places.append(place)
        self.sizes.append(size.expand_as(place).flatten(1))
        return Box(error.center + place, error.radius + size)


def _coefficients(model: nn.Module, box: Box, slack: Arithmetic) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Of some rows at a time: A (n, K, entries), the sizes b (n, entries), and bounds (n, K) by |W|. Nothing if a layer
    leaves no lines."""
    reading, start, step = traced(model), 0, 1  # the first row shows how many entries there are
    demand_agreement(model, reading, box.center)
    while start < box.shape[0]:
        part = Box(box.center[start : start + step], box.radius[start : start + step])
        try:
            with torch.enable_grad():
                end, errors = _run(model, reading, part, slack)
                rows = _slopes(end.error.center, errors)
        except _NoLines:
            return
        yield rows, torch.cat(errors.sizes, dim=1).detach(), end.error.radius.detach()
        start += step
        step = min(_ROWS, max(1, _ENTRIES // rows[0].numel()))


def _slopes(out: Tensor, errors: _Errors) -> Tensor:
    if out.ndim != 2:
        raise InputError(f"the model must return logits (n, K) to have a bound, got {out.ndim} axes.")
    rows = []
    for k in range(min(out.shape[1], _CLASSES + 1)):
        slopes = torch.autograd.grad(out[:, k].sum(), errors.places, retain_graph=True, materialize_grads=True)
        rows.append(torch.cat([slope.flatten(1) for slope in slopes], dim=1))
    return torch.stack(rows, dim=1)


def _run(model: nn.Module, reading: Reading, box: Box, slack: Arithmetic) -> tuple[_Carried, _Errors]:
    errors = _Errors()
    size = box.center.abs() + box.radius
    none = Box(torch.zeros_like(box.center), torch.zeros_like(box.radius))
    own = slack.lost(1) * size + slack.tiny  # the input is cast to the type of the network
    first = _Carried(cast_box(box, slack), errors.added(none, own))

    def step(node: fx.Node, args: Any, kwargs: Any) -> Any:
        carried = [part for part in tree_leaves([args, kwargs]) if isinstance(part, _Carried)]
        if not carried:
            return reading.constant(model, node, args, kwargs)

        def by_rule(which: str, how: Arithmetic | None) -> Any:
            some, named = tree_map_only(_Carried, lambda part: getattr(part, which), (args, kwargs))
            return ruled(model, reading, node, some, named, how)

        values, exact = by_rule("value", slack), by_rule("value", None)
        if not isinstance(values, (Box, list)):  # a shape
            return values
        layer = _layer(model, reading, node, args, kwargs)
        if isinstance(values, Box) and layer is not None and type(layer) not in AFFINE_LAYERS:
            return _Carried(values, _through(layer, carried[0], errors, _added(values, exact)))
        moved = by_rule("error", None)
        if isinstance(values, Box):
            return _Carried(values, errors.added(moved, _added(values, exact)))
        return [_Carried(v, errors.added(e, _added(v, x))) for v, x, e in zip(values, exact, moved, strict=True)]

    return reading.run(model, first, step), errors


def _layer(model: nn.Module, reading: Reading, node: fx.Node, args: Any, kwargs: Any) -> nn.Module | None:
    """The layer that a node calls or stands for; None for operations, all of which are affine."""
    if (module := reading.module(model, node)) is not None:
        return module
    rest = {name: part for name, part in kwargs.items() if name != "input"}
    return layer_of_call(node.target, args[1:], rest)


def _through(layer: nn.Module, carried: _Carried, errors: _Errors, own: Tensor) -> Box:
    """The error behind a layer that is not affine and adds ``own``."""
    error = carried.error
    if isinstance(layer, _POOLS):  # a maximum changes by no more than the entry that changes most
        nothing = torch.zeros_like(own)
        return errors.added(Box(nothing, nothing), layer(error.radius) + own)
    if type(layer) not in ACTIVATIONS:
        raise _NoLines
    middle, half = _secants(ACTIVATIONS[type(layer)](layer), carried.value)
    through = Box(middle * error.center, middle.abs() * error.radius)
    return errors.added(through, half * error.radius + own)


def _secants(activation: Activation, box: Box) -> tuple[Tensor, Tensor]:
    """Middle and half distance of the slopes between any two points of a box, entry by entry."""
    if activation.curvature is None:  # two straight pieces that meet at 0
        left = -activation.function(-box.center.new_ones(()))
        ends = torch.where(box.lower >= 0, 1.0, left), torch.where(box.upper <= 0, left, 1.0)
        least, most = torch.minimum(*ends), torch.maximum(*ends)
    else:
        with torch.enable_grad():
            points = box.center.detach().requires_grad_()
            (slope,) = torch.autograd.grad(activation.function(points).sum(), points)
        steepest = activation.steepest
        reach = activation.curvature * box.radius + 1e-12  # the slope's own rounding
        least = (slope - reach).clamp(min=-steepest if activation.lowest > -torch.inf else 0.0)
        most = (slope + reach).clamp(max=steepest)
    return (least + most) / 2, (most - least) / 2


def _added(wide: Box, narrow: Box) -> Tensor:
    """How far a box with rounding reaches beyond the one without."""
    return torch.maximum(wide.upper - narrow.upper, narrow.lower - wide.lower).clamp_min(0).detach()
