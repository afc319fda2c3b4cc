"""Inputs with mean 0 and standard deviation 1, as a layer: whoever holds the model needs no recipe beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from caveat._checks import as_positive, as_vector
from caveat.errors import InputError

__all__ = ["Normalise"]


@final
class Normalise(nn.Module):
    """(x - mean) / std, per channel.

    Examples
    --------
    >>> Normalise([0.5], [0.25])(torch.ones(1, 1, 1, 1)).item()
    2.0
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std):
            raise InputError(f"mean and std must have one number per channel each, got {len(mean)} and {len(std)}.")
        for value in std:
            as_positive(value, "std")
        for name, values in (("mean", mean), ("std", std)):
            self.register_buffer(name, torch.tensor(as_vector(values, name)).float()[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std
