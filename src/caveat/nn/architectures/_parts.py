"""What several networks share: dropout that is there only when wanted, and sizes after a convolution."""

from __future__ import annotations

from torch import nn

__all__ = ["Shape", "dropped", "halved"]

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
