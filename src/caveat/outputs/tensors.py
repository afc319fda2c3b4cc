"""Outputs from tensors of torch, without importing it: what a tensor can do says that it is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from caveat.errors import InputError
from caveat.outputs.head import Head
from caveat.outputs.outputs import Outputs

__all__ = ["as_plain_array", "outputs_from_tensors"]

_HALF = ("torch.bfloat16", "torch.float16")  # numpy has no bfloat16


def outputs_from_tensors(fields: Mapping[str, Any]) -> Outputs:
    """Outputs whose fields may be tensors, and whose head may be a linear layer: :meth:`Outputs.from_torch`."""
    plain: dict[str, Any] = {name: as_plain_array(value, name) for name, value in fields.items()}
    head = plain.get("head")
    if head is not None and not isinstance(head, Head) and hasattr(head, "weight"):
        bias = getattr(head, "bias", None)
        plain["head"] = Head(as_plain_array(head.weight, "head.weight"), as_plain_array(bias, "head.bias"))
    if isinstance(plain.get("layers"), Mapping):
        plain["layers"] = {name: as_plain_array(value, f"layers[{name!r}]") for name, value in plain["layers"].items()}
    return Outputs(**plain)


def as_plain_array(value: Any, name: str) -> Any:
    """A tensor as an array in memory, half precision as float32; anything else as it is.

    Examples
    --------
    >>> as_plain_array([1.0, 2.0], "logits")
    [1.0, 2.0]
    """
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    try:
        tensor = value.detach().cpu()
        tensor = tensor.float() if str(tensor.dtype) in _HALF else tensor
        return tensor.resolve_conj().resolve_neg().numpy() if hasattr(tensor, "resolve_neg") else tensor.numpy()
    except (TypeError, RuntimeError, AttributeError) as error:  # sparse, quantized, on the meta device
        raise InputError(f"{name} must be a dense tensor of numbers, got one that has no array ({error}).") from None
