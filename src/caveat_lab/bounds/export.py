"""A network as named arrays, for ``caveat_lab.robust.Network``: certificates without torch."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from caveat.errors import InputError
from caveat.nn._modes import at_rest
from caveat.nn._walk import to_numpy
from caveat.nn.float64 import copied
from caveat_lab.bounds.activations import ACTIVATIONS
from caveat_lab.bounds.agreement import demand_agreement
from caveat_lab.bounds.rules import has_rule
from caveat_lab.bounds.tracing import Reading, does_more, traced

__all__ = ["export_network"]

_PLAIN = (nn.Flatten, nn.Identity, nn.Dropout, *ACTIVATIONS)  # of inputs of any shape
_ARGLESS = {nn.ReLU: "relu", nn.SiLU: "silu", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh"}
_EMPTY = np.empty(0, dtype=np.int64)
Fields = dict[str, NDArray[Any]]


def export_network(model: nn.Module, like: ArrayLike | Tensor | None = None) -> dict[str, NDArray[Any]]:
    """Weights of a chain of layers under the names that ``robust.Network`` reads, in their precision.

    Linear, Conv1d, Conv2d, ReLU, LeakyReLU, GELU, SiLU, Sigmoid, Tanh, Flatten, average pools, AdaptiveAvgPool(1), max
    pools, batch normalization at rest, LayerNorm over the last axis; dropout and identity are left out. A layer with a
    parametrization is exported with the weights that it gives. Anything else, and residual additions, are an error that
    names them. Save the result with ``numpy.savez(path, **arrays)`` or ``safetensors.numpy.save_file(arrays, path)``.

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
    net = copied(model)  # hooks may keep what they see of a pass
    reading, steps = traced(net), list[tuple[str, Fields]]()
    with torch.no_grad(), at_rest(net):
        layers = list(reading.layers(net, "the export"))
    _compare_at(net, reading, like, [layer for _, layer in layers])
    for node, layer in layers:
        name = reading.name(node) if node.op == "call_module" else node.name
        if layer is None:
            what = getattr(node.target, "__name__", node.target)
            raise InputError(f"the operation '{what}' (node '{name}') cannot be exported.")
        step = _step(layer, name)
        if step is not None:
            steps.append(step)
    return {f"{i}.{kind}.{field}": value for i, (kind, fields) in enumerate(steps) for field, value in fields.items()}


def _compare_at(
    model: nn.Module, reading: Reading, like: ArrayLike | Tensor | None, layers: list[nn.Module | None]
) -> None:
    weights = next(chain(model.parameters(), model.buffers()), torch.zeros(()))
    if like is None:
        first = next((layer for layer in layers if type(layer) not in _PLAIN), None)
        like = torch.zeros(1, first.in_features) if isinstance(first, nn.Linear) else None
    if like is not None:
        demand_agreement(model, reading, torch.as_tensor(like).to(weights))
    elif any(does_more(module) for module in model.modules()):
        raise InputError("a model with hooks needs like, some inputs to compare it with its layers, to be exported.")


def _step(module: nn.Module, name: str) -> tuple[str, Fields] | None:
    if type(module) in _ARGLESS:
        return _ARGLESS[type(module)], {"args": _EMPTY}
    # A subclass of the user's own may do something else with its weights, also where it has a rule.
    layer: Any = module if has_rule(module) and type(module).__module__.startswith("torch.nn.") else None
    match layer:
        case nn.Identity() | nn.Dropout() | nn.Dropout1d() | nn.Dropout2d():
            return None
        case nn.Linear():
            return "dense", _weights(layer)
        case nn.Conv1d() | nn.Conv2d() if layer.padding_mode == "zeros" and not isinstance(layer.padding, str):
            how = (_pair(layer.stride, 1), _pair(layer.padding, 0), _pair(layer.dilation, 1), (layer.groups,))
            return "conv", {**_weights(layer), "args": np.array(list(chain(*how)))}
        case nn.BatchNorm1d() | nn.BatchNorm2d() if layer.running_mean is not None and layer.running_var is not None:
            scale = (layer.running_var.double() + layer.eps).rsqrt()
            scale = scale if layer.weight is None else scale * layer.weight
            shift = -layer.running_mean * scale if layer.bias is None else layer.bias - layer.running_mean * scale
            return "affine", {"scale": to_numpy(scale), "shift": to_numpy(shift)}
        case nn.LayerNorm(normalized_shape=(size,)):
            weight = torch.ones(size) if layer.weight is None else layer.weight
            bias = torch.zeros_like(weight) if layer.bias is None else layer.bias
            arrays = {"weight": to_numpy(weight.clone()), "bias": to_numpy(bias.clone())}
            return "layer_norm", {**arrays, "args": np.array([layer.eps])}
        case nn.LeakyReLU():
            return "leaky_relu", {"args": np.array([layer.negative_slope])}
        case nn.GELU():
            return "gelu", {"args": np.array([float(layer.approximate == "tanh")])}
        case nn.Flatten(start_dim=1, end_dim=-1):
            return "flatten", {"args": _EMPTY}
        case nn.AdaptiveAvgPool1d(output_size=1 | (1,)) | nn.AdaptiveAvgPool2d(output_size=1 | (1, 1)):
            return "global_avg_pool", {"args": _EMPTY}
        case nn.MaxPool1d(dilation=1 | (1,), ceil_mode=False) | nn.MaxPool2d(dilation=1, ceil_mode=False):
            return "max_pool", {"args": _window(layer)}
        case nn.AvgPool2d(divisor_override=int()):
            pass
        case (
            nn.AvgPool1d(ceil_mode=False, count_include_pad=True)
            | nn.AvgPool2d(ceil_mode=False, count_include_pad=True)
        ):
            return "avg_pool", {"args": _window(layer)}
    raise InputError(f"layer '{name}' of type {type(module).__name__} cannot be exported with these settings.")


def _window(module: Any) -> NDArray[Any]:
    """Window, strides and paddings of a pool; a sequence is an image of height 1."""
    if isinstance(module, (nn.MaxPool1d, nn.AvgPool1d)):
        sides = (1, module.kernel_size), (1, module.stride), (0, module.padding)
        return np.array([int(np.ravel(value)[0]) for side in sides for value in side])
    return np.array((*_pair(module.kernel_size, 1), *_pair(module.stride, 1), *_pair(module.padding, 0)))


def _pair(value: Any, height: int) -> tuple[int, int]:
    """Of both axes of an image; of a sequence, which has one, after that of the height."""
    values = (value, value) if isinstance(value, int) else tuple(value)
    return (int(values[0]), int(values[1])) if len(values) == 2 else (height, int(values[0]))


def _weights(module: nn.Linear | nn.Conv1d | nn.Conv2d) -> Fields:
    weight = to_numpy(module.weight.clone())
    bias = np.zeros(len(weight), dtype=weight.dtype) if module.bias is None else to_numpy(module.bias.clone())
    return {"weight": weight[:, :, None] if isinstance(module, nn.Conv1d) else weight, "bias": bias}
