"""Residual networks for small images.

He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, arXiv:1512.03385. ``resnet18``: Table
1, with a 3 x 3 stem without pooling, as is usual for 32 x 32. ``resnet20``: section 4.2, n = 3, where shortcuts are
identities that fill new channels with zeros (option A), so they have no parameters.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.architectures._parts import Shape, dropped

__all__ = ["resnet18", "resnet20"]


class _Block(nn.Module):
    """Two 3 x 3 convolutions and a way around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def inner(self, x: Tensor) -> Tensor:
        found: Tensor = self.norm2(self.second(F.relu(self.norm1(self.first(x)))))
        return found


class ProjectedBlock(_Block):
    """The way around is a 1 x 1 convolution where the size changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__(channels, width, stride)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.around = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
            )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.inner(x) + self.around(x))


class PaddedBlock(_Block):
    """The way around is the identity; half the pixels and zeros for new channels where it must."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__(channels, width, stride)
        self.stride, self.more = stride, width - channels

    def forward(self, x: Tensor) -> Tensor:
        around = x[:, :, :: self.stride, :: self.stride]
        return F.relu(self.inner(x) + F.pad(around, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2)))


def resnet18(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Four stages of two blocks with 64, 128, 256 and 512 channels, the mean over the image, and the classes.

    Dropout before the last layer.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters())
    11173962
    """
    return _stages(ProjectedBlock, (64, 128, 256, 512), 2, in_shape, classes, dropout)


def resnet20(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Three stages of three blocks with 16, 32 and 64 channels, the mean over the image, and the classes.

    Dropout before the last layer.

    Examples
    --------
    >>> sum(p.numel() for p in resnet20((3, 32, 32), 10).parameters())
    269722
    """
    return _stages(PaddedBlock, (16, 32, 64), 3, in_shape, classes, dropout)


def _stages(
    block: Callable[[int, int, int], nn.Module], widths: tuple[int, ...], repeats: int, in_shape: Shape, classes: int,
    dropout: float,
) -> nn.Sequential:  # fmt: skip
    """A stem, ``repeats`` blocks per width, the first of each later stage with stride 2, the mean, and the classes."""
    blocks, channels = [], widths[0]
    for stage, width in enumerate(widths):
        for i in range(repeats):
            blocks.append(block(channels, width, 2 if stage > 0 and i == 0 else 1))
            channels = width
    return nn.Sequential(
        nn.Conv2d(in_shape[0], widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dropped(dropout), nn.Linear(channels, classes),
    )  # fmt: skip
