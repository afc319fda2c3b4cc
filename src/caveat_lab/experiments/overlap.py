"""The same images in two roles, found by their pixels: outputs of dropout passes differ for one and the same image."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError

__all__ = ["check_images_apart", "row_hashes"]


def row_hashes(pixels: NDArray[Any]) -> list[int]:
    """A number for each image that is the same for the same image."""
    return [hash(row.tobytes()) for row in np.ascontiguousarray(pixels)]


def check_images_apart(own: Mapping[str, list[int]], outliers: Mapping[str, list[int]] | None = None) -> None:
    """Raise InputError where two roles share more than half of the images of the smaller one, by their hashes.

    Outlier sets are compared with the other roles, not with each other.

    Examples
    --------
    >>> images = row_hashes(np.arange(40).reshape(10, 2, 2))
    >>> check_images_apart({"train": images[:5], "test": images[5:]})
    >>> check_images_apart({"train": images[:7], "test": images[7:]}, {"odd": images[:2]})
    Traceback (most recent call last):
    caveat.errors.InputError: train and outlier set 'odd' share 2 of 2 images. Give each of them its own.
    """
    others = {f"outlier set '{name}'": rows for name, rows in (outliers or {}).items()}
    sets = {**own, **others}
    for first, second in [*itertools.combinations(own, 2), *itertools.product(own, others)]:
        few, many = sorted((sets[first], sets[second]), key=len)
        pool = set(many)
        shared = sum(row in pool for row in few)
        if shared > len(few) / 2:
            raise InputError(f"{first} and {second} share {shared} of {len(few)} images. Give each of them its own.")
