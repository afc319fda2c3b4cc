"""A small convolutional network: an epoch of 60,000 images of 28 x 28 takes seconds on a laptop."""

from __future__ import annotations

from torch import nn

from caveat.nn.architectures._parts import Shape, dropped

__all__ = ["small_cnn"]


def small_cnn(in_shape: Shape, classes: int, *, dropout: float = 0.0, width: int = 16) -> nn.Sequential:
    """Two convolutions of ``width`` and ``2 width`` channels, each pooled, and one hidden layer of 128.

    Dropout before both linear layers, as in Gal and Ghahramani's LeNet (ICML 2016, section 5).

    Examples
    --------
    >>> sum(p.numel() for p in small_cnn((1, 28, 28), 10).parameters())
    206922
    """
    channels, height, across = in_shape
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *dropped(dropout),
        nn.Linear(2 * width * (height // 4) * (across // 4), 128),
        nn.ReLU(),
        *dropped(dropout),
        nn.Linear(128, classes),
    )
