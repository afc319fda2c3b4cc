"""The forward pass of a network, read once as a graph of layers and operations.

``torch.fx`` runs the forward pass with a stand-in for the input and notes what happens to it, so residual additions and
reshapes written in ``forward`` are seen, and so are hooks. The graph is of the network at rest, also while it is being
trained. ``caveat_lab.bounds.agreement`` checks that it covers all that the network does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, final
from weakref import WeakKeyDictionary

from torch import Tensor, fx, nn
from torch.nn.modules import module as torch_module
from torch.utils._pytree import tree_leaves

from caveat.errors import InputError
from caveat.nn._modes import at_rest
from caveat.nn._walk import first_line
from caveat_lab.bounds.calls import layer_of_call
from caveat_lab.bounds.rules import has_rule

__all__ = ["Reading", "does_more", "reaching", "state_of", "traced"]

_ROOT = "model"
_PLAIN = (bool, int, float, str, type(None))
_READ: WeakKeyDictionary[nn.Module, Reading] = WeakKeyDictionary()
Step = Callable[[fx.Node, Any, Any], Any]


@final
class _Call(nn.Module):
    """The model as a user calls it, so that hooks of its own belong to the forward pass too."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model(x)


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if does_more(m) or hasattr(m, "parametrizations"):  # then a rule for its type does not say all
            return False
        if module_qualified_name == _ROOT:  # a container of torch's own, such as DataParallel, is read through
            return has_rule(m)
        return has_rule(m) or super().is_leaf_module(m, module_qualified_name)


@final
@dataclass(eq=False)
class Reading:
    """A forward pass as a graph."""

    graph: fx.Graph
    constants: dict[str, Any]  # made during the forward pass, independent of the input
    state: tuple[Any, ...]  # ``state_of`` the model when it was read
    agreed: set[Any] = field(default_factory=set)  # shapes and types of inputs for which it was compared with the model

    def layers(self, model: nn.Module, who: str) -> Iterator[tuple[fx.Node, nn.Module | None]]:
        """The nodes between input and output with the layer each one calls or stands for, None if it is none.

        Each may depend on the input only through the one before it. What does not depend on the input, such as the
        weight of a parametrized layer, is computed on the way.
        """
        constants: dict[fx.Node, Any] = {}
        before: fx.Node | None = None
        for node in self.graph.nodes:
            varying = [part for part in node.all_input_nodes if part not in constants]
            if node.op == "placeholder":
                before = node
            elif node.op == "get_attr":
                constants[node] = self.attribute(model, node)
            elif not varying and node.op != "output":
                constants[node] = self.constant(model, node, *_filled(node, constants))
            elif varying != [before]:
                raise InputError(f"{who} needs a chain of layers, but '{node.name}' joins or branches.")
            elif node.op != "output":
                args, kwargs = _filled(node, constants)
                first_only = bool(args) and args[0] is before and before not in tree_leaves([args[1:], kwargs])
                layer = self.module(model, node)
                if layer is None and first_only:
                    layer = layer_of_call(node.target, args[1:], kwargs)
                yield node, layer
                before = node

    @property
    def output(self) -> fx.Node:
        node = next(reversed(self.graph.nodes)).args[0]
        if not isinstance(node, fx.Node):
            raise InputError("the model must return one tensor to have a bound, not a collection or a constant.")
        return node

    def module(self, model: nn.Module, node: fx.Node) -> nn.Module | None:
        """The layer that a node calls; None if it is not a layer."""
        return model.get_submodule(self.name(node)) if node.op == "call_module" else None

    def attribute(self, model: nn.Module, node: fx.Node) -> Any:
        """The parameter, buffer or constant that a node reads."""
        own = str(node.target) not in self.constants
        return operator.attrgetter(self.name(node))(model) if own else self.constants[str(node.target)]

    def constant(self, model: nn.Module, node: fx.Node, args: Any, kwargs: Any) -> Any:
        """What a node gives that does not depend on the input, at rest."""
        target: Any = node.target
        if (module := self.module(model, node)) is not None:
            with at_rest(module):  # spectral normalization changes its vectors while it is being trained
                return module(*args, **kwargs)
        return target(*args, **kwargs) if node.op == "call_function" else getattr(args[0], target)(*args[1:], **kwargs)

    @staticmethod
    def name(node: fx.Node) -> str:
        """The name of a layer or a parameter in the model; empty for the model itself."""
        return str(node.target).removeprefix(_ROOT).removeprefix(".")

    def constant_values(self, model: nn.Module) -> list[tuple[fx.Node, Any]]:
        """The nodes that do not depend on the input, and their values; parameters and buffers are left out."""
        values: dict[fx.Node, Any] = {}
        for node in self.graph.nodes:
            if node.op == "get_attr":
                values[node] = self.attribute(model, node)
            elif node.op.startswith("call") and all(part in values for part in node.all_input_nodes):
                values[node] = self.constant(model, node, *_filled(node, values))
        own = {node for node in values if node.op == "get_attr" and str(node.target) not in self.constants}
        return [(node, value) for node, value in values.items() if node not in own]

    def run(self, model: nn.Module, first: Any, step: Step, last: fx.Node | None = None) -> Any:
        """What the graph gives up to a node (default: the output), with ``step(node, args, kwargs)`` for each."""
        last = self.output if last is None else last
        needed = reaching(last)
        nodes = [node for node in self.graph.nodes if node in needed]
        waiting = {node: sum(user in needed for user in node.users) for node in nodes}
        values: dict[fx.Node, Any] = {}
        for node in nodes:
            if node.op == "placeholder":
                values[node] = first
            elif node.op == "get_attr":
                values[node] = self.attribute(model, node)
            else:
                args, kwargs = (fx.map_arg(part, values.__getitem__) for part in (node.args, node.kwargs))
                values[node] = step(node, args, kwargs)
            for used in node.all_input_nodes:  # free what no later node reads
                waiting[used] -= 1
                if not waiting[used]:
                    del values[used]
        return values[last]


