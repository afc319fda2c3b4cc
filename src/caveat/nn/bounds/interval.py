"""Interval bound propagation: a box goes through the network layer by layer.

The forward pass is read once with ``torch.fx``, so residual additions and reshapes written in ``forward`` are seen.
Gowal et al., "On the Effectiveness of Interval Bound Propagation for Training Verifiably Robust Models", 2018,
arXiv:1810.12715. Sound: whatever the network can give on the box lies between the bounds. Not tight.
"""

from __future__ import annotations

from typing import Any

from torch import fx, nn
from torch.utils._pytree import tree_leaves

from caveat.errors import InputError
from caveat.nn.bounds.agreement import demand_agreement
from caveat.nn.bounds.box import Box
from caveat.nn.bounds.rules import FUNCTION_RULES, METHOD_RULES, module_rule
from caveat.nn.bounds.tracing import Reading, traced

__all__ = ["before_head", "propagate"]


def propagate(model: nn.Module, box: Box, *, slack: bool = False) -> Box:
    """The box of all outputs that a network can give on a box of inputs. Differentiable.

    Parameters
    ----------
    model
        Linear, Conv2d, ReLU, Flatten, AvgPool2d, AdaptiveAvgPool2d, MaxPool2d, batch normalization with its running
        statistics, dropout as at rest, residual additions; a module of another type is an error that names it.
    box
        Inputs, in the float type of the model.
    slack
        Widen by what rounding can do. For certificates, in float64.

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


def before_head(model: nn.Module, box: Box, *, slack: bool = False) -> tuple[Box, nn.Linear | None]:
    """The box of what the last linear layer sees, and that layer; the box of outputs and None if it is not linear."""
    reading = traced(model)
    last = reading.output
    while isinstance(reading.module(model, last), (nn.Identity, nn.Dropout)):
        last = last.all_input_nodes[0]
    head = reading.module(model, last)
    if not isinstance(head, nn.Linear):
        return propagate(model, box, slack=slack), None
    return _boxed(model, reading, box, slack, last.all_input_nodes[0]), head


def _boxed(model: nn.Module, reading: Reading, box: Box, slack: bool, last: fx.Node) -> Box:
    """The box of a node of the graph, once the graph is known to do what the model does."""

    def step(node: fx.Node, args: Any, kwargs: Any) -> Any:
        result = _step(model, reading, node, args, kwargs, slack)
        if isinstance(result, Box) and (result.shape[:1] != box.shape[:1] or result.centre.dtype != box.centre.dtype):
            raise InputError(f"no bound is known for '{node.name}', which mixes the samples of a batch or changes "
                             "their float type.")  # fmt: skip
        return result

    # A box between two ends has a rounded centre.
    result = reading.run(model, box.widened(1) if slack else box, step, last)
    demand_agreement(model, reading, box.centre)
    if not isinstance(result, Box):
        raise InputError(f"{type(model).__name__} must return one tensor to have a bound, got {type(result).__name__}.")
    return result


def _step(model: nn.Module, reading: Reading, node: fx.Node, args: Any, kwargs: Any, slack: bool) -> Any:
    target: Any = node.target
    module = reading.module(model, node)
    rules: Any = FUNCTION_RULES if node.op == "call_function" else METHOD_RULES
    if not any(isinstance(value, Box) for value in tree_leaves([args, kwargs])):
        if module is not None:
            return module(*args, **kwargs)
        return target(*args, **kwargs) if node.op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)
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
