"""Places365, validation images, as handed out: a folder of images and ``places365_val.txt`` with their classes.

Zhou, Lapedriza, Khosla, Oliva and Torralba, "Places: A 10 Million Image Database for Scene Recognition", IEEE
Transactions on Pattern Analysis and Machine Intelligence, 2017. A line of the list is ``Places365_val_00000001.jpg
165``; ``categories_places365.txt``, where it lies next to the list, has lines such as ``/a/airfield 0``.
"""

from __future__ import annotations

import os
from pathlib import Path

from caveat._internal.files import read_bytes
from caveat.demo.images import Images
from caveat.errors import InputError
from caveat_lab.data.folder import read_listed

__all__ = ["read_places"]

_CATEGORIES = "categories_places365.txt"


def read_places(
    folder: str | os.PathLike[str], list_file: str | os.PathLike[str], *, size: int | None = None
) -> Images:
    """Images of Places365 with their scene classes.

    Parameters
    ----------
    folder
        Folder of the images, such as ``val_256``.
    list_file
        Lines of a file name and a class number, such as ``places365_val.txt``. Only images in this list are read, and
        all of them must be there.
    size
        Side of the square that each image becomes: the largest central square, resized. Without it all images must
        have the same sides.

    Returns
    -------
    Images
        Bytes (n, height, width, 3) in the order of the list; ``classes`` from ``categories_places365.txt``.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("RGB", (6, 4)).save(f"{folder}/Places365_val_00000001.jpg")
    ...     _ = Path(folder, "places365_val.txt").write_text("Places365_val_00000001.jpg 165")
    ...     read_places(folder, f"{folder}/places365_val.txt", size=4).labels
    array([165])
    """
    source = Path(list_file)
    rows = _numbered(source)
    root = Path(folder)
    files = [(root / name, label) for name, label in rows]
    if absent := [file for file, _ in files if not file.is_file()]:
        raise InputError(f"{source} lists {len(files)} images, and {len(absent)} of them are not in {root}, such as "
                         f"{absent[0].name}. Unpack the images again.")  # fmt: skip
    names = source.with_name(_CATEGORIES)
    classes = tuple(name for name, _ in sorted(_numbered(names), key=lambda row: row[1])) if names.is_file() else ()
    return read_listed(files, classes, size=size)


def _numbered(path: Path) -> list[tuple[str, int]]:
    """Lines of a name and a number."""
    rows = []
    for i, line in enumerate(read_bytes(path).decode("utf-8", "replace").splitlines(), 1):
        if not line.strip():
            continue
        name, _, number = line.strip().rpartition(" ")
        if not name or not number.isdecimal():
            raise InputError(f"{path} must have a name and a class number in each line, got {line!r} in line {i}.")
        rows.append((name.strip(), int(number)))
    if not rows:
        raise InputError(f"{path} is empty. Download it again.")
    return rows
