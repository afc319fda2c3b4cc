"""A model in another state for a moment: at rest, or with nothing but its dropout awake. Afterwards it is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from caveat.errors import InputError

# Layers that change nothing but their dropout between train and eval.
_DROPOUT = (
    nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout,
)  # fmt: skip


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode inside, in its former mode afterwards, with its former buffers.

    The flags are set one by one: ``model.eval()`` runs code of the model, which may change more than a flag (adapters
    that merge their weights do).
    """
    # A frozen TorchScript module has no mode.
    modes = [(module, module.training) for module in model.modules() if hasattr(module, "training")]
    try:
        for module, _ in modes:
            module.training = False
        with _buffers_kept(model):
            yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextmanager
def _buffers_kept(model: nn.Module) -> Iterator[None]:
    """Put back what a forward pass writes into buffers, as models that count their rows do."""
    owners = [(module, name, value) for module in model.modules() for name, value in module._buffers.items()]
    copies = [(value, value.clone()) for *_, value in owners if value is not None and not is_lazy(value)]
    try:
        yield
    finally:
        with torch.no_grad():
            for value, before in copies:
                if not value.is_meta and not torch.equal(value, before):
                    value.copy_(before)
        for module, name, buffer in owners:
            if module._buffers[name] is not buffer and not isinstance(module, torch.jit.ScriptModule):
                module._buffers[name] = buffer


@contextmanager
def dropout_awake(model: nn.Module) -> Iterator[None]:
    """Dropout at work, everything else (batch normalization above all) at rest."""
    layers = [module for module in model.modules() if _drops(module)]
    if not layers:
        raise InputError("mc needs a model with a dropout layer whose rate is above 0, got none. "
                         "Dropout called as a function in forward cannot be woken: make it a layer.")  # fmt: skip
    # Fused attention skips dropout layers altogether.
    fast = torch.backends.mha.get_fastpath_enabled()
    with at_rest(model):
        for module in layers:
            module.training = True
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)
            for module in layers:
                module.training = False


def _drops(module: nn.Module) -> bool:
    if isinstance(module, _DROPOUT):
        return module.p > 0
    if isinstance(module, nn.RNNBase):
        return module.dropout > 0 and module.num_layers > 1  # it drops between its layers
    return isinstance(module, nn.MultiheadAttention) and module.dropout > 0


@contextmanager
def thread_count(number: int | None) -> Iterator[None]:
    """This number of threads inside; None changes nothing."""
    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int, where: torch.device) -> Iterator[None]:
    """Torch's global random numbers from a seed inside, in their former state afterwards."""
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
