"""A folder of image files, one subfolder per class."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from caveat._checks import as_count
from caveat.data.images import Images
from caveat.errors import InputError, MissingExtraError

__all__ = ["read_folder"]

_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def read_folder(path: str | os.PathLike[str], *, size: int | None = None, grey: bool = False) -> Images:
    """Images of a folder, in the order of their names.

    Every subfolder is a class, numbered in the order of the names. A folder without subfolders is one class, number 0.

    Parameters
    ----------
    path
        The folder.
    size
        Side of the square that each image becomes: the largest central square, resized. Without it all images must
        have the same sides.
    grey
        One channel instead of three.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("reading of image files", extra="torch") from error
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{root} must be a folder of images. Check the path.")
    if size is not None:
        as_count(size, "size")
    classes = sorted(child.name for child in root.iterdir() if child.is_dir())
    groups = [(root / name, label) for label, name in enumerate(classes)] or [(root, 0)]
    files = [
        (file, label)
        for folder, label in groups
        for file in sorted(folder.rglob("*"))
        if file.suffix.lower() in _SUFFIXES
    ]
    if not files:
        raise InputError(f"{root} holds no image files ({', '.join(sorted(_SUFFIXES))}), also not in its subfolders.")
    pixels = []
    for file, _ in files:
        try:
            with Image.open(file) as opened:
                image = opened.convert("L" if grey else "RGB")
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{file} is not a readable image ({error}).") from None
        if size is not None:
            side = min(image.size)
            left, top = (image.width - side) // 2, (image.height - side) // 2
            box = (left, top, left + side, top + side)
            image = image.resize((size, size), Image.Resampling.BICUBIC, box=box)
        pixels.append(np.asarray(image))
        if pixels[-1].shape != pixels[0].shape:
            raise InputError(f"{file} is {image.width} x {image.height} pixels, the first image has other sides. "
                             "Pass size=<side>.")  # fmt: skip
    return Images(np.stack(pixels), np.array([label for _, label in files], dtype=np.intp), tuple(classes))
