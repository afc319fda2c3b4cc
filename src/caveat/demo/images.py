"""Images and their classes, as every reader of this package gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_rows
from caveat.errors import InputError

__all__ = ["Images", "stratified_rows", "unit"]

Pixels = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class Images:
    """Images with their classes.

    Parameters
    ----------
    pixels
        Shape (n, height, width) for grey images, (n, height, width, channels) for others: values from 0 to 1, or bytes.
    labels
        Shape (n,): classes in the numbering of this data set.
    classes
        Names of the classes; empty where the source has none.

    Examples
    --------
    >>> images = Images(np.array([[[0, 255]], [[51, 0]]], dtype=np.uint8), np.array([3, 4]))
    >>> images.inputs()[1].tolist()
    [[[0.20000000298023224, 0.0]]]
    >>> len(images[images.labels == 3])
    1
    """

    pixels: Pixels
    labels: NDArray[np.intp]
    classes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if np.ndim(self.pixels) not in (3, 4) or np.shape(self.labels) != np.shape(self.pixels)[:1]:
            raise InputError("pixels must have shape (n, height, width) or (n, height, width, channels) with one label "
                             f"per image, got {np.shape(self.pixels)} and {np.shape(self.labels)}.")  # fmt: skip
        for name in ("pixels", "labels"):
            object.__setattr__(self, name, np.asarray(getattr(self, name)))

    def __len__(self) -> int:
        return int(self.labels.size)

    def __getitem__(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice | int) -> Images:
        rows = as_rows(rows, len(self), "images")
        return Images(self.pixels[rows], self.labels[rows], self.classes)

    def __iter__(self) -> Iterator[Images]:
        return (self[i] for i in range(len(self)))

    def inputs(self) -> NDArray[np.float32]:
        """What a network reads: float32 from 0 to 1, channels first, shape (n, channels, height, width)."""
        values = unit(self.pixels, np.float32)
        grey = values.ndim == 3
        return np.ascontiguousarray(values[:, None] if grey else np.moveaxis(values, 3, 1))


def stratified_rows(labels: NDArray[Any], n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """n rows drawn without replacement, every class in its share of all rows; all rows where there are no more than n.

    Sorted. Where the shares are not whole numbers, the classes with the largest fractions get one row more; ties are
    broken at random.

    Examples
    --------
    >>> labels = np.repeat([0, 1, 2], [60, 30, 10])
    >>> np.bincount(labels[stratified_rows(labels, 20, np.random.default_rng(0))]).tolist()
    [12, 6, 2]
    """
    if n >= labels.size:
        return np.arange(labels.size)
    _, groups, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    counts, fractions = np.divmod(sizes * n, labels.size)
    rest = n - int(counts.sum())
    counts[np.lexsort((rng.random(sizes.size), -fractions))[:rest]] += 1
    order = np.argsort(rng.permutation(labels.size))  # a place for each row
    by_class = np.lexsort((order, groups))
    place = np.arange(labels.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # within its class
    return np.sort(by_class[place < np.repeat(counts, sizes)])


def unit(pixels: Pixels, dtype: type[np.floating[Any]] | None = None) -> Pixels:
    """Pixels as numbers from 0 to 1: bytes are divided by 255, floats stay as they are."""
    if pixels.dtype == np.uint8:
        kind = dtype or np.float32
        return np.asarray(pixels.astype(kind) / kind(255))
    if pixels.dtype.kind != "f":
        raise InputError(f"pixels must be bytes or floats from 0 to 1, got dtype {pixels.dtype}.")
    return pixels if dtype is None else pixels.astype(dtype, copy=False)
