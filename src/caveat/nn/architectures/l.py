"""Net L of GOOD, used there for MNIST.

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
appendix, Table 2: 3 x 3 convolutions with padding 1, the third with stride 2; a ReLU after every layer but the last; no
normalisation of inputs or activations.
"""

from __future__ import annotations

from torch import nn

from caveat.nn.architectures._parts import Shape, dropped, halved

__all__ = ["l", "plain_cnn"]


def l(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:  # noqa: E743 (the paper's name)
    """Convolutions 64, 64, 128 (stride 2), 128, 128, then 512 and the classes.

    Examples
    --------
    >>> sum(p.numel() for p in l((1, 28, 28), 10).parameters())
    13257290
    """
    return plain_cnn(in_shape, classes, (64, 64, 128, 128, 128), (512,), dropout=dropout)


def plain_cnn(
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
