"""CIFAR-10, CIFAR-100 and its 20 superclasses as their author hands them out: the binary and the Python version.

A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html
describes both layouts: per image one label byte (CIFAR-100: coarse, then fine), then 1,024 red, green and blue bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_labels, as_list
from caveat._internal.files import read_bytes
from caveat.demo.images import Images
from caveat.errors import InputError
from caveat_lab.data._inert_pickle import read_inert

__all__ = ["cifar_classes", "read_cifar_binary", "read_cifar_python"]

_SIDE, _COLORS = 32, 3
_IMAGE = _COLORS * _SIDE * _SIDE


def read_cifar_binary(paths: Sequence[str | os.PathLike[str]], *, label_bytes: int = 1, coarse: bool = False) -> Images:
    """Images of the ``.bin`` files of CIFAR-10 or CIFAR-100.

    Of two label bytes the second, the fine class, is taken, unless ``coarse``.

    Parameters
    ----------
    paths
        Files, read in this order.
    label_bytes
        1 for CIFAR-10, 2 for CIFAR-100.
    coarse
        Take the superclass of CIFAR-100, the first of the two bytes.

    Returns
    -------
    Images
        Color images of 32 x 32 pixels as bytes, and their labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "batch.bin")
    ...     _ = path.write_bytes(bytes([7] + [0] * 3072 + [3] + [255] * 3072))
    ...     images = read_cifar_binary([path])
    >>> images.pixels.shape, images.labels
    ((2, 32, 32, 3), array([7, 3]))
    """
    if coarse and label_bytes != 2:
        raise InputError("only CIFAR-100 has coarse classes: pass label_bytes=2.")
    rows = []
    for path in map(Path, as_list(paths, "paths")):
        raw = np.frombuffer(read_bytes(path), dtype=np.uint8)
        if raw.size == 0 or raw.size % (label_bytes + _IMAGE):
            raise InputError(f"{path} must hold records of {label_bytes} + {_IMAGE} bytes, has {raw.size} bytes. "
                             "Download it again.")  # fmt: skip
        rows.append(raw.reshape(-1, label_bytes + _IMAGE))
    records = np.concatenate(rows)
    labels = records[:, 0 if coarse else label_bytes - 1]
    return Images(_pixels(records[:, label_bytes:]), labels.astype(np.intp))


def read_cifar_python(paths: Sequence[str | os.PathLike[str]], *, coarse: bool = False) -> Images:
    """Images of the Python version, in the order given. Nothing in the files is run: they are read as data.

    Parameters
    ----------
    paths
        Files, read in this order.
    coarse
        Take the superclasses of CIFAR-100.

    Returns
    -------
    Images
        Color images of 32 x 32 pixels as bytes, and their labels; the fine ones of CIFAR-100, unless ``coarse``.

    Examples
    --------
    >>> import pickle, tempfile
    >>> batch = {"data": np.zeros((2, 3072), dtype=np.uint8), "labels": [7, 3]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "data_batch_1")
    ...     _ = path.write_bytes(pickle.dumps(batch, protocol=2))
    ...     images = read_cifar_python([path])
    >>> images.pixels.shape, images.labels
    ((2, 32, 32, 3), array([7, 3]))
    """
    pixels, labels = [], []
    wanted = "coarse_labels" if coarse else "labels or fine_labels"
    for path in map(Path, as_list(paths, "paths")):
        content = read_inert(path)
        batch = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
        truth: Any = batch.get("coarse_labels") if coarse else batch.get("fine_labels", batch.get("labels"))
        values: Any = batch.get("data")
        # Plain numbers only: numpy would write out a list of lists of the same list.
        flat = isinstance(truth, np.ndarray) or (
            isinstance(truth, list) and all(isinstance(one, (int, float, str, bytes)) for one in truth)
        )
        whole = isinstance(values, np.ndarray) and values.dtype == np.uint8
        if not whole or not flat or values.shape != (np.size(truth), _IMAGE):
            raise InputError(f"{path} must hold data (n, {_IMAGE}) of bytes and {wanted}, one per row; "
                             f"found {', '.join(sorted(batch)) or type(content).__name__}.")  # fmt: skip
        pixels.append(values)
        labels.append(as_labels(truth, f"{path}: labels"))
    return Images(_pixels(np.concatenate(pixels)), np.concatenate(labels))


def cifar_classes(folder: str | os.PathLike[str], *, coarse: bool = False) -> tuple[str, ...]:
    """Names of the classes, from the file that lies next to the images; empty where there is none.

    Parameters
    ----------
    folder
        Folder of the binary or the Python version.
    coarse
        Those of the superclasses of CIFAR-100.

    Returns
    -------
    tuple of str
        One name per class, in the order of the labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "batches.meta.txt").write_text("airplane automobile")
    ...     cifar_classes(folder)
    ('airplane', 'automobile')
    """
    kind = "coarse" if coarse else "fine"
    for name in (f"{kind}_label_names.txt", *(() if coarse else ("batches.meta.txt",))):
        if (path := Path(folder, name)).is_file():
            return tuple(read_bytes(path).decode("utf-8", "replace").split())
    for name in ("meta", *(() if coarse else ("batches.meta",))):
        if (path := Path(folder, name)).is_file():
            content = read_inert(path)
            page = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
            names = page.get(f"{kind}_label_names", None if coarse else page.get("label_names"))
            if isinstance(names, list):
                return tuple(map(_text, names))
    return ()


def _pixels(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows.reshape(-1, _COLORS, _SIDE, _SIDE).transpose(0, 2, 3, 1))


def _text(key: object) -> str:
    return key.decode("ascii", "replace") if isinstance(key, bytes) else str(key)
