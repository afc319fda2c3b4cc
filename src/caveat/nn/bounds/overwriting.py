"""Forward passes that write into a tensor and read its old name afterwards.

A graph knows values, not memory: for ``y = relu_(x)`` followed by ``x + y`` it would bound the old x, and the network
adds the new one. Such a pass has no bound.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from caveat.errors import InputError

__all__ = ["refuse_overwriting"]

_WRITING: tuple[Any, ...] = (operator.iadd, operator.isub, operator.imul, operator.itruediv, torch.relu_)
_VIEWS: tuple[Any, ...] = (
    "flatten", "view", "reshape", "contiguous", "squeeze", "unsqueeze", torch.flatten, operator.getitem,
)  # fmt: skip
_SAME = (nn.Identity, nn.Flatten, nn.Dropout, nn.Dropout1d, nn.Dropout2d)  # at rest they may give back their input


def refuse_overwriting(graph: fx.Graph, modules: Mapping[str, nn.Module]) -> None:
    """Raise where a tensor is read after another name of it was written to."""
    memory: dict[fx.Node, fx.Node] = {}  # node -> the first name of its memory
    stale: dict[fx.Node, fx.Node] = {}  # old name -> the node that wrote
    for node in graph.nodes:
        for used in node.all_input_nodes:
            if used in stale:
                raise InputError(f"'{stale[used].name}' changes '{used.name}' in place, and '{node.name}' reads it "
                                 "afterwards: no bound is known. Write it without inplace=True.")  # fmt: skip
        first = node.args[0] if node.args and isinstance(node.args[0], fx.Node) else None
        module = modules.get(str(node.target)) if node.op == "call_module" else None
        writes = first is not None and _writes(node, module)
        shares = writes or node.target in _VIEWS or isinstance(module, _SAME)
        memory[node] = memory[first] if first is not None and shares else node
        if writes:
            stale.update({name: node for name, root in memory.items() if root is memory[node] and name is not node})


def _writes(node: fx.Node, module: nn.Module | None) -> bool:
    if module is not None:
        return bool(getattr(module, "inplace", False))
    if node.op == "call_method":
        return str(node.target).endswith("_")
    # F.relu(x, True); elsewhere the second argument is something else, and 1 is not True
    asked = node.kwargs.get("inplace") is True or (len(node.args) == 2 and node.args[1] is True)
    return asked or node.target in _WRITING
