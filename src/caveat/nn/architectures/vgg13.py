"""VGG-13 for small images, with batch normalisation.

Simonyan and Zisserman, "Very Deep Convolutional Networks", ICLR 2015, arXiv:1409.1556, Table 1, column B; hidden layers
of 512 instead of 4096, as is usual for 32 x 32. Pooling rounds up, so that 28 x 28 survives five halvings.
"""

from __future__ import annotations

from torch import nn

from caveat.nn.architectures._parts import Shape, dropped, halved

__all__ = ["vgg13"]

_BLOCKS = (64, 128, 256, 512, 512)


def vgg13(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Five blocks of two 3 x 3 convolutions, each block pooled, then 512, 512 and the classes.

    Dropout after both hidden layers.

    Examples
    --------
    >>> sum(p.numel() for p in vgg13((3, 32, 32), 10).parameters())
    9938378
    """
    layers: list[nn.Module] = []
    channels = in_shape[0]
    for width in _BLOCKS:
        for _ in range(2):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    height, across = halved(in_shape, times=len(_BLOCKS))
    features = channels * height * across
    layers.append(nn.Flatten())
    for _ in range(2):
        layers += [nn.Linear(features, 512), nn.ReLU(), *dropped(dropout)]
        features = 512
    return nn.Sequential(*layers, nn.Linear(features, classes))
