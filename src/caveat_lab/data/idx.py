"""IDX files, the format of MNIST: a magic number, the sides, then the values, big-endian; plain or gzipped.

Y. LeCun, C. Cortes and C. Burges, "The MNIST database of handwritten digits", the section on file formats.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import read_bytes
from caveat.errors import InputError

__all__ = ["read_idx"]

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_SIDES = 32  # as many as any numpy array may have
_LARGEST = 2**33  # bytes: a damaged header must not ask for all the memory there is


def read_idx(path: str | os.PathLike[str]) -> NDArray[Any]:
    """The array in an IDX file; ``.gz`` files are unpacked on the way.

    Parameters
    ----------
    path
        The file.

    Returns
    -------
    array
        With the shape and the number type that the file names.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels-idx1-ubyte"
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
    ...     read_idx(path)
    array([7, 8, 9], dtype=uint8)
    """
    source = Path(path)
    raw = read_bytes(source)
    stream = gzip.GzipFile(fileobj=io.BytesIO(raw)) if raw[:2] == b"\x1f\x8b" else io.BytesIO(raw)
    try:
        start = stream.read(4)
        if len(start) < 4 or start[:2] != b"\x00\x00" or start[2] not in _TYPES or not 1 <= start[3] <= _SIDES:
            raise InputError(f"{source} is not an IDX file: it must start with 0, 0, a type and a number of sides.")
        dtype, sides = np.dtype(_TYPES[start[2]]), stream.read(4 * start[3])
        shape = tuple(np.frombuffer(sides, dtype=">u4").tolist()) if len(sides) == 4 * start[3] else (_LARGEST,)
        expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
        values = stream.read(expected + 1) if expected < _LARGEST else b""  # no more than the header promises
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{source} cannot be read ({error}). Download it again.") from None
    if len(values) != expected:
        before = len(start) + len(sides)
        has = "more" if len(values) > expected else str(before + len(values))
        raise InputError(f"{source} is damaged: its header promises {before + expected} bytes, it has {has}. "
                         "Download it again.")  # fmt: skip
    return np.frombuffer(values, dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))
