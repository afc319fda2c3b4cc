"""One number for each row of a matrix, in fewer and shorter passes than the plain numpy calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks

_CACHE_BYTES = 2**20  # of a block in float64: the few steps on it stay in the cache of a core
_FEW_CLASSES = 64  # up to here a reduction over classes is faster on a transposed copy
_FAR = 600.0  # up to here exp(z) and exp(-z) are normal float64 numbers, so that nothing needs to be taken off first
_NONE = np.empty(0, dtype=np.intp)


def row_max(matrix: NDArray[Any]) -> NDArray[Any]:
    """The largest value of each row. numpy finds its place several times faster than the value itself.

    >>> row_max(np.array([[1.0, 3.0], [5.0, 2.0]]))
    array([3., 5.])
    """
    place = np.argmax(matrix, axis=1)[:, None]
    return np.take_along_axis(matrix, place, axis=1)[:, 0]


def row_lengths(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Euclidean length of each row, in float64.

    >>> row_lengths(np.array([[3.0, 4.0]]))
    array([5.])
    """
    wide = rows.astype(np.float64, copy=False)
    return np.asarray(np.sqrt(np.vecdot(wide, wide)))


def row_sums(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Sum of each row, in float64; no row depends on the others.

    >>> row_sums(np.array([[3.0, 4.0]], dtype=np.float32))
    array([7.])
    """
    return np.asarray(rows.astype(np.float64, copy=False).sum(axis=1))


def softmax_rows(logits: NDArray[Any]) -> NDArray[Any]:
    """Softmax of each row: computed in float64, given in the float type of the logits (of float16 in float32).

    >>> softmax_rows(np.zeros((1, 2), dtype=np.float32))
    array([[0.5, 0.5]], dtype=float32)
    """
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted.astype(np.result_type(logits, np.float32), copy=False)


def top_and_rest(logits: NDArray[Any], temperature: float = 1.0) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """The largest logit of each row, and the sum of exp((z - largest) / T) over the others; both (n,).

    The largest probability is 1 / (1 + rest). All in float64 and without the largest, so that sure rows are kept apart
    down to the last digit of 1 - p.

    >>> top_and_rest(np.array([[20.0, 0.0], [3.0, 3.0]], dtype=np.float32))
    (array([20.,  3.], dtype=float32), array([2.06115362e-09, 1.00000000e+00]))
    """
    n, classes = logits.shape
    largest, rest = np.empty(n, dtype=logits.dtype), np.empty(n)
    for rows, room, far in _scaled_blocks(logits, temperature):
        block, top, others = logits[rows], largest[rows], rest[rows]
        if classes <= _FEW_CLASSES:
            scaled_top = np.maximum.reduce(room, axis=0)
            is_top = room == scaled_top
            np.exp(room, out=room)
            np.putmask(room, is_top, 0)
            _add_classes(room, out=others)
            others /= np.exp(scaled_top)
            others += np.add.reduce(is_top, axis=0, dtype=np.int8) - 1  # several may be the largest
            top[:] = scaled_top if temperature == 1 else row_max(block)
        else:  # numpy finds the place of the largest faster than the largest itself
            place = np.argmax(block, axis=1)
            place += np.arange(0, room.size, classes)
            values = room.reshape(-1)
            top[:] = values[place] if temperature == 1 else row_max(block)
            np.exp(room, out=room)
            of_top = values[place]
            values[place] = 0
            np.einsum("ij->i", room, out=others)
            others /= of_top
        if far.size:
            top[far], others[far] = _of_far_rows(block[far], temperature)
    return largest, rest


def log_sum_exp(logits: NDArray[Any], temperature: float = 1.0) -> NDArray[np.float64]:
    """Logarithm of the sum of exp(z / T) of each row, shape (n,). Several times faster than that of scipy.

    >>> log_sum_exp(np.array([[1000.0, 1000.0], [0.0, 0.0]])).round(3)
    array([1.000693e+03, 6.930000e-01])
    """
    totals = np.empty(logits.shape[0])
    for rows, room, far in _scaled_blocks(logits, temperature):
        total = totals[rows]
        np.exp(room, out=room)
        if logits.shape[1] <= _FEW_CLASSES:
            _add_classes(room, out=total)
        else:
            np.einsum("ij->i", room, out=total)
        np.log(total, out=total)
        if far.size:
            top, rest = _of_far_rows(logits[rows][far], temperature)
            total[far] = top.astype(np.float64) / temperature + np.log1p(rest)
    return totals


def _scaled_blocks(
    logits: NDArray[Any], temperature: float
) -> Iterator[tuple[slice, NDArray[np.float64], NDArray[np.intp]]]:
    """Blocks of rows: z / T in float64, (C, n) of few classes and (n, C) of many; and the rows that are too far from 0.

    The exponentials of those might be too large or too small, so they are set to 0 and left to ``_of_far_rows``. Each
    row is judged alone: its result does not depend on the rows around it. All blocks share one array, because fresh
    memory takes longer than the arithmetic.
    """
    n, classes = logits.shape
    few = classes <= _FEW_CLASSES
    blocks = list(row_blocks(n, row_bytes=8 * classes, block_bytes=_CACHE_BYTES))
    size = blocks[0].stop if blocks else 0
    room = np.empty((classes, size) if few else (size, classes))
    limit = _FAR * temperature
    for rows in blocks:
        block, count = logits[rows], rows.stop - rows.start
        scaled = room[:, :count] if few else room[:count]
        np.copyto(scaled, block.T if few else block)
        if temperature != 1:
            scaled /= temperature
        if block.max() <= limit and block.min() >= -limit:
            yield rows, scaled, _NONE
        else:
            far = np.flatnonzero(np.abs(block).max(axis=1) > limit)
            scaled[(slice(None), far) if few else far] = 0
            yield rows, scaled, far


def _add_classes(columns: NDArray[np.float64], *, out: NDArray[np.float64]) -> None:
    """Sum of each column of (C, n). A single column is doubled: numpy would add it in another order."""
    out[:] = np.add.reduce(columns if out.size > 1 else np.repeat(columns, 2, axis=1), axis=0)[: out.size]


def _of_far_rows(rows: NDArray[Any], temperature: float) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """As ``top_and_rest``, with the largest logit taken off before the exponential."""
    place = np.argmax(rows, axis=1)[:, None]
    top = np.take_along_axis(rows, place, axis=1)
    shifted = rows.astype(np.float64)
    shifted -= top
    shifted /= temperature
    np.exp(shifted, out=shifted)
    np.put_along_axis(shifted, place, 0, axis=1)
    return top[:, 0], np.asarray(np.einsum("ij->i", shifted))
