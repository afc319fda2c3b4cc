"""A model, run as it is deployed, against its certificate.

Bounds are computed from a copy in float64. What a forward pass does may depend on the float type, on the size of the
batch and on whether gradients are kept: the layers of the model in its own type are compared with those of the copy,
and its answers at inputs of the balls with their bounds, for several sizes of the batch, with and without gradients,
twice. One answer beyond its bound refutes the certificate.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from caveat.errors import InputError
from caveat.nn._modes import at_rest
from caveat.nn._walk import place_of
from caveat_lab.bounds.agreement import demand_agreement
from caveat_lab.bounds.arithmetic import Arithmetic
from caveat_lab.bounds.confidence import demand_classes
from caveat_lab.bounds.passes import logits_of
from caveat_lab.bounds.tracing import Reading, traced

__all__ = ["demand_kept", "demand_same_layers"]

_SIZES = (1, 2, 7)
Measure = Callable[[Tensor], Tensor]


def demand_same_layers(model: nn.Module, net: nn.Module, inputs: Tensor, slack: Arithmetic, size: int) -> None:
    """Raise unless the model does in its own type what its copy ``net`` in float64 does, in batches of each size."""
    name, reading, in_double = type(model).__name__, traced(model), traced(net)
    if _steps(reading) != _steps(in_double):
        raise InputError(
            f"{name} has other layers in {slack.name} than in float64, so nothing is certified. Look for "
            "hooks and branches that depend on the type."
        )
    for (node, mine), other in zip(reading.constant_values(model), in_double.constant_values(net), strict=True):
        if not _same(mine, other[1]):
            raise InputError(
                f"{name} computes weights in its forward pass ('{node.name}'), whose rounding in "
                f"{slack.name} has no bound. Fix them with parametrize.remove_parametrizations, or pass "
                "arithmetic='float64'."
            )
    like = inputs[:1].to(place_of(model, None), slack.dtype)
    demand_agreement(model, reading, like, runs=list(product((*_SIZES, size), (False, True))))


def demand_kept(
    model: nn.Module,
    slack: Arithmetic,
    size: int,
    measure: Measure,
    unchanged: Tensor,
    points: Tensor,
    rows: Tensor,
    lower: Tensor,
    upper: Tensor,
) -> Tensor:
    """What the model answers at the unchanged inputs (n, ...), once no answer has left its bounds.

    ``points`` are inputs inside the balls of some ``rows``.
    """
    place = place_of(model, None)
    few = torch.cat([unchanged[rows], points]).to(place, slack.dtype)
    filled = torch.arange(max(size, len(unchanged)), device=unchanged.device) % len(unchanged)  # a whole batch
    tries = [(few, torch.cat([rows, rows]), batch) for batch in _SIZES]
    tries.append((unchanged[filled].to(place, slack.dtype), filled, size))
    logits = unchanged
    with at_rest(model):
        for (x, places, batch), gradients, _ in product(tries, (True, False), range(2)):
            with torch.set_grad_enabled(gradients):
                logits = logits_of(model, x, size=batch).detach().to(unchanged.device).double()
            demand_classes(logits)
            how = f"{slack.name}, batches of {batch}, {'with' if gradients else 'without'} gradients"
            _demand_inside(model, measure(logits), lower[places], upper[places], places, how)
    return measure(logits[: len(unchanged)])


def _demand_inside(model: nn.Module, answer: Tensor, lower: Tensor, upper: Tensor, places: Tensor, how: str) -> None:
    name = type(model).__name__
    outside = (lower.isfinite() | upper.isfinite()) & ~((lower <= answer) & (answer <= upper))  # so is NaN
    if bool(outside.any()):
        row = int(places[outside.reshape(len(answer), -1).any(dim=1)][0])
        raise InputError(
            f"{name} leaves its bounds at an input of the ball of row {row} ({how}), so nothing is "
            "certified. Look for hooks and branches that depend on the type, the batch or gradients, and "
            "for rules or bounds of your own."
        )


def _steps(reading: Reading) -> list[tuple[str, ...]]:
    return [(node.op, *map(str, (node.target, node.args, node.kwargs))) for node in reading.graph.nodes]


def _same(mine: Any, other: Any) -> bool:
    pairs = zip(tree_leaves(mine), tree_leaves(other), strict=True)
    return all(
        torch.equal(a.double(), b.double()) if isinstance(a, Tensor) and isinstance(b, Tensor) else bool(a == b)
        for a, b in pairs
    )
