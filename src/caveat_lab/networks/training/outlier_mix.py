"""Outliers made during training from noise and from the training images themselves, without a second data set.

Four kinds, in equal shares: uniform noise, smooth noise (Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix H), images
with permuted pixels, images with shuffled blocks. Uniform noise alone gives tight bounds around uniform noise and
nowhere else; the mix gives them around clothes too, which it does not contain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from caveat._internal.checks import as_list, check_known
from caveat.errors import InputError

__all__ = ["OutlierMix", "permuted_pixels", "shuffled_blocks", "smooth_noise", "uniform_noise"]

Shape = tuple[int, int, int]


def uniform_noise(n: int, shape: Shape, generator: torch.Generator) -> Tensor:
    """Independent uniform pixels, (n, channels, height, width) with values in [0, 1]."""
    return torch.rand((n, *shape), generator=generator)


def smooth_noise(
    n: int, shape: Shape, generator: torch.Generator, *, widths: tuple[float, float] = (1.0, 2.5)
) -> Tensor:
    """Uniform noise under a Gaussian filter, each image rescaled to run from 0 to 1.

    The filter's standard deviation is drawn uniformly between ``widths``, one per image, in pixels.

    >>> images = smooth_noise(2, (1, 8, 8), torch.Generator().manual_seed(0))
    >>> images.shape, images.amin(dim=(1, 2, 3)), images.amax(dim=(1, 2, 3))
    (torch.Size([2, 1, 8, 8]), tensor([0., 0.]), tensor([1., 1.]))
    """
    low, high = widths
    sigma = low + (high - low) * torch.rand(n, generator=generator)
    _, height, width = shape
    # A Gaussian filter is separable: two small matrix products with the border rule built in.
    rows, columns = gaussian_matrices(sigma, height), gaussian_matrices(sigma, width)
    blurred = rows[:, None] @ uniform_noise(n, shape, generator) @ columns[:, None].mT
    lowest, highest = torch.aminmax(blurred.flatten(1), dim=1)
    span = (highest - lowest).clamp_min(torch.finfo(blurred.dtype).tiny)
    return (blurred - lowest[:, None, None, None]) / span[:, None, None, None]


def gaussian_matrices(sigma: Tensor, size: int) -> Tensor:
    """Matrices (n, size, size) that filter a line of pixels: cut off at four widths, mirrored at the border.

    The same filter as ``scipy.ndimage.gaussian_filter1d`` with its defaults.
    """
    radius = torch.floor(4 * sigma + 0.5)[:, None, None, None]
    turns = int(radius.max()) // (2 * size) + 1
    line = torch.arange(size)
    copies = [line + 2 * size * turn for turn in range(-turns, turns + 1)]
    copies += [-1 - line + 2 * size * turn for turn in range(-turns, turns + 1)]
    offsets = (line[:, None] - torch.stack(copies)[:, None, :]).to(sigma.dtype)
    weights = torch.exp(-(offsets.square() / 2) / sigma.square()[:, None, None, None])
    summed = torch.where(offsets.abs() <= radius, weights, 0.0).sum(dim=1)
    return summed / summed.sum(dim=2, keepdim=True)


def permuted_pixels(images: Tensor, generator: torch.Generator) -> Tensor:
    """The pixels of each image in a random order of its own; channels stay together."""
    flat = images.flatten(2)
    order = torch.rand((len(images), flat.shape[2]), generator=generator).argsort(dim=1)
    return flat.gather(2, order[:, None].expand_as(flat)).view_as(images)


def shuffled_blocks(images: Tensor, generator: torch.Generator, *, block: int | None = None) -> Tensor:
    """Each image cut into square blocks, put together in a random order of its own.

    ``block`` is the side of a block in pixels, a divisor of height and width; default: a quarter of the height.
    """
    n, channels, height, width = images.shape
    side = height // 4 if block is None else block
    if side < 1 or height % side or width % side:
        raise InputError(f"block must divide the height {height} and the width {width} of the images, got {side}.")
    down, across = height // side, width // side
    cut = images.reshape(n, channels, down, side, across, side).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
    order = torch.rand((n, down * across), generator=generator).argsort(dim=1)
    moved = cut.gather(1, order[:, :, None].expand_as(cut))
    return moved.view(n, down, across, channels, side, side).permute(0, 3, 1, 4, 2, 5).reshape_as(images)


KINDS = ("uniform", "smooth", "permuted", "blocks")


def check_kinds(kinds: Sequence[str]) -> list[str]:
    """The kinds of outliers, each of them known."""
    return [check_known(kind, KINDS, "kind of outlier") for kind in as_list(kinds, "kinds")]


@final
class OutlierMix:
    """Makes batches of outliers from training images: ``mix(n, generator)`` gives (n, channels, height, width).

    Parameters
    ----------
    images
        Training images with values in [0, 1], (N, channels, height, width).
    kinds
        Which outliers, in equal shares: of ``"uniform"``, ``"smooth"``, ``"permuted"``, ``"blocks"``.
    block
        Side of the shuffled blocks; default: a quarter of the height (7 x 7 for 28 x 28 images).

    Examples
    --------
    >>> mix = OutlierMix(torch.rand(10, 1, 8, 8), kinds=["uniform", "permuted"])
    >>> mix(6, torch.Generator().manual_seed(0)).shape
    torch.Size([6, 1, 8, 8])
    """

    def __init__(self, images: ArrayLike | Tensor, kinds: Sequence[str] = KINDS, *, block: int | None = None) -> None:
        pool = torch.as_tensor(images, dtype=torch.float32)
        if pool.ndim != 4 or not len(pool):
            raise InputError(f"images must have the shape (N, channels, height, width), got {tuple(pool.shape)}.")
        self.kinds = check_kinds(kinds)
        self.images, self.block = pool, block
        channels, height, width = pool.shape[1:]
        self.shape: Shape = (channels, height, width)

    def _make(self, kind: str, n: int, generator: torch.Generator) -> Tensor:
        if kind == "uniform":
            return uniform_noise(n, self.shape, generator)
        if kind == "smooth":
            return smooth_noise(n, self.shape, generator)
        images = self.images[torch.randint(len(self.images), (n,), generator=generator)]
        if kind == "permuted":
            return permuted_pixels(images, generator)
        return shuffled_blocks(images, generator, block=self.block)

    def __call__(self, n: int, generator: torch.Generator) -> Tensor:
        """n outliers; the kinds share them as evenly as whole numbers allow, in blocks of one kind.

        Parameters
        ----------
        n
            Number of outliers.
        generator
            The source of randomness.

        Returns
        -------
        Tensor of shape (n, ...)
            The outliers.
        """
        parts = len(self.kinds)
        counts = [n * (i + 1) // parts - n * i // parts for i in range(parts)]
        made = [self._make(kind, count, generator) for kind, count in zip(self.kinds, counts, strict=True) if count]
        return torch.cat(made) if made else torch.empty((0, *self.shape))
