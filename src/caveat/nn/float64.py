"""A model in float64: where rounding would move its answers by more than they may move."""

from __future__ import annotations

import copy

import torch
from torch import nn

from caveat.errors import InputError
from caveat.nn._walk import first_line, place_of

__all__ = ["copied", "device_of", "in_float64"]


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


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model: hooks and forward passes of their own may keep what they see."""
    if (name := next((name for name, _ in model.named_modules() if name.endswith("_orig_mod")), None)) is not None:
        raise InputError(
            f"{type(model).__name__} is compiled, so its layers cannot be read. Pass the model that was "
            f"compiled: model.{name}."
        )
    try:
        return copy.deepcopy(model)
    except Exception as error:  # a copy runs code of the model's parts
        raise InputError(f"{type(model).__name__} cannot be copied ({first_line(error)}).") from error
