"""Interval bound propagation: a box goes through the network layer by layer.

The forward pass is read once with ``torch.fx``, so residual additions and reshapes written in ``forward`` are seen.
Gowal et al., "On the Effectiveness of Interval Bound Propagation for Training Verifiably Robust Models", 2018,
arXiv:1810.12715. Sound: whatever the network can give on the box lies between the bounds. Not tight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_leaves

from caveat.errors import InputError
from caveat_lab.bounds.agreement import demand_agreement
from caveat_lab.bounds.arithmetic import Arithmetic
from caveat_lab.bounds.box import Box
from caveat_lab.bounds.rules import FUNCTION_RULES, METHOD_RULES, module_rule
from caveat_lab.bounds.tracing import Reading, reaching, traced

__all__ = ["before_head", "propagate", "ruled"]


def propagate(model: nn.Module, box: Box, *, slack: Arithmetic | None = None) -> Box:
    """The box of all outputs that a network can give on a box of inputs. Differentiable.

    Parameters
    ----------
    model
        Linear, Conv1d, Conv2d, ReLU, LeakyReLU, GELU, SiLU, Sigmoid, Tanh, LayerNorm, Flatten, average and max pools
        of one and two axes, batch normalization with its running statistics, dropout as at rest; the functions of the
        same names, additions of parts, arithmetic with constants, cat, chunk and split. Layers may have
        parametrizations. A module of another type is an error that names it.
    box
        Inputs, in the float type of the model.
    slack
        Widen by what rounding can do in this arithmetic, for certificates; the box and the network are in float64.

    Returns
    -------
    Box
        The outputs.

    Examples
    --------
    >>> import torch
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, -2.0]]))
    >>> out = propagate(nn.Sequential(layer, nn.ReLU()), Box(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])))
    >>> out.lower.item(), out.upper.item()
    (0.0, 2.5)
    """
    reading = traced(model)
    return _boxed(model, reading, box, slack, reading.output)


@final
@dataclass(frozen=True, eq=False)
class LinearHead:
    """The weights of the last layer: (K, H), and (K,) or None."""

    weight: Tensor
    bias: Tensor | None


def before_head(model: nn.Module, box: Box, *, slack: Arithmetic | None = None) -> tuple[Box, LinearHead | None]:
    """The box of what the last linear layer sees, and its weights; the box of outputs and None if it is not linear."""
    reading = traced(model)
    last = reading.output
    while type(reading.module(model, last)) in (nn.Identity, nn.Dropout):
        last = last.all_input_nodes[0]
    head = reading.module(model, last)
    if head is not None and type(head) is nn.Linear:  # a subclass may do something else with its weights
        return _boxed(model, reading, box, slack, last.all_input_nodes[0]), LinearHead(head.weight, head.bias)
    parts = dict(zip(("input", "weight", "bias"), last.args, strict=False)) | dict(last.kwargs)
    before: Any = parts.pop("input", None)
    if last.target is F.linear and isinstance(before, fx.Node):  # a function, or a layer with a parametrization
        weights = _constants(model, reading, parts)
        if weights is not None:
            return _boxed(model, reading, box, slack, before), weights
    return propagate(model, box, slack=slack), None


def _constants(model: nn.Module, reading: Reading, parts: dict[str, Any]) -> LinearHead | None:
    """The weights of a call of ``F.linear``, from its other arguments; None if they depend on the input."""
    values = dict[str, Any]()
    for name, part in parts.items():
        values[name] = part
        if isinstance(part, fx.Node):
            if any(used.op == "placeholder" for used in reaching(part)):
                return None
            values[name] = reading.run(model, None, partial(reading.constant, model), part)
    return LinearHead(values["weight"], values.get("bias"))


def _boxed(model: nn.Module, reading: Reading, box: Box, slack: Arithmetic | None, last: fx.Node) -> Box:
    """The box of a node of the graph, once the graph is known to do what the model does."""

    def step(node: fx.Node, args: Any, kwargs: Any) -> Any:
        result = ruled(model, reading, node, args, kwargs, slack)
        for part in result if isinstance(result, list) else [result]:
            if isinstance(part, Box) and (part.shape[:1] != box.shape[:1] or part.center.dtype != box.center.dtype):
                raise InputError(f"no bound is known for '{node.name}', which mixes the samples of a batch or changes "
                                 "their float type.")  # fmt: skip
        return result

    # A box between two ends has a rounded center.
    result = reading.run(model, box if slack is None else box.widened(1), step, last)
    demand_agreement(model, reading, box.center)
    if not isinstance(result, Box):
        raise InputError(f"{type(model).__name__} must return one tensor to have a bound, got {type(result).__name__}.")
    return result


def ruled(model: nn.Module, reading: Reading, node: fx.Node, args: Any, kwargs: Any, slack: Arithmetic | None) -> Any:
    """What a node of the graph gives, by its rule: a box where an argument is one."""
    target: Any = node.target
    module = reading.module(model, node)
    rules: Any = FUNCTION_RULES if node.op == "call_function" else METHOD_RULES
    if not any(isinstance(value, Box) for value in tree_leaves([args, kwargs])):
        return reading.constant(model, node, args, kwargs)
    what = reading.name(node) if module is not None else getattr(target, "__name__", target)
    rule: Any = None if module is None else module_rule(module, what)
    if rule is None and target not in rules:
        raise InputError(f"no bound is known for the operation '{what}' in the forward pass (node '{node.name}').")
    try:
        if rule is not None:
            return rule(module, *args, *kwargs.values(), slack)  # layer(input=x) names its one argument
        return rules[target](*args, slack=slack, **kwargs)
    except (TypeError, AttributeError, IndexError) as error:
        raise InputError(
            f"no bound is known for '{what}' with these arguments (node '{node.name}'): {error}."
        ) from error
