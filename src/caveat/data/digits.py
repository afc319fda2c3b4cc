"""Handwritten digits that come with scikit-learn: 1,797 images of 8 x 8 pixels, and strange versions of them.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

__all__ = ["Images", "digits", "inverted", "noise", "occluded", "rotated", "shifted"]

Pixels = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class Images:
    """Images (n, height, width) with values from 0 to 1, and their classes (n,)."""

    pixels: Pixels
    labels: NDArray[np.intp]

    def __len__(self) -> int:
        return int(self.labels.size)

    def __getitem__(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Images:
        return Images(self.pixels[rows], self.labels[rows])


def digits() -> Images:
    """The ten digits, in the order of the file.

    Examples
    --------
    >>> images = digits()
    >>> images.pixels.shape, images.labels[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return Images(loaded.images / 16.0, loaded.target.astype(np.intp))


def shifted(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Moved by 2 or 3 pixels to a random side; what leaves the frame is lost."""
    steps = rng.choice([-3, -2, 2, 3], size=(len(pixels), 2))
    moved = np.zeros_like(pixels)
    height, width = pixels.shape[1:]
    for i, (down, right) in enumerate(steps):
        source = pixels[i, max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
        moved[i, max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)] = source
    return moved


def rotated(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Turned by 60 to 120 degrees, either way."""
    from scipy.ndimage import rotate

    angles = rng.uniform(60, 120, size=len(pixels)) * rng.choice([-1, 1], size=len(pixels))
    turned = [rotate(image, angle, reshape=False, order=1) for image, angle in zip(pixels, angles, strict=True)]
    return np.asarray(np.clip(np.stack(turned), 0, 1))


def occluded(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """A 4 x 4 patch of full ink somewhere in the frame."""
    covered = pixels.copy()
    corners = rng.integers(0, np.array(pixels.shape[1:]) - 3, size=(len(pixels), 2))
    for image, (top, left) in zip(covered, corners, strict=True):
        image[top : top + 4, left : left + 4] = 1.0
    return covered


def inverted(pixels: Pixels) -> Pixels:
    """Ink and paper exchanged."""
    return 1.0 - pixels


def noise(n: int, rng: np.random.Generator, *, height: int = 8, width: int = 8) -> Pixels:
    """Independent uniform pixels."""
    return rng.random((n, height, width))
