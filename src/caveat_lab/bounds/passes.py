"""Passes of a model for certificates: its copy in float64, checked inputs, logits in batches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from caveat._internal.checks import check_finite
from caveat.errors import CaveatError, InputError
from caveat.nn._heads import per_sample
from caveat.nn._walk import first_line, place_of
from caveat_lab.bounds.box import check_range
from caveat_lab.bounds.tracing import copied

__all__ = ["as_double", "checked_inputs", "device_of", "in_batches", "in_float64", "logits_of"]

Clip = tuple[float, float] | None


def in_float64(model: nn.Module) -> nn.Module:
    """A copy of the model in float64 and at rest, on the device of the model.

    Certificates with ``arithmetic="float64"`` are about this network, run on float64 inputs. They are tight, and it
    takes about twice the time of the float32 model on a CPU. A certificate with the default arithmetic is about the
    model itself.

    Parameters
    ----------
    model
        Any module. It is left as it is.

    Returns
    -------
    nn.Module
        The copy.

    Examples
    --------
    >>> in_float64(nn.Linear(2, 3)).weight.dtype
    torch.float64
    """
    name = type(model).__name__
    net = copied(model)
    try:
        net = net.to(device_of(model)).double().eval()
    except Exception as error:  # a change of type may run code of the model too
        raise InputError(f"{name} cannot be copied in float64 ({first_line(error)}).") from error
    awake = [part or name for part, module in net.named_modules() if module.training]
    if awake:
        raise InputError(f"{name} has no state of rest: '{awake[0]}' stays in training mode after eval().")
    return net


def device_of(model: nn.Module) -> torch.device:
    """The device of the first parameter or buffer; the CPU where that has no float64."""
    device = place_of(model, None)
    return torch.device("cpu") if device.type == "mps" else device


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
