"""A folder of image files, one subfolder per class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from caveat._internal.checks import as_count
from caveat._internal.files import is_folder, read_bytes
from caveat.demo.images import Images
from caveat.errors import InputError, MissingExtraError

__all__ = ["read_folder", "read_listed"]

_ANNOTATIONS = "val_annotations.txt"
_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def read_folder(path: str | os.PathLike[str], *, size: int | None = None, grey: bool = False) -> Images:
    """Images of a folder, in the order of their names.

    Every subfolder is a class, numbered in the order of the names. A folder without subfolders is one class, number 0.
    In ``val/`` of TinyImageNet as handed out, ``val_annotations.txt`` names the class of each image; the classes are
    numbered as in the ``train/`` folder next to it.

    Parameters
    ----------
    path
        The folder.
    size
        Side of the square that each image becomes: the largest central square, resized. Without it all images must
        have the same sides.
    grey
        One channel instead of three.

    Returns
    -------
    Images
        Bytes (n, height, width, 3), or (n, height, width) where ``grey``; ``classes`` are the names of the subfolders.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         Path(folder, name).mkdir()
    ...         Image.new("RGB", (6, 4)).save(f"{folder}/{name}/1.png")
    ...     images = read_folder(folder, size=4)
    >>> images.pixels.shape, images.labels, images.classes
    ((2, 4, 4, 3), array([0, 1]), ('cat', 'dog'))
    """
    root = Path(path)
    if not is_folder(root):
        raise InputError(f"{root} must be a folder of images. Check the path.")
    files, classes = _annotated(root) if (root / _ANNOTATIONS).is_file() else _by_subfolder(root)
    if not files:
        raise InputError(f"{root} holds no image files ({', '.join(sorted(_SUFFIXES))}), also not in its subfolders.")
    return read_listed(files, classes, size=size, grey=grey)


def read_listed(
    files: Sequence[tuple[Path, int]], classes: Sequence[str] = (), *, size: int | None = None, grey: bool = False
) -> Images:
    """Images of these files, each with its class, in this order; ``size`` and ``grey`` as for ``read_folder``."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("reading of image files", extra="torch") from error
    if size is not None:
        as_count(size, "size")
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


def _by_subfolder(root: Path) -> tuple[list[tuple[Path, int]], list[str]]:
    """Image files with the number of their class, and the names of the classes."""
    classes = sorted(child.name for child in root.iterdir() if child.is_dir())
    groups = [(root / name, label) for label, name in enumerate(classes)] or [(root, 0)]
    return [(file, label) for folder, label in groups for file in _image_files(folder)], classes


def _annotated(root: Path) -> tuple[list[tuple[Path, int]], list[str]]:
    """The same for a folder with one line per image: file name, class, and a box, separated by tabs."""
    source = root / _ANNOTATIONS
    lines = read_bytes(source).decode("utf-8", "replace").splitlines()
    class_of = {parts[0]: parts[1] for line in lines if len(parts := line.split("\t")) >= 2}
    names = root.parent / "wnids.txt"
    train = root.parent / "train"
    listed = set(names.read_text(encoding="utf-8").split()) if names.is_file() else set()
    listed |= {child.name for child in train.iterdir() if child.is_dir()} if train.is_dir() else set()
    classes = sorted(listed | set(class_of.values()))
    number = {name: label for label, name in enumerate(classes)}
    files = _image_files(root)
    for file in files:
        if file.name not in class_of:
            raise InputError(f"{source} has no class for {file.name}. Unpack the data set again.")
    if absent := set(class_of) - {file.name for file in files}:
        raise InputError(f"{root} lacks {len(absent)} of the {len(class_of)} images in {_ANNOTATIONS}, such as "
                         f"{min(absent)}. Unpack the data set again.")  # fmt: skip
    return [(file, number[class_of[file.name]]) for file in files], classes


def _image_files(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.suffix.lower() in _SUFFIXES]
