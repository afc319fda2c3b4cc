"""Run a model once over a data set and keep what it said: logits, features, labels, head."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from caveat.errors import InputError
from caveat.outputs import Head, Outputs

__all__ = ["extract"]


def extract(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    head: str = "auto",
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> Outputs:
    """Outputs of a classifier on everything the loader gives.

    The model is left as it was: same weights and buffers, same train/eval mode of every module, no hook remains.

    Parameters
    ----------
    model
        Any module that ends in a linear layer.
    loader
        Gives batches: an input tensor, or a tuple whose first element is the input and whose second, if it is an
        integer tensor with one value per row, is the labels.
    head
        Name of the last linear layer as in ``model.named_modules()``; ``"auto"`` takes the linear layer whose output
        is the model's output.
    device
        Where to run; default: where the model's first parameter is.
    progress
        Show a progress bar on standard error; default: if that is a terminal.

    Examples
    --------
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> extract(model, [(torch.zeros(5, 2, 2), torch.tensor([0, 1, 0, 1, 1]))])
    Outputs(n=5, logits 5x2 float32, features 5x3 float32, labels 5, head_weight 2x3 float32, head_bias 2 float32)
    """
    where = torch.device(device) if device is not None else next(model.parameters(), torch.zeros(())).device
    logits, features, labels = [], [], []
    name = None if head == "auto" else head
    if name is not None:
        _linear(model, name)
    with _at_rest(model), torch.inference_mode():
        for batch in _watched(loader, progress):
            inputs, truth = _split(batch)
            inputs = inputs.to(where)
            if name is None:
                name = _find_head(model, inputs)
            seen, said = _call(model, inputs, name)
            features.append(seen)
            logits.append(said)
            if truth is not None:
                labels.append(truth.cpu().numpy())
    if not logits:
        raise InputError("loader must give at least one batch, got none.")
    assert name is not None
    if labels and sum(map(len, labels)) != sum(map(len, logits)):
        raise InputError("every batch must have labels, or none; some batches had none.")
    layer = _linear(model, name)
    return Outputs(
        logits=np.concatenate(logits),
        features=np.concatenate(features),
        labels=np.concatenate(labels) if labels else None,
        head=Head(_numpy(layer.weight), None if layer.bias is None else _numpy(layer.bias)),
    )


def _call(model: nn.Module, inputs: Tensor, name: str) -> tuple[Any, Any]:
    """Input and output of the named layer during one forward pass."""
    caught: list[tuple[Tensor, Tensor]] = []
    layer = _linear(model, name)
    handle = layer.register_forward_hook(lambda _, args, output: caught.append((args[0], output)))
    try:
        model(inputs)
    finally:
        handle.remove()
    if len(caught) != 1:
        raise InputError(f"head '{name}' must run once in a forward pass, ran {len(caught)} times.")
    seen, said = caught[0]
    if seen.ndim != 2 or seen.shape[0] != inputs.shape[0]:
        raise InputError(f"head '{name}' must see one feature vector per sample, got shape {tuple(seen.shape)} "
                         f"for {inputs.shape[0]} samples.")  # fmt: skip
    return _numpy(seen), _numpy(said)


def _find_head(model: nn.Module, inputs: Tensor) -> str:
    """Name of the linear layer whose output is the output of the model."""
    linear = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    outputs: dict[str, Tensor] = {}
    handles = [
        module.register_forward_hook(lambda _, __, output, name=name: outputs.__setitem__(name, output))
        for name, module in linear.items()
    ]
    try:
        said = model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    if isinstance(said, Tensor):
        for name, output in reversed(outputs.items()):
            if output is said or (output.shape == said.shape and torch.equal(output, said)):
                return name
    candidates = ", ".join(repr(name) for name in outputs) or "none (the model has no nn.Linear that runs)"
    raise InputError(f"no linear layer gives the model's output, so the head cannot be found by itself. "
                     f"Pass head=<name>; candidates: {candidates}.")  # fmt: skip


def _linear(model: nn.Module, name: str) -> nn.Linear:
    found = dict(model.named_modules()).get(name)
    if isinstance(found, nn.Linear):
        return found
    candidates = ", ".join(repr(n) for n, module in model.named_modules() if isinstance(module, nn.Linear))
    what = "there is no such module" if found is None else f"it is {type(found).__name__}"
    raise InputError(f"head '{name}' must name an nn.Linear, but {what}; candidates: {candidates or 'none'}.")


def _split(batch: Any) -> tuple[Tensor, Tensor | None]:
    if isinstance(batch, Tensor):
        return batch, None
    if isinstance(batch, (tuple, list)) and batch and isinstance(batch[0], Tensor):
        truth = batch[1] if len(batch) > 1 else None
        whole = isinstance(truth, Tensor) and truth.shape == batch[0].shape[:1] and not truth.is_floating_point()
        return batch[0], truth if whole else None
    raise InputError(f"a batch must be a tensor or a tuple that starts with one, got {type(batch).__name__}.")


def _numpy(tensor: Tensor) -> Any:
    array = tensor.detach().cpu()
    return (array.float() if array.dtype == torch.bfloat16 else array).numpy()


@contextmanager
def _at_rest(model: nn.Module) -> Iterator[None]:
    """Every module in eval mode inside, in its former mode afterwards."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _watched(loader: Iterable[Any], progress: bool | None) -> Iterator[Any]:
    if not (sys.stderr.isatty() if progress is None else progress):
        yield from loader
        return
    from rich.console import Console
    from rich.progress import track

    total = len(loader) if isinstance(loader, Sized) else None
    yield from track(loader, "extracting", total=total, console=Console(stderr=True), transient=True)
