"""Outliers made from a seed: transformed images, and noise.

Every function takes images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1, leaves
them alone and gives new ones with values from 0 to 1. Near to far: a shift keeps what the image shows, a permutation
keeps only its histogram, noise keeps nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import Rng, as_count, as_rng
from caveat.demo.images import unit
from caveat.errors import InputError

__all__ = [
    "MADE",
    "block_shuffled",
    "inverted",
    "noise",
    "occluded",
    "permuted",
    "rotated",
    "shifted",
    "smooth_noise",
]

MADE = ("uniform_noise", "smooth_noise", "permuted", "block_shuffled", "inverted")  # recipes for outliers, by name

Pixels = NDArray[Any]


def shifted(pixels: Pixels, rng: Rng) -> Pixels:
    """Moved down or up and right or left, by a quarter to three eighths of the side; what leaves the frame is lost.

    Parameters
    ----------
    pixels
        Images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1.
    rng
        Seed, or a generator.

    Returns
    -------
    array
        New images of the same shape, values from 0 to 1.

    Examples
    --------
    >>> dot = np.zeros((1, 8, 8))
    >>> dot[0, 4, 4] = 1.0
    >>> moved = shifted(dot, 0)
    >>> float(moved.sum()), float(moved[0, 4, 4])
    (1.0, 0.0)
    """
    rng = as_rng(rng)
    pixels = _images(pixels)
    height, width = pixels.shape[1:3]
    side = min(height, width)
    near = max(1, side // 4)
    distances = np.arange(near, max(near, 3 * side // 8) + 1)
    steps = rng.choice(np.concatenate([-distances[::-1], distances]), size=(len(pixels), 2))
    moved = np.zeros_like(pixels)
    for i, (down, right) in enumerate(steps):
        source = pixels[i, max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
        moved[i, max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)] = source
    return moved


def rotated(pixels: Pixels, rng: Rng) -> Pixels:
    """Turned by 60 to 120 degrees, either way.

    Parameters
    ----------
    pixels
        Images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1.
    rng
        Seed, or a generator.

    Returns
    -------
    array
        New images of the same shape, values from 0 to 1.

    Examples
    --------
    >>> upright = np.zeros((1, 9, 9))
    >>> upright[:, :, 4] = 1.0
    >>> turned = rotated(upright, 0)
    >>> turned.shape, bool(turned[0, 0, 4] < 0.5)
    ((1, 9, 9), True)
    """
    rng = as_rng(rng)
    from scipy.ndimage import rotate

    pixels = _images(pixels)
    angles = rng.uniform(60, 120, size=len(pixels)) * rng.choice([-1, 1], size=len(pixels))
    turned = [rotate(image, angle, reshape=False, order=1) for image, angle in zip(pixels, angles, strict=True)]
    return np.asarray(np.clip(np.stack(turned), 0, 1))


def occluded(pixels: Pixels, rng: Rng, *, size: int | None = None) -> Pixels:
    """A square patch of full ink somewhere in the frame.

    Parameters
    ----------
    pixels
        Images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1.
    rng
        Seed, or a generator.
    size
        Side of the patch in pixels; default half the side of the image.

    Returns
    -------
    array
        New images of the same shape, values from 0 to 1.

    Examples
    --------
    >>> float(occluded(np.zeros((1, 8, 8)), 0, size=3).sum())
    9.0
    """
    rng = as_rng(rng)
    covered = _images(pixels).copy()
    sides = np.array(covered.shape[1:3])
    size = as_count(sides.min() // 2 if size is None else size, "size", most=int(sides.min()))
    corners = rng.integers(0, sides - size + 1, size=(len(covered), 2))
    for image, (top, left) in zip(covered, corners, strict=True):
        image[top : top + size, left : left + size] = 1.0
    return covered


def inverted(pixels: Pixels) -> Pixels:
    """Ink and paper exchanged.

    Parameters
    ----------
    pixels
        Images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1.

    Returns
    -------
    array
        New images of the same shape, values from 0 to 1.

    Examples
    --------
    >>> inverted(np.array([[[0.0, 0.25], [1.0, 0.5]]]))
    array([[[1.  , 0.75],
            [0.  , 0.5 ]]])
    """
    return np.asarray(1 - _images(pixels))


def permuted(pixels: Pixels, rng: Rng, *, sigma: tuple[float, float] | None = None) -> Pixels:
    """The pixels of each image in a random order of its own; the channels of a pixel stay together.

    ``sigma=(0.25, 1.25)`` then smooths each image by a Gaussian filter whose width is uniform in that range, as the
    certified uncertainty of Meinke and Hein does (ICLR 2020, arXiv:1909.12180).

    Parameters
    ----------
    pixels
        Images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1.
    rng
        Seed, or a generator.
    sigma
        Range of the width of the filter; None: no filter.

    Returns
    -------
    array
        New images of the same shape, values from 0 to 1.

    Examples
    --------
    >>> image = np.array([[[0.1, 0.2], [0.3, 0.4]]])
    >>> np.sort(permuted(image, 0).ravel())
    array([0.1, 0.2, 0.3, 0.4])
    """
    rng = as_rng(rng)
    images = _images(pixels)
    rows = images.reshape(len(images), images.shape[1] * images.shape[2], -1)
    order = rng.permuted(np.broadcast_to(np.arange(rows.shape[1]), rows.shape[:2]), axis=1)
    mixed = np.take_along_axis(rows, order[:, :, None], axis=1).reshape(images.shape)
    return mixed if sigma is None else _smoothed(mixed, rng, sigma)


def block_shuffled(pixels: Pixels, rng: Rng, *, blocks: int = 4) -> Pixels:
    """Cut into ``blocks`` x ``blocks`` tiles that change places: local texture stays, the shape goes.

    The sides of the images must be multiples of ``blocks``.

    Parameters
    ----------
    pixels
        Images (n, height, width) or (n, height, width, channels), bytes or values from 0 to 1.
    rng
        Seed, or a generator.
    blocks
        Number of tiles along each side.

    Returns
    -------
    array
        New images of the same shape, values from 0 to 1.

    Examples
    --------
    >>> image = np.array([[[0.1, 0.2], [0.3, 0.4]]])
    >>> np.sort(block_shuffled(image, 0, blocks=2).ravel())
    array([0.1, 0.2, 0.3, 0.4])
    """
    rng = as_rng(rng)
    images = _images(pixels)
    blocks = as_count(blocks, "blocks", least=2)
    n, height, width = images.shape[:3]
    if height % blocks or width % blocks:
        raise InputError(f"the sides of the images must be multiples of blocks = {blocks}, got {height} x {width}.")
    high, wide = height // blocks, width // blocks
    tiles = images.reshape(n, blocks, high, blocks, wide, -1).transpose(0, 1, 3, 2, 4, 5).reshape(n, blocks**2, -1)
    order = rng.permuted(np.broadcast_to(np.arange(blocks**2), (n, blocks**2)), axis=1)
    tiles = np.take_along_axis(tiles, order[:, :, None], axis=1)
    whole = tiles.reshape(n, blocks, blocks, high, wide, -1).transpose(0, 1, 3, 2, 4, 5)
    return whole.reshape(images.shape)


def noise(n: int, rng: Rng, *, height: int = 8, width: int = 8, channels: int | None = None) -> Pixels:
    """Independent uniform pixels, shape (n, height, width), or (n, height, width, channels) where that is given.

    Parameters
    ----------
    n
        Number of images.
    rng
        Seed, or a generator.
    height, width
        Size of an image in pixels.
    channels
        Number of channels; None for grey images.

    Returns
    -------
    array
        Images (n, height, width) or (n, height, width, channels), values from 0 to 1.

    Examples
    --------
    >>> noise(5, 0).shape, noise(5, 0, height=4, width=6, channels=3).shape
    ((5, 8, 8), (5, 4, 6, 3))
    """
    rng = as_rng(rng)
    return rng.random((n, height, width) if channels is None else (n, height, width, channels))


def smooth_noise(
    n: int,
    rng: Rng,
    *,
    height: int = 28,
    width: int = 28,
    channels: int | None = None,
    sigma: tuple[float, float] = (1.0, 2.5),
) -> Pixels:
    """Uniform noise under a Gaussian filter, each image stretched so that its values run from 0 to 1.

    The width of the filter is uniform in ``sigma`` for each image. Bitterwolf, Meinke and Hein, "Certifiably
    Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020, appendix; after Hein, Andriushchenko and
    Bitterwolf, CVPR 2019.

    Parameters
    ----------
    n
        Number of images.
    rng
        Seed, or a generator.
    height, width
        Size of an image in pixels.
    channels
        Number of channels; None for grey images.
    sigma
        Range of the width of the filter, in pixels.

    Returns
    -------
    array
        Images (n, height, width) or (n, height, width, channels), values from 0 to 1.

    Examples
    --------
    >>> images = smooth_noise(3, np.random.default_rng(0), height=8, width=8)
    >>> images.min(axis=(1, 2)).tolist(), images.max(axis=(1, 2)).tolist()
    ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    """
    rng = as_rng(rng)
    smooth = _smoothed(noise(n, rng, height=height, width=width, channels=channels), rng, sigma)
    axes = tuple(range(1, smooth.ndim))
    low, high = smooth.min(axis=axes, keepdims=True), smooth.max(axis=axes, keepdims=True)
    return np.asarray((smooth - low) / np.where(high > low, high - low, 1))


def _smoothed(images: Pixels, rng: np.random.Generator, sigma: tuple[float, float]) -> Pixels:
    """A Gaussian filter over height and width, its width drawn for each image; the border is repeated outwards."""
    from scipy.ndimage import gaussian_filter

    low, high = sigma
    if not 0 < low <= high:
        raise InputError(f"sigma must be two numbers, 0 < low <= high, got {sigma}.")
    widths = rng.uniform(low, high, size=len(images))
    smooth = np.empty_like(images)
    for i, width in enumerate(widths):
        gaussian_filter(images[i], width, mode="nearest", axes=(0, 1), output=smooth[i])
    return smooth


def _images(pixels: Pixels) -> Pixels:
    if pixels.ndim not in (3, 4):
        raise InputError("pixels must have shape (n, height, width) or (n, height, width, channels), "
                         f"got {pixels.shape}.")  # fmt: skip
    return unit(pixels)
