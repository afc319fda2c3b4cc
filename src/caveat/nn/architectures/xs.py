"""The smallest of the certifiable networks: few and strided layers, so that interval bounds stay tight and quick."""

from __future__ import annotations

from torch import nn

from caveat.nn.architectures._parts import Shape, dropped

__all__ = ["xs"]


def xs(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Convolutions of 16 and 32 channels, 4 x 4 with stride 2, and one hidden layer of 100. No normalisation.

    Examples
    --------
    >>> sum(p.numel() for p in xs((1, 28, 28), 10).parameters())
    166406
    """
    channels, height, width = in_shape
    return nn.Sequential(
        nn.Conv2d(channels, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), 100),
        nn.ReLU(),
        *dropped(dropout),
        nn.Linear(100, classes),
    )
