"""Passes of a model for certificates: checked inputs, logits in batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from caveat._internal.checks import check_finite
from caveat.errors import CaveatError, InputError
from caveat.nn._heads import per_sample
from caveat.nn._walk import first_line
from caveat_lab.bounds.box import check_range

__all__ = ["as_double", "checked_inputs", "in_batches", "logits_of"]

Clip = tuple[float, float] | None


def as_double(x: ArrayLike | Tensor, device: torch.device | None = None) -> Tensor:
    """A float64 tensor, on the CPU by default."""
    if not isinstance(x, Tensor):  # torch takes no read-only array (a memory map) and no negative strides
        x = torch.from_numpy(np.require(x, dtype=np.float64, requirements=["C", "W"]))
    return x.detach().to(torch.device("cpu") if device is None else device, torch.float64)


def checked_inputs(x: ArrayLike | Tensor, clip: Clip, device: torch.device | None = None) -> Tensor:
    """Inputs as a float64 tensor, finite and inside the range."""
    inputs = as_double(x, device)
    if inputs.ndim < 2 or 0 in inputs.shape:
        raise InputError(f"x must be a non-empty batch of inputs (n, ...), got shape {tuple(inputs.shape)}.")
    rows = inputs.flatten(1)
    check_finite(rows.cpu().numpy(), "x")
    if clip is not None:
        check_range(rows, clip)
    return inputs


def logits_of(net: nn.Module, inputs: Tensor, *, size: int) -> Tensor:
    """Logits (n, K) of inputs, some at a time."""
    return per_sample(in_batches(net, inputs, size=size), len(inputs), "the model must return logits (n, K)")


def in_batches(call: Callable[[Tensor], Tensor], inputs: Tensor, *, size: int) -> Tensor:
    """The outputs of a network for all inputs, in batches of copies: it may write into its input."""
    try:
        return torch.cat([call(part.clone()) for part in torch.split(inputs, size)])
    except CaveatError:
        raise
    except Exception as error:  # a forward pass may raise anything
        shape = tuple(inputs.shape[1:])
        raise InputError(f"the model cannot take inputs of shape {shape}: {first_line(error)}.") from error
