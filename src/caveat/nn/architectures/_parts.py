"""What several networks share: normalisation as a layer, optional dropout, and sizes after a convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from caveat._internal.checks import as_positive, as_vector
from caveat.errors import InputError

__all__ = ["Normalise", "Shape", "dropped", "halved"]

Shape = tuple[int, int, int]  # channels, height, width


def dropped(rate: float) -> list[nn.Module]:
    """A dropout layer, or none: a network without dropout has no layer that pretends."""
    return [nn.Dropout(rate)] if rate > 0 else []


def halved(shape: Shape, times: int = 1) -> tuple[int, int]:
    """Height and width after layers of stride 2 that round up.

    >>> halved((1, 28, 28), 3)
    (4, 4)
    """
    _, height, width = shape
    for _ in range(times):
        height, width = -(-height // 2), -(-width // 2)
    return height, width


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
