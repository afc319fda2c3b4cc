"""Logits and features of a model in one pass, gradients included."""

from __future__ import annotations

from torch import Tensor, nn

from caveat.errors import InputError
from caveat.nn._walk import demand_once, per_sample

__all__ = ["head_of", "tap"]


def head_of(model: nn.Module, n_classes: int | None = None) -> str:
    """Name of the last linear layer, with one output per class where their number is given.

    Examples
    --------
    >>> head_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10)), 10)
    '2'
    """
    linear: dict[str, nn.Linear] = {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)
    }
    found: list[str] = [name for name, module in linear.items() if n_classes in (None, module.out_features)]
    if not found:
        listed = ", ".join(f"'{name}' ({module.out_features})" for name, module in linear.items()) or "none"
        wanted = "" if n_classes is None else f" with {n_classes} outputs, one per class"
        raise InputError(f"the model must end in a linear layer{wanted}; its linear layers: {listed}.")
    return found[-1]


def tap(model: nn.Module, head: str, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """What the model says (n, K), and what its head saw (n, D)."""
    caught: list[Tensor] = []
    handle = model.get_submodule(head).register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    try:
        logits: Tensor = model(inputs.clone())  # the model may write into what it is given
    finally:
        handle.remove()
    demand_once(f"head '{head}'", len(caught))
    return logits, per_sample(caught[0], len(inputs), f"head '{head}' must see one feature vector per sample")
