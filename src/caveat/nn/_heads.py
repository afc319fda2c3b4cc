"""The last linear layer of a model: by name, or as the one whose output is the model's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from caveat.errors import InputError

__all__ = ["name_of_head", "named_linear"]


def named_linear(model: nn.Module, name: str) -> nn.Linear:
    """The linear layer of this name, or an error with the candidates."""
    found = dict(model.named_modules()).get(name)
    if isinstance(found, nn.Linear):
        return found
    candidates = ", ".join(repr(n) for n, module in model.named_modules() if isinstance(module, nn.Linear))
    what = "there is no such module" if found is None else f"it is {type(found).__name__}"
    raise InputError(f"head '{name}' must name an nn.Linear, but {what}; candidates: {candidates or 'none'}.")


def name_of_head(said: Any, outputs: dict[str, Tensor]) -> str:
    """Name of the linear layer that gave the model's answer.

    Parameters
    ----------
    said
        What the model returned: a tensor, or a tuple or mapping with the answer inside.
    outputs
        What each linear layer gave, in the order in which they ran.
    """
    for answer in _tensors(said):
        for name, output in reversed(outputs.items()):
            if output is answer or (output.shape == answer.shape and torch.equal(output, answer)):
                return name
    candidates = ", ".join(repr(name) for name in outputs) or "none (the model has no nn.Linear that runs)"
    raise InputError(f"no linear layer gives the model's output, so the head cannot be found by itself. "
                     f"Pass head=<name>; candidates: {candidates}.")  # fmt: skip


def _tensors(said: Any) -> Iterator[Tensor]:
    if isinstance(said, Tensor):
        yield said
    elif isinstance(said, Mapping):
        yield from (value for value in said.values() if isinstance(value, Tensor))
    elif isinstance(said, (tuple, list)):
        yield from (value for value in said if isinstance(value, Tensor))
