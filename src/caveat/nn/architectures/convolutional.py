"""Convolutional networks: the small one for quick runs, those of GOOD for certificates, VGG-13.

``l`` and ``xl``: Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data",
NeurIPS 2020, appendix, Table 2 (L for MNIST, XL for SVHN and CIFAR-10): 3 x 3 convolutions with padding 1, the third
with stride 2; a ReLU after every layer but the last; no normalisation of inputs or activations. ``vgg13``: Simonyan and
Zisserman, "Very Deep Convolutional Networks", ICLR 2015, arXiv:1409.1556, Table 1, column B, with batch normalisation
and hidden layers of 512 instead of 4096, as is usual for 32 x 32. Pooling rounds up, so that 28 x 28 survives five
halvings.
"""

from __future__ import annotations

from torch import nn

from caveat.nn.architectures._parts import Shape, dropped, halved

__all__ = ["l", "small_cnn", "vgg13", "xl", "xs"]

_VGG_BLOCKS = (64, 128, 256, 512, 512)


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


def xs(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Convolutions of 16 and 32 channels, 4 x 4 with stride 2, and one hidden layer of 100: tight, quick bounds.

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

    Examples
    --------
    >>> sum(p.numel() for p in l((1, 28, 28), 10).parameters())
    13257290
    """
    return _good_cnn(in_shape, classes, (64, 64, 128, 128, 128), (512,), dropout=dropout)


def xl(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Convolutions 128, 128, 256 (stride 2), 256, 256, then 512, 512 and the classes.

    Examples
    --------
    >>> sum(p.numel() for p in xl((3, 32, 32), 10).parameters())
    35449226
    """
    return _good_cnn(in_shape, classes, (128, 128, 256, 256, 256), (512, 512), dropout=dropout)


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
    for width in _VGG_BLOCKS:
        for _ in range(2):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    height, across = halved(in_shape, times=len(_VGG_BLOCKS))
    features = channels * height * across
    layers.append(nn.Flatten())
    for _ in range(2):
        layers += [nn.Linear(features, 512), nn.ReLU(), *dropped(dropout)]
        features = 512
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
