"""Run a model once over a data set and keep what it said: logits, features, labels, head, and more where asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from caveat._internal.checks import Rng
from caveat.nn._rows import Rows
from caveat.nn._walk import Walk, watched
from caveat.nn.ease import Transform
from caveat.outputs import Outputs

__all__ = ["extract"]

_GIBIBYTE = 2**30


def extract(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    head: str = "auto",
    layers: Sequence[str] | Mapping[str, int] = (),
    pool: Literal["mean"] | None = None,
    mc: int = 0,
    transforms: Sequence[Transform] | None = None,
    labels: bool = True,
    device: str | torch.device | None = None,
    dtype: Literal["float16", "float32"] | None = None,
    out: str | os.PathLike[str] | None = None,
    bound: float = _GIBIBYTE,
    rng: Rng | None = None,
    progress: bool | None = None,
) -> Outputs:
    """Outputs of a classifier on everything the loader gives.

    The model is left as it was: same weights and buffers, same train/eval mode of every module, same gradients, no hook
    remains, and torch's global random numbers are where they were, but for what the loader itself draws. A value that
    is not finite is an error that names its row and batch.

    Parameters
    ----------
    model
        Any module that ends in a linear layer.
    loader
        Gives batches: an input tensor, or a tuple whose first element is the input and whose second, if it holds
        numbers, is the labels: a class number per row, of any number type, or a one-hot row each. Other numbers are
        refused; what is not numbers (names of files) is ignored.
    head
        Name of the last linear layer as in ``model.named_modules()``; ``"auto"`` takes the linear layer whose output
        is the model's output, or the one answer (``"logits"`` in a mapping) among what the model returns. Where a
        named layer gives other logits than the model returns (it divides them by a temperature), a warning says so.
    layers
        Names of modules whose outputs become ``Outputs.layers``, as the scores gram and mds_ensemble read them: shape
        (n, channels, positions...). Nothing is reduced: a convolution of 64 channels on 28 x 28 takes 200 kB a sample.
        Channels are axis 1, but the last axis of three-dimensional outputs of linear layers, layer norms and
        transformer layers; a mapping name -> axis says it otherwise. ``stream`` fits both scores without storing.
    pool
        ``"mean"`` keeps the mean of each channel, (n, channels): all that mds_ensemble reads, not enough for gram.
    mc
        Number T of further passes with dropout at work, stored as ``mc_logits`` (T, n, C). Only dropout layers wake
        (``nn.Dropout`` and its kin, and the dropout inside ``nn.MultiheadAttention`` and recurrent layers); batch
        normalisation stays at rest. ``F.dropout`` called in a forward method cannot be woken from outside.
    transforms
        Transformations from ``nn.ease``, one for each of L changed copies of the input: their probabilities become
        ``ease_probs`` (L, n, C). Twenty noisy copies: ``[ease.GaussianNoise(0.05)] * 20``.
    labels
        False leaves the labels of the loader out: those of outliers number classes that the model does not have.
    device
        Where the inputs go, which is where the model must be; default: where its first parameter is.
    dtype
        Float type of everything but the logits, which are small and rank samples: ``"float16"`` halves the room of
        features and layers. Default: as the model gives it.
    out
        Folder for the rows, written as they come and memory-mapped in the result; ``Outputs.load`` reads it later.
    bound
        Bytes held in memory. What exceeds it goes to memory-mapped files in a temporary folder that lives as long as
        the result (``TMPDIR`` says where).
    rng
        Randomness of ``mc`` and ``transforms``; default: a fixed seed, so that two calls agree.
    progress
        Show a progress bar on standard error; default: if that is a terminal.

    Examples
    --------
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.5), nn.Linear(3, 2))
    >>> batches = [(torch.zeros(5, 2, 2), torch.tensor([0, 1, 0, 1, 1]))]
    >>> extract(model, batches)
    Outputs(n=5, logits 5x2 float32, features 5x3 float32, labels 5, head_weight 2x3 float32, head_bias 2 float32)
    >>> extract(model, batches, mc=50).mc_logits.shape
    (50, 5, 2)
    """
    walk = Walk(
        model, head=head, layers=layers, pool=pool, mc=mc, transforms=transforms, labels=labels, device=device,
        dtype=dtype, rng=rng,
    )  # fmt: skip
    with Rows(bound=bound, out=None if out is None else Path(out)) as rows:
        with closing(watched(loader, progress)) as batches, closing(walk.parts(batches)) as parts:  # type: ignore[type-var]
            for part in parts:
                rows.add(part)
        return rows.finish(walk.head_layer())
