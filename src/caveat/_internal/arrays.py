"""Small steps on arrays that many modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def read_only(array: Array) -> Array:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def widened(array: Array) -> Array:
    """float16 as float32, which has room for sums and squares; every other array as it is."""
    return array.astype(np.float32) if array.dtype == np.float16 else array
