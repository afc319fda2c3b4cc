"""The last linear layer of a model: by name, or as the one whose output is the model's; and what passes through it."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from caveat.errors import CaveatWarning, InputError
from caveat.nn._answers import tensors_in

OTHER_LOGITS = (
    "The layer's logits are stored, so scores and sets are about them, not about the model's own answer. If the model "
    "scales its logits, scale the weight and bias of the layer instead; then both agree."
)


def _linear_layers(model: nn.Module) -> dict[str, nn.Linear]:
    return {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def linear_map(layer: nn.Module) -> tuple[Tensor, Tensor | None] | None:
    """Weight (C, D) and bias (C,) or None of a linear layer or a 1x1 convolution; None for any other layer."""
    if isinstance(layer, nn.Linear):
        return layer.weight, layer.bias
    if isinstance(layer, (nn.Conv1d, nn.Conv2d, nn.Conv3d)):
        unpadded = isinstance(layer.padding, str) or not any(layer.padding)
        if unpadded and layer.groups == 1 and {*layer.kernel_size, *layer.stride} == {1}:
            return layer.weight.flatten(1), layer.bias
    return None


def named_module(model: nn.Module, name: str) -> nn.Module:
    """The module of this name, or an error with the candidates for a head."""
    layer: nn.Module | None = dict(model.named_modules(remove_duplicate=False)).get(name)
    if layer is not None:
        return layer
    candidates = ", ".join(map(repr, _linear_layers(model))) or "none"
    raise InputError(f"head '{name}' is not a module of the model; candidates: {candidates}.")


def head_of(model: nn.Module, n_classes: int | None = None) -> str:
    """Name of the last linear layer, with one output per class if ``n_classes`` is not None.

    >>> head_of(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10)), 10)
    '2'
    """
    layers = _linear_layers(model)
    names = [name for name, layer in layers.items() if n_classes in (None, layer.out_features)]
    if not names:
        candidates = ", ".join(f"'{name}' ({layer.out_features})" for name, layer in layers.items()) or "none"
        outputs = "" if n_classes is None else f" with {n_classes} outputs, one per class"
        raise InputError(f"the model must end in a linear layer{outputs}; its linear layers: {candidates}.")
    return names[-1]


def tap(model: nn.Module, head: str, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (n, K) of the model and features (n, D), the input of its head, in one pass with gradients."""
    features: list[Tensor] = []
    with model.get_submodule(head).register_forward_pre_hook(lambda _, args: features.append(args[0])):
        logits: Tensor = model(inputs.clone())  # the model may write into its input
    demand_once(f"head '{head}'", len(features))
    return logits, per_sample(features[0], len(inputs), f"head '{head}' must see one feature vector per sample")


def per_sample(value: Any, n: int, must: str, *, axes: int = 2, most: int | None = 2, hint: str = "") -> Tensor:
    """The output of a part of a model, if it is a tensor with n rows and ``axes`` to ``most`` axes (None: any)."""
    if isinstance(value, Tensor) and value.ndim >= axes and most in (None, value.ndim) and len(value) == n:
        return value
    shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
    raise InputError(f"{must}, got {shape} for {n} samples.{hint and ' '}{hint}")


def demand_once(part: str, times: int) -> None:
    """Raise InputError unless a part of a model ran once in a forward pass."""
    if times != 1:
        raise InputError(f"{part} must run once in a forward pass, ran {times} times. Name another module.")


def is_answer(logits: Tensor, answer: Any) -> bool:
    """Whether the model returns these logits, or their softmax, up to rounding."""
    forms = (logits, logits.softmax(dim=-1), logits.log_softmax(dim=-1))
    answers = _alike(logits, answer)
    return any(torch.allclose(form, other, rtol=1e-3, atol=1e-5, equal_nan=True) for other in answers for form in forms)


def warn_of_another_answer(name: str, logits: Tensor, answer: Any) -> None:
    """Warn where the model returns neither the logits of the named head nor their softmax."""
    if is_answer(logits, answer):
        return
    gaps = [float((logits - other).abs().max()) for other in _alike(logits, answer)]
    apart = f" (by up to {min(gaps):.3g})" if gaps else ""
    warnings.warn(f"the logits of head '{name}' are not what the model returns{apart}. {OTHER_LOGITS}",
                  CaveatWarning, stacklevel=2)  # fmt: skip


def _alike(logits: Tensor, answer: Any) -> list[Tensor]:
    return [tensor.to(logits) for tensor in tensors_in(answer) if tensor.shape == logits.shape]
