"""Net XL of GOOD, used there for SVHN and CIFAR-10: twice the channels of L and one hidden layer more.

Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix, Table 2.
"""

from __future__ import annotations

from torch import nn

from caveat.nn.architectures._parts import Shape
from caveat.nn.architectures.l import plain_cnn

__all__ = ["xl"]


def xl(in_shape: Shape, classes: int, *, dropout: float = 0.0) -> nn.Sequential:
    """Convolutions 128, 128, 256 (stride 2), 256, 256, then 512, 512 and the classes.

    Examples
    --------
    >>> sum(p.numel() for p in xl((3, 32, 32), 10).parameters())
    35449226
    """
    return plain_cnn(in_shape, classes, (128, 128, 256, 256, 256), (512, 512), dropout=dropout)
