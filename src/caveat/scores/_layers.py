"""Activations of inner layers, as the scores that look inside the network read them.

The first axis counts samples, the second channels; any further axes are positions in an image or a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError


def known_layers(
    layers: Mapping[str, NDArray[Any]], names: NDArray[np.str_], channels: NDArray[np.intp]
) -> Iterator[NDArray[Any]]:
    """The layers seen in training, in that order. One that is missing or has other channels is an error."""
    for name, width in zip(names.tolist(), channels.tolist(), strict=True):
        if name not in layers:
            raise InputError(f"outputs must have layers[{name!r}] as in training, got {', '.join(sorted(layers))}.")
        if (found := layers[name].shape[1]) != width:
            raise InputError(f"layers[{name!r}] must have {width} channels as in training, got {found}.")
        yield layers[name]


def channel_means(layer: NDArray[Any]) -> NDArray[Any]:
    """Mean over the positions of each channel, shape (n, channels), in the float type of the layer."""
    if layer.ndim == 2:
        return layer
    means = layer.reshape(*layer.shape[:2], -1).mean(axis=2, dtype=np.float64)
    return np.asarray(means.astype(layer.dtype))
