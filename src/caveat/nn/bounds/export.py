"""A network as named arrays, for ``caveat.robust.Network``: certificates without torch."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat.errors import InputError
from caveat.nn._walk import to_numpy
from caveat.nn.bounds.agreement import demand_agreement
from caveat.nn.bounds.tracing import Reading, does_more, traced

__all__ = ["export_network"]

_RELU: tuple[Any, ...] = (nn.functional.relu, torch.relu, torch.relu_, "relu")
_PLAIN = (nn.Flatten, nn.Identity, nn.Dropout, nn.ReLU)  # of inputs of any shape
_FUNCTIONS: tuple[Any, ...] = (*_RELU, torch.flatten, "flatten")
_EMPTY = np.empty(0, dtype=np.int64)
Fields = dict[str, NDArray[Any]]


def export_network(model: nn.Module, like: ArrayLike | Tensor | None = None) -> dict[str, NDArray[Any]]:
    """Weights of a chain of layers under the names that ``robust.Network`` reads, in their precision.

    Linear, Conv2d, ReLU, Flatten, AvgPool2d, AdaptiveAvgPool2d(1), MaxPool2d, batch normalization at rest; dropout and
    identity are left out. Anything else, and residual additions, are an error that names them. Save the result with
    ``numpy.savez(path, **arrays)`` or ``safetensors.numpy.save_file(arrays, path)``.

    Parameters
    ----------
    model
        Is exported at rest and left as it is.
    like
        Some inputs (n, ...): what the model does with such inputs is compared with its layers, as for a certificate.
        Without them that is done for models that begin with a linear layer; another one may have no hooks.

    Returns
    -------
    dict
        Name such as ``"0.dense.weight"`` -> array.

    Examples
    --------
    >>> list(export_network(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))))
    ['0.dense.weight', '0.dense.bias', '1.relu.args', '2.dense.weight', '2.dense.bias']
    """
    reading, steps = traced(model), list[tuple[str, Fields]]()
    _compare_at(model, reading, like)
    for node in reading.chain("the export"):
        module = reading.module(model, node)
        if module is not None:
            step = _step(module, reading.name(node))
        elif node.target in _RELU:
            step = "relu", {"args": _EMPTY}
        elif node.target in (torch.flatten, "flatten") and node.args[1:] in ((1,), (1, -1)):
            step = "flatten", {"args": _EMPTY}
        else:
            what = getattr(node.target, "__name__", node.target)
            raise InputError(f"the operation '{what}' (node '{node.name}') cannot be exported.")
        if step is not None:
            steps.append(step)
    return {f"{i}.{kind}.{field}": value for i, (kind, fields) in enumerate(steps) for field, value in fields.items()}


def _compare_at(model: nn.Module, reading: Reading, like: ArrayLike | Tensor | None) -> None:
    weights = next(chain(model.parameters(), model.buffers()), torch.zeros(()))
    if like is None:
        layers = ((node, reading.module(model, node)) for node in reading.graph.nodes)
        first = next(layer for node, layer in layers if not (node.op == "placeholder" or node.target in _FUNCTIONS
                                                             or isinstance(layer, _PLAIN)))  # fmt: skip
        like = torch.zeros(1, first.in_features) if isinstance(first, nn.Linear) else None
    if like is not None:
        demand_agreement(model, reading, torch.as_tensor(like).to(weights))
    elif any(does_more(module) for module in model.modules()):
        raise InputError("a model with hooks needs like, some inputs to compare it with its layers, to be exported.")


def _step(module: nn.Module, name: str) -> tuple[str, Fields] | None:
    match module:
        case nn.Identity() | nn.Dropout() | nn.Dropout1d() | nn.Dropout2d():
            return None
        case nn.Linear():
            return "dense", _weights(module)
        case nn.Conv2d() if module.padding_mode == "zeros" and not isinstance(module.padding, str):
            how = (*_pair(module.stride), *_pair(module.padding), *_pair(module.dilation), module.groups)
            return "conv", {**_weights(module), "args": np.array(how)}
        case nn.BatchNorm1d() | nn.BatchNorm2d() if module.running_mean is not None and module.running_var is not None:
            scale = (module.running_var.double() + module.eps).rsqrt()
            scale = scale if module.weight is None else scale * module.weight
            shift = -module.running_mean * scale if module.bias is None else module.bias - module.running_mean * scale
            return "affine", {"scale": to_numpy(scale), "shift": to_numpy(shift)}
        case nn.ReLU():
            return "relu", {"args": _EMPTY}
        case nn.Flatten(start_dim=1, end_dim=-1):
            return "flatten", {"args": _EMPTY}
        case nn.AdaptiveAvgPool2d(output_size=1 | (1, 1)):
            return "global_avg_pool", {"args": _EMPTY}
        case nn.MaxPool2d(dilation=1, ceil_mode=False):
            return "max_pool", {"args": _window(module.kernel_size, module.stride, module.padding)}
        case nn.AvgPool2d(ceil_mode=False, count_include_pad=True, divisor_override=None):
            return "avg_pool", {"args": _window(module.kernel_size, module.stride, module.padding)}
    raise InputError(f"layer '{name}' of type {type(module).__name__} cannot be exported with these settings.")


def _window(size: Any, stride: Any, padding: Any) -> NDArray[Any]:
    return np.array((*_pair(size), *_pair(stride), *_pair(padding)))


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _weights(module: nn.Linear | nn.Conv2d) -> Fields:
    weight = to_numpy(module.weight.clone())
    bias = np.zeros(len(weight), dtype=weight.dtype) if module.bias is None else to_numpy(module.bias.clone())
    return {"weight": weight, "bias": bias}
