"""Small steps on arrays that many modules share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """float16 as float32, which has room for sums and squares; every other array as it is."""
    return array.astype(np.float32) if array.dtype == np.float16 else array
