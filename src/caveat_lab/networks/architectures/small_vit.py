"""A small vision transformer for small images.

Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021, arXiv:2010.11929, section 3.1: patches, learned
positions, pre-norm blocks; the mean over the patches instead of a class token.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat.errors import InputError
from caveat_lab.networks.architectures.convolutional import Shape, dropped

__all__ = ["small_vit"]


class Patches(nn.Module):
    """Cut the image, embed every patch, add its position."""

    def __init__(self, in_shape: Shape, patch: int, width: int) -> None:
        super().__init__()
        channels, height, across = in_shape
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.position = nn.Parameter(0.02 * torch.randn(1, (height // patch) * (across // patch), width))

    def forward(self, x: Tensor) -> Tensor:
        embedded: Tensor = self.embed(x)
        return embedded.flatten(2).transpose(1, 2) + self.position


class Attention(nn.Module):
    """Self-attention over the patches."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = self.project(x).view(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
        return self.out(mixed)  # type: ignore[no-any-return]


class Around(nn.Module):
    """A residual branch that starts with a layer norm."""

    def __init__(self, width: int, *branch: nn.Module) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.LayerNorm(width), *branch)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)  # type: ignore[no-any-return]


class Mean(nn.Module):
    """Over the patches."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


def small_vit(
    in_shape: Shape,
    classes: int,
    *,
    dropout: float = 0.0,
    patch: int = 4,
    width: int = 64,
    depth: int = 4,
    heads: int = 4,
) -> nn.Sequential:
    """Patches of 4 x 4, width 64, four blocks of four heads, hidden layers twice the width.

    Dropout is a separate layer at the end of every branch, so that dropout passes can switch it on.

    Parameters
    ----------
    in_shape
        Channels, height and width of the inputs.
    classes
        Number of classes K.
    dropout
        Rate of the dropout layers; 0 leaves them out.
    patch
        Side of a patch in pixels.
    width
        Width of the tokens.
    depth, heads
        Number of blocks, and of attention heads in each.

    Returns
    -------
    Sequential
        The network, with fresh weights.

    Examples
    --------
    >>> sum(p.numel() for p in small_vit((1, 28, 28), 10).parameters())
    138890
    """
    _, height, across = in_shape
    if height % patch or across % patch:
        raise InputError(f"the image ({height} x {across}) must be a whole number of patches of {patch}. Change patch.")
    if width % heads:
        raise InputError(f"width must be a multiple of heads, got {width} and {heads}.")
    blocks: list[nn.Module] = []
    for _ in range(depth):
        mixed = (nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        blocks += [
            Around(width, Attention(width, heads), *dropped(dropout)),
            Around(width, *mixed, *dropped(dropout)),
        ]
    return nn.Sequential(
        Patches(in_shape, patch, width), *blocks, nn.LayerNorm(width), Mean(), nn.Linear(width, classes)
    )
