"""Small steps on arrays that many modules share."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SMALL = 64 * 2**10  # bytes; a cast of less costs no more than looking it up
_casts: dict[tuple[int, str], tuple[weakref.ref[NDArray[Any]], NDArray[Any]]] = {}


def in_type(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """A learned array in another float type. The cast is kept as long as the array, which must not change any more.

    A score on one row would otherwise spend most of its time on casting its matrices. The array becomes read-only.

    >>> learned, single = np.ones((200, 200)), np.dtype(np.float32)
    >>> in_type(learned, single) is in_type(learned, single), in_type(learned, learned.dtype) is learned
    (True, True)
    """
    if array.dtype == dtype:
        return array
    if array.nbytes <= _SMALL:
        return array.astype(dtype)
    key = (id(array), dtype.str)
    kept = _casts.get(key)
    if kept is not None and kept[0]() is array:
        return kept[1]
    array.flags.writeable = False
    cast = read_only(array.astype(dtype))
    _casts[key] = (weakref.ref(array, lambda _: _casts.pop(key, None)), cast)
    return cast


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """float16 as float32, which has room for sums and squares; every other array as it is."""
    return array.astype(np.float32) if array.dtype == np.float16 else array
