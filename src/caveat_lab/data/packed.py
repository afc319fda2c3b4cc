"""Images in one ``.npz`` file: as pixels, or as JPEG streams one after the other."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import npz_names, read_npz
from caveat.demo.images import Images
from caveat.errors import InputError, MissingExtraError

__all__ = ["decode", "read_packed"]


def read_packed(
    path: str | os.PathLike[str],
    split: str | None = None,
    *,
    pixels: str = "x",
    labels: str = "y",
    full: float | None = None,
    first_label: int = 0,
) -> Images:
    """Images of an ``.npz`` file.

    Parameters
    ----------
    path
        A file with ``x`` and ``y``, or ``x_<split>`` and ``y_<split>``; or with ``jpeg`` (all streams in one byte
        array), ``offsets`` (stream i is ``jpeg[offsets[i]:offsets[i + 1]]``) and ``y``. Without ``y`` every image is of
        class 0.
    split
        Which part, where the keys name parts.
    pixels, labels
        Other names of the keys ``x`` and ``y``.
    full
        Value of full ink for integers wider than a byte: pixels are divided by it.
    first_label
        What the file calls the first class; 1 in EMNIST.

    Returns
    -------
    Images
        Pixels and labels.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/set.npz", x_test=np.zeros((3, 4, 4), dtype=np.uint8), y_test=[0, 1, 1])
    ...     len(read_packed(f"{folder}/set.npz", "test"))
    3
    """
    source = Path(path)
    named = [pixels, labels, "jpeg", "offsets", *(f"{key}_{split}" for key in (pixels, labels) if split)]
    names = npz_names(source)
    arrays = read_npz(source, [name for name in named if name in names])
    suffix = f"_{split}" if split is not None and f"{pixels}_{split}" in arrays else ""
    if "jpeg" in arrays and "offsets" in arrays:
        values = decode(arrays["jpeg"], arrays["offsets"], source)
    elif pixels + suffix in arrays:
        values = _scaled(arrays[pixels + suffix], full, source)
    else:
        raise InputError(f"{source} must hold {pixels}, {pixels}_<split>, or jpeg with offsets; "
                         f"found {', '.join(sorted(names))}.")  # fmt: skip
    truth = arrays.get(labels + suffix)
    if truth is None:
        truth = np.zeros(len(values), dtype=np.intp)
    elif truth.dtype.kind not in "iu" or truth.shape != values.shape[:1]:
        raise InputError(f"{source}: {labels}{suffix} must be one whole class number per image, got {truth.dtype} "
                         f"of shape {truth.shape} for {len(values)} images.")  # fmt: skip
    return Images(values, truth.astype(np.intp) - first_label)


def decode(jpeg: NDArray[np.uint8], offsets: NDArray[Any], source: Path | str = "jpeg") -> NDArray[np.uint8]:
    """Pixels (n, height, width, 3) of JPEG streams that lie one after the other."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("decoding of JPEG images", extra="torch") from error
    edges = offsets.astype(np.int64)
    if edges.ndim != 1 or edges.size < 2 or (np.diff(edges) <= 0).any() or edges[0] < 0 or edges[-1] > jpeg.size:
        raise InputError(f"{source}: offsets must increase and stay inside jpeg.")
    stream = np.ascontiguousarray(jpeg, dtype=np.uint8)
    decoded: NDArray[np.uint8] | None = None
    for i, (start, stop) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        try:
            with Image.open(io.BytesIO(stream[start:stop].tobytes()), formats=["JPEG"]) as image:
                pixels = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise InputError(f"{source}: image {i} is not a readable JPEG ({error}).") from None
        if decoded is None:
            decoded = np.empty((edges.size - 1, *pixels.shape), dtype=np.uint8)
        if pixels.shape != decoded.shape[1:]:
            raise InputError(f"{source}: image {i} is {pixels.shape}, the first is {decoded.shape[1:]}.")
        decoded[i] = pixels
    assert decoded is not None
    return decoded


def _scaled(values: NDArray[Any], full: float | None, source: Path) -> NDArray[Any]:
    if full is not None:
        return (values / np.float32(full)).astype(np.float32)
    if values.dtype == np.uint8 or values.dtype.kind == "f":
        return values
    raise InputError(f"{source}: pixels must be bytes or floats from 0 to 1, got dtype {values.dtype}. "
                     "Pass full=<value of full ink>.")  # fmt: skip
