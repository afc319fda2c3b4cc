"""1,797 handwritten digits of 8 x 8 pixels, which come with scikit-learn.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

from __future__ import annotations

import numpy as np

from caveat.demo.images import Images

__all__ = ["digits"]


def digits() -> Images:
    """The ten digits, in the order of the file, with float64 values from 0 to 1.

    Returns
    -------
    Images
        1797 grey images of 8 x 8 pixels, in the order of the file.

    Examples
    --------
    >>> images = digits()
    >>> images.pixels.shape, images.labels[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    """
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return Images(loaded.images / 16.0, loaded.target.astype(np.intp), tuple("0123456789"))
