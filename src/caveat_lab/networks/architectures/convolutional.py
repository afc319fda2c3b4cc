"""Convolutional networks: the small one for quick runs, those of GOOD for certificates, VGG-13, residual networks.

``l`` and ``xl``: Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data",
NeurIPS 2020, appendix, Table 2 (L for MNIST, XL for SVHN and CIFAR-10): 3 x 3 convolutions with padding 1, the third
with stride 2; a ReLU after every layer but the last; no normalization of inputs or activations. ``vgg13``: Simonyan and
Zisserman, "Very Deep Convolutional Networks", ICLR 2015, arXiv:1409.1556, Table 1, column B, with batch normalization
and hidden layers of 512 instead of 4096, as is usual for 32 x 32. Pooling rounds up, so that 28 x 28 survives five
halvings. ``resnet18`` and ``resnet20``: He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", CVPR
2016, arXiv:1512.03385, Table 1 with a 3 x 3 stem without pooling, as is usual for 32 x 32, and section 4.2 with n = 3,
where shortcuts are identities that fill new channels with zeros (option A), so they have no parameters.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.checks import as_count

__all__ = ["Shape", "dropped", "l", "resnet18", "resnet20", "small_cnn", "vgg13", "xl", "xs"]

Shape = tuple[int, int, int]  # channels, height, width
_VGG_BLOCKS = (1, 2, 4, 8, 8)  # times the width


def dropped(rate: float) -> list[nn.Module]:
    """A dropout layer, or none at rate 0."""
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


def small_cnn(in_shape: Shape, classes: int, *, dropout: float = 0.0, width: int = 16) -> nn.Sequential:
    """Two convolutions of ``width`` and ``2 width`` channels, each pooled, and one hidden layer of 128.

    Dropout before both linear layers, as in Gal and Ghahramani's LeNet (ICML 2016, section 5).

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.
    width
        Channels of the first convolution.

    Returns
    -------
    Sequential
        The network, with fresh weights.

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


def xs(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Convolutions of 16 and 32 channels, 4 x 4 with stride 2, and one hidden layer of 100: tight, quick bounds.

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.

    Returns
    -------
    Sequential
        The network, with fresh weights.

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


def l(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:  # noqa: E743 (the paper's name)
    """Convolutions 64, 64, 128 (stride 2), 128, 128, then 512 and the classes.

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.

    Returns
    -------
    Sequential
        The network, with fresh weights.

    Examples
    --------
    >>> sum(p.numel() for p in l((1, 28, 28), 10).parameters())
    13257290
    """
    return _good_cnn(in_shape, classes, (64, 64, 128, 128, 128), (512,), dropout=dropout)


def xl(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Convolutions 128, 128, 256 (stride 2), 256, 256, then 512, 512 and the classes.

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.

    Returns
    -------
    Sequential
        The network, with fresh weights.

    Examples
    --------
    >>> sum(p.numel() for p in xl((3, 32, 32), 10).parameters())
    35449226
    """
    return _good_cnn(in_shape, classes, (128, 128, 256, 256, 256), (512, 512), dropout=dropout)


def vgg13(in_shape: Shape, classes: int, *, dropout: float = 0.0, width: int = 64) -> nn.Sequential:
    """Five blocks of two 3 x 3 convolutions, each block pooled, then 512, 512 and the classes.

    Dropout after both hidden layers. Every layer is proportional to ``width``.

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.
    width
        Channels of the first block. The paper has 64; 8 makes a network for a laptop.

    Returns
    -------
    Sequential
        The network, with fresh weights.

    Examples
    --------
    >>> sum(p.numel() for p in vgg13((3, 32, 32), 10).parameters())
    9938378
    >>> sum(p.numel() for p in vgg13((3, 32, 32), 10, width=8).parameters())
    156802
    """
    first = as_count(width, "width")
    layers: list[nn.Module] = []
    channels = in_shape[0]
    for factor in _VGG_BLOCKS:
        for _ in range(2):
            wide = factor * first
            layers += [nn.Conv2d(channels, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()]
            channels = wide
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    height, across = halved(in_shape, times=len(_VGG_BLOCKS))
    features = channels * height * across
    layers.append(nn.Flatten())
    for _ in range(2):
        layers += [nn.Linear(features, 8 * first), nn.ReLU(), *dropped(dropout)]
        features = 8 * first
    return nn.Sequential(*layers, nn.Linear(features, classes))


def _good_cnn(
    in_shape: Shape, classes: int, convolutions: tuple[int, ...], hidden: tuple[int, ...], *, dropout: float
) -> nn.Sequential:
    """The pattern of Table 2: convolutions, the third with stride 2, then linear layers."""
    layers: list[nn.Module] = []
    channels = in_shape[0]
    for i, width in enumerate(convolutions):
        layers += [nn.Conv2d(channels, width, 3, stride=2 if i == 2 else 1, padding=1), nn.ReLU()]
        channels = width
    height, across = halved(in_shape)
    features = channels * height * across
    layers.append(nn.Flatten())
    for width in hidden:
        layers += [nn.Linear(features, width), nn.ReLU()]
        features = width
    return nn.Sequential(*layers, *dropped(dropout), nn.Linear(features, classes))


class _Block(nn.Module):
    """Two 3 x 3 convolutions and a way around them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def inner(self, x: Tensor) -> Tensor:
        return self.norm2(self.second(F.relu(self.norm1(self.first(x)))))  # type: ignore[no-any-return]


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

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.

    Returns
    -------
    Sequential
        The network, with fresh weights.

    Examples
    --------
    >>> sum(p.numel() for p in resnet18((3, 32, 32), 10).parameters())
    11173962
    """
    return _stages(ProjectedBlock, (64, 128, 256, 512), 2, in_shape, classes, dropout)


def resnet20(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Three stages of three blocks with 16, 32 and 64 channels, the mean over the image, and the classes.

    Dropout before the last layer.

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.

    Returns
    -------
    Sequential
        The network, with fresh weights.

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
