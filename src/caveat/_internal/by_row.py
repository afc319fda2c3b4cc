"""One number for each row of a matrix, in fewer and shorter passes than the plain numpy calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks

_CACHE_BYTES = 2**18  # of a block in float64: the few steps on it stay in the cache of a core
_FEW_CLASSES = 64  # up to here a reduction over classes is faster on a transposed copy


def row_max(matrix: NDArray[Any]) -> NDArray[Any]:
    """The largest value of each row. numpy finds its place several times faster than the value itself.

    >>> row_max(np.array([[1.0, 3.0], [5.0, 2.0]]))
    array([3., 5.])
    """
    place = np.argmax(matrix, axis=1)[:, None]
    return np.take_along_axis(matrix, place, axis=1)[:, 0]


def row_lengths(rows: NDArray[Any]) -> NDArray[Any]:
    """Euclidean length of each row, in the float type of the rows.

    >>> row_lengths(np.array([[3.0, 4.0]]))
    array([5.])
    """
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def top_and_rest(logits: NDArray[Any], temperature: float = 1.0) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The largest logit of each row, and the sum of exp((z - largest) / T) over the others; both (n,).

    The largest probability is 1 / (1 + rest). All in float64 and without the largest, so that sure rows are kept apart
    down to the last digit of 1 - p.

    >>> top_and_rest(np.array([[20.0, 0.0], [3.0, 3.0]], dtype=np.float32))
    (array([20.,  3.], dtype=float32), array([2.06115362e-09, 1.00000000e+00]))
    """
    n, classes = logits.shape
    few = classes <= _FEW_CLASSES
    largest, rest = np.empty(n, dtype=logits.dtype), np.empty(n)
    blocks = list(row_blocks(n, row_bytes=8 * classes, block_bytes=_CACHE_BYTES))
    if not blocks:
        return largest, rest
    # Room for one block, used by all of them: fresh memory takes longer than the arithmetic.
    room = np.empty((classes, blocks[0].stop) if few else (blocks[0].stop, classes))
    for rows in blocks:
        block, top, size = logits[rows], largest[rows], rows.stop - rows.start
        shifted = room[:, :size] if few else room[:size]
        if few:
            np.copyto(shifted, block.T)
            top[:] = np.maximum.reduce(shifted, axis=0)
            shifted -= top.astype(np.float64)
            is_top = shifted == 0
        else:  # numpy finds the place of the largest faster than the largest itself
            place = np.argmax(block, axis=1)[:, None]
            top[:] = np.take_along_axis(block, place, axis=1)[:, 0]
            np.copyto(shifted, block)
            shifted -= top[:, None].astype(np.float64)
        if temperature != 1:
            shifted /= temperature
        np.exp(shifted, out=shifted)
        if few:
            np.putmask(shifted, is_top, 0)
            np.add.reduce(shifted, axis=0, out=rest[rows])
            rest[rows] += np.add.reduce(is_top, axis=0, dtype=np.int8) - 1  # several may be the largest
        else:
            np.put_along_axis(shifted, place, 0, axis=1)
            np.einsum("ij->i", shifted, out=rest[rows])
    return largest, rest