def traced(model: nn.Module) -> Reading:
    """The forward pass of a model at rest. Kept until a submodule, a hook or a plain attribute changes."""
    state = state_of(model)
    reading = _READ.get(model)
    if reading is None or reading.state != state:
        root = _Call(model)
        try:
            with at_rest(model):
                graph = _Tracer().trace(root)
        except Exception as error:  # a forward pass may raise anything on a stand-in
            raise InputError(f"the forward pass of {type(model).__name__} cannot be read ({first_line(error)}). "
                             "Write it without branches on values, or from nn.Sequential.") from error  # fmt: skip
        names = (str(node.target) for node in graph.nodes if node.op == "get_attr")
        constants = {name: getattr(root, name) for name in names if not name.startswith(f"{_ROOT}.")}
        if any(getattr(value, "grad_fn", None) is not None for value in constants.values()):
            raise InputError(f"{type(model).__name__} uses weights that are not its parameters, which bounds would "
                             "take for constants. Register them as parameters.")  # fmt: skip
        reading = _READ[model] = Reading(graph, constants, state)
    return reading


def does_more(module: nn.Module) -> bool:
    """Whether a call of the module does more than the forward pass of its type."""
    hooked = module._forward_hooks or module._forward_pre_hooks
    changed = "forward" in vars(module) or type(module).__call__ is not nn.Module.__call__
    return bool(hooked or changed or torch_module._global_forward_hooks or torch_module._global_forward_pre_hooks)


def state_of(model: nn.Module) -> tuple[Any, ...]:
    """What a forward pass may depend on and tensors do not show: submodules, hooks, plain attributes."""
    return (
        tuple(torch_module._global_forward_hooks), tuple(torch_module._global_forward_pre_hooks),
        *((id(module), tuple(module._forward_hooks), tuple(module._forward_pre_hooks),
           id(vars(module).get("forward")), *((name, value) for name, value in vars(module).items()
                                              if name != "training" and isinstance(value, _PLAIN)))
          for module in model.modules()),
    )  # fmt: skip


def _filled(node: fx.Node, values: dict[fx.Node, Any]) -> tuple[Any, Any]:
    """The arguments of a node with the values of those nodes that have one."""
    args, kwargs = (fx.map_arg(part, lambda used: values.get(used, used)) for part in (node.args, node.kwargs))
    return args, kwargs


def reaching(last: fx.Node) -> set[fx.Node]:
    """The nodes that a node depends on, and itself."""
    nodes, waiting = {last}, [last]
    while waiting:
        new = set(waiting.pop().all_input_nodes) - nodes
        nodes |= new
        waiting += new
    return nodes
