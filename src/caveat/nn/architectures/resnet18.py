"""ResNet-18 for small images: a 3 x 3 stem without pooling, as is usual for 32 x 32.

He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, arXiv:1512.03385, Table 1.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.architectures._parts import Shape, dropped

__all__ = ["resnet18"]


class Block(nn.Module):
    """Two 3 x 3 convolutions and a way around them; the way is a 1 x 1 convolution where the size changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.around = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width)
            )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norm1(self.first(x)))
        return F.relu(self.norm2(self.second(inner)) + self.around(x))


def resnet18(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Four stages of two blocks with 64, 128, 256 and 512 channels, the mean over the image, and the classes.

    Dropout before the last layer.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters())
    11173962
    """
    blocks, channels = [], 64
    for stage, width in enumerate((64, 128, 256, 512)):
        for i in range(2):
            blocks.append(Block(channels, width, stride=2 if stage > 0 and i == 0 else 1))
            channels = width
    return nn.Sequential(
        nn.Conv2d(in_shape[0], 64, 3, padding=1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        *dropped(dropout),
        nn.Linear(channels, classes),
    )
