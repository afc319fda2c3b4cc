"""ResNet-20, the CIFAR-10 network of the residual learning paper.

He, Zhang, Ren and Sun, CVPR 2016, arXiv:1512.03385, section 4.2, n = 3: shortcuts are identities that fill new channels
with zeros (option A), so they have no parameters.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.architectures._parts import Shape, dropped

__all__ = ["resnet20"]


class Block(nn.Module):
    """Two 3 x 3 convolutions and an identity around them; half the pixels and zeros for new channels where it must."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.stride, self.more = stride, width - channels

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.second(F.relu(self.norm1(self.first(x)))))
        around = x[:, :, :: self.stride, :: self.stride]
        return F.relu(inner + F.pad(around, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2)))


def resnet20(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Three stages of three blocks with 16, 32 and 64 channels, the mean over the image, and the classes.

    Dropout before the last layer.

    Examples
    --------
    >>> sum(p.numel() for p in resnet20((3, 32, 32), 10).parameters())
    269722
    """
    blocks, channels = [], 16
    for stage, width in enumerate((16, 32, 64)):
        for i in range(3):
            blocks.append(Block(channels, width, stride=2 if stage > 0 and i == 0 else 1))
            channels = width
    return nn.Sequential(
        nn.Conv2d(in_shape[0], 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        *dropped(dropout),
        nn.Linear(channels, classes),
    )
