"""Interval bound propagation: a box goes through the network layer by layer.

The forward pass is read once with ``torch.fx``, so residual additions and reshapes written in ``forward`` are seen.
Gowal et al., "On the Effectiveness of Interval Bound Propagation for Training Verifiably Robust Models", 2018,
arXiv:1810.12715. Sound: whatever the network can give on the box lies between the bounds. Not tight.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, fx, nn

from caveat.errors import InputError
from caveat.nn.bounds.box import Box
from caveat.nn.bounds.overwriting import refuse_overwriting
from caveat.nn.bounds.rules import FUNCTION_RULES, METHOD_RULES, has_rule, module_rule

__all__ = ["before_head", "modules_of", "propagate", "traced"]

_TRACED: WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], fx.Graph]] = WeakKeyDictionary()


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return has_rule(m) or super().is_leaf_module(m, module_qualified_name)


def traced(model: nn.Module) -> fx.Graph:
    """The forward pass as a graph. Kept until a submodule is exchanged or the mode changes."""
    state = (model.training, *(id(module) for module in model.modules()))
    known = _TRACED.get(model)
    if known is None or known[0] != state:
        try:
            graph = _Tracer().trace(_as_network(model))
        except (fx.proxy.TraceError, TypeError, RuntimeError) as error:
            raise InputError(f"the forward pass of {type(model).__name__} cannot be read ({error}). "
                             "Write it without branches on values, or from nn.Sequential.") from error  # fmt: skip
        inputs = [node for node in graph.nodes if node.op == "placeholder" and not node.args]
        if len(inputs) != 1:
            raise InputError(f"{type(model).__name__} must take one input to have a bound, it takes {len(inputs)}.")
        refuse_overwriting(graph, modules_of(model))
        known = _TRACED[model] = (state, graph)
    return known[1]


def propagate(model: nn.Module, box: Box, *, slack: bool = False) -> Box:
    """The box of all outputs that a network can give on a box of inputs. Differentiable.

    Parameters
    ----------
    model
        Linear, Conv2d, ReLU, Flatten, AvgPool2d, AdaptiveAvgPool2d, MaxPool2d, batch normalisation with its running
        statistics, dropout as at rest, residual additions; a module of another type is an error that names it.
    box
        Inputs, in the float type of the model.
    slack
        Widen by what rounding can do. For certificates, in float64.

    Examples
    --------
    >>> import torch
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, -2.0]]))
    >>> out = propagate(nn.Sequential(layer, nn.ReLU()), Box(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]])))
    >>> out.lower.item(), out.upper.item()
    (0.0, 2.5)
    """
    result = _run(model, traced(model), box, slack, stop=None)
    if not isinstance(result, Box):
        raise InputError(f"{type(model).__name__} must return one tensor to have a bound, got {type(result).__name__}.")
    return result


def before_head(model: nn.Module, box: Box, *, slack: bool = False) -> tuple[Box, nn.Linear | None]:
    """The box of what the last linear layer sees, and that layer; the box of outputs and None if it is not linear."""
    graph, modules = traced(model), modules_of(model)
    last = _output(graph)
    while last.op == "call_module" and isinstance(modules[str(last.target)], (nn.Identity, nn.Dropout)):
        last = last.all_input_nodes[0]
    head = modules[str(last.target)] if last.op == "call_module" else None
    if not isinstance(head, nn.Linear):
        return propagate(model, box, slack=slack), None
    return _run(model, graph, box, slack, stop=last), head


def modules_of(model: nn.Module) -> dict[str, nn.Module]:
    """Modules by the names the graph uses."""
    return dict(_as_network(model).named_modules())


def _as_network(model: nn.Module) -> nn.Module:
    return nn.Sequential(model) if has_rule(model) else model  # a single layer is read as a network of one


def _output(graph: fx.Graph) -> fx.Node:
    node = next(reversed(graph.nodes)).args[0]
    if not isinstance(node, fx.Node):
        raise InputError("the model must return one tensor to have a bound, not a collection.")
    return node


def _run(model: nn.Module, graph: fx.Graph, box: Box, slack: bool, stop: fx.Node | None) -> Any:
    modules, values = modules_of(model), dict[fx.Node, Any]()
    box = box.widened(1) if slack else box  # a box between two ends has a rounded centre
    waiting = {node: len(node.users) for node in graph.nodes}
    needed = _reaching(stop if stop is not None else _output(graph))
    for node in graph.nodes:
        if node not in needed:
            continue
        if stop is not None and node is stop:
            return values[stop.all_input_nodes[0]]
        if node.op == "output":
            return values[_output(graph)]
        if node.op == "placeholder":
            values[node] = node.args[0] if node.args else box
            continue
        values[node] = _step(model, modules, node, values, slack)
        for used in node.all_input_nodes:  # what nobody waits for any more is freed
            waiting[used] -= 1
            if not waiting[used]:
                del values[used]
    raise AssertionError("a graph ends with its output")


def _reaching(last: fx.Node) -> set[fx.Node]:
    """The nodes the answer depends on, and the output itself."""
    found, open_ = {last, *(user for user in last.users if user.op == "output")}, [last]
    while open_:
        for node in open_.pop().all_input_nodes:
            if node not in found:
                found.add(node)
                open_.append(node)
    return found


def _step(
    model: nn.Module, modules: dict[str, nn.Module], node: fx.Node, values: dict[fx.Node, Any], slack: bool
) -> Any:
    args: Any = fx.map_arg(node.args, values.__getitem__)
    kwargs: Any = fx.map_arg(node.kwargs, values.__getitem__)
    target: Any = node.target
    if node.op == "get_attr":
        return _attribute(model, str(target))
    boxed = any(isinstance(value, Box) for value in _leaves([args, kwargs]))
    if node.op == "call_module":
        if not boxed:
            return modules[target](*args, **kwargs)
        return module_rule(modules[target], target)(modules[target], args[0], slack)
    if not boxed:
        return target(*args, **kwargs) if node.op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)
    rules: Any = FUNCTION_RULES if node.op == "call_function" else METHOD_RULES
    what = getattr(target, "__name__", target)
    if target not in rules:
        raise InputError(f"no bound is known for the operation '{what}' in the forward pass (node '{node.name}').")
    try:
        return rules[target](*args, slack=slack, **kwargs)
    except TypeError as error:
        raise InputError(
            f"no bound is known for '{what}' with these arguments (node '{node.name}'): {error}."
        ) from error


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _attribute(model: nn.Module, name: str) -> Tensor:
    found: Any = model
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]
