"""CIFAR-10 and CIFAR-100 as their author hands them out: the binary version, and the Python version.

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
from caveat.data._inert_pickle import read_inert
from caveat.data.images import Images
from caveat.errors import InputError

__all__ = ["read_cifar_binary", "read_cifar_python"]

_SIDE, _COLORS = 32, 3
_IMAGE = _COLORS * _SIDE * _SIDE


def read_cifar_binary(paths: Sequence[str | os.PathLike[str]], *, label_bytes: int = 1) -> Images:
    """Images of the ``.bin`` files of CIFAR-10 or CIFAR-100.

    Of two label bytes the second, the fine class, is taken.

    Parameters
    ----------
    paths
        Files, read in this order.
    label_bytes
        1 for CIFAR-10, 2 for CIFAR-100.

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
    rows = []
    for path in map(Path, as_list(paths, "paths")):
        raw = np.frombuffer(read_bytes(path), dtype=np.uint8)
        if raw.size == 0 or raw.size % (label_bytes + _IMAGE):
            raise InputError(f"{path} must hold records of {label_bytes} + {_IMAGE} bytes, has {raw.size} bytes. "
                             "Download it again.")  # fmt: skip
        rows.append(raw.reshape(-1, label_bytes + _IMAGE))
    records = np.concatenate(rows)
    return Images(_pixels(records[:, label_bytes:]), records[:, label_bytes - 1].astype(np.intp))


def read_cifar_python(paths: Sequence[str | os.PathLike[str]]) -> Images:
    """Images of the Python version, in the order given. Nothing in the files is run: they are read as data.

    Parameters
    ----------
    paths
        Files, read in this order.

    Returns
    -------
    Images
        Color images of 32 x 32 pixels as bytes, and their labels; the fine ones of CIFAR-100.

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
    for path in map(Path, as_list(paths, "paths")):
        content = read_inert(path)
        batch = {_text(key): value for key, value in content.items()} if isinstance(content, dict) else {}
        truth: Any = batch.get("fine_labels", batch.get("labels"))
        values: Any = batch.get("data")
        # Plain numbers only: numpy would write out a list of lists of the same list.
        flat = isinstance(truth, np.ndarray) or (
            isinstance(truth, list) and all(isinstance(one, (int, float, str, bytes)) for one in truth)
        )
        whole = isinstance(values, np.ndarray) and values.dtype == np.uint8
        if not whole or not flat or values.shape != (np.size(truth), _IMAGE):
            raise InputError(f"{path} must hold data (n, {_IMAGE}) of bytes and labels or fine_labels, one per row; "
                             f"found {', '.join(sorted(batch)) or type(content).__name__}.")  # fmt: skip
        pixels.append(values)
        labels.append(as_labels(truth, f"{path}: labels"))
    return Images(_pixels(np.concatenate(pixels)), np.concatenate(labels))


def _pixels(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows.reshape(-1, _COLORS, _SIDE, _SIDE).transpose(0, 2, 3, 1))


def _text(key: object) -> str:
    return key.decode("ascii", "replace") if isinstance(key, bytes) else str(key)
