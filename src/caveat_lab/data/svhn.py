"""Street View House Numbers, cropped digits, as handed out: MATLAB files with X (32, 32, 3, n) and y (n, 1).

Netzer, Wang, Coates, Bissacco, Wu and Ng, "Reading Digits in Natural Images with Unsupervised Feature Learning", 2011.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np

from caveat._internal.files import read_bytes
from caveat.demo.images import Images
from caveat.errors import InputError

__all__ = ["read_svhn"]


def read_svhn(path: str | os.PathLike[str]) -> Images:
    """Images of one ``.mat`` file. The digit 0, which the file calls class 10, becomes class 0.

    Parameters
    ----------
    path
        The file, with X (32, 32, 3, n) and y (n, 1).

    Returns
    -------
    Images
        Color images as bytes (n, 32, 32, 3), and their digits.

    Examples
    --------
    >>> import tempfile
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     savemat(f"{folder}/test_32x32.mat", {"X": np.zeros((32, 32, 3, 2), dtype=np.uint8), "y": [[10], [4]]})
    ...     images = read_svhn(f"{folder}/test_32x32.mat")
    >>> images.pixels.shape, images.labels
    ((2, 32, 32, 3), array([0, 4]))
    """
    from scipy.io import loadmat

    source = Path(path)
    content = io.BytesIO(read_bytes(source))
    try:
        arrays = loadmat(content, variable_names=["X", "y"])  # type: ignore[arg-type]
    except Exception as error:  # damage makes scipy raise errors of a dozen kinds, zlib.error and IndexError among them
        raise InputError(f"{source} is damaged or not a MATLAB file ({error}). Download it again.") from None
    pixels, labels = arrays.get("X"), arrays.get("y")
    if pixels is None or labels is None or pixels.ndim != 4 or labels.size != pixels.shape[3]:
        raise InputError(f"{source} must hold X (height, width, channels, n) and y (n, 1).")
    return Images(np.ascontiguousarray(np.moveaxis(pixels, 3, 0)), labels.ravel().astype(np.intp) % 10)
