"""Products whose bits depend on the data alone: of rows with a matrix, and of rows with themselves.

A plain ``rows @ matrix`` picks other kernels for one row than for many, and splits many rows over threads: the last
bits of a row then depend on the rows around it. Equal inputs get unequal scores, and promises about ties break. Here
rows go through BLAS in float64, on one BLAS thread, in blocks of 8 rows, the last one filled up with zeros. Larger
blocks are quicker. Which sizes give the same bits depends on the kernels of this machine, so each size is tried once
for each shape of the matrix before it is used.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.parallel import OneBlasThread, map_in_threads

Floats = NDArray[np.float64]

_LEAST = 8  # rows of a block; 12 and 24 differ by place on SSE2 kernels, 4 differs from the larger ones
_LARGER = (128, 64, 32, 16)
_CHUNK_BYTES = 2**20  # of rows in float64: cast and multiplied while they are in the cache
_WORTH_THREADS = 2**28  # multiplications
_SLAB = 256  # columns of a self product that one thread computes
_SMALL = 64 * 2**10  # bytes; a cast of less costs no more than looking it up
_columns: dict[tuple[int, bool], tuple[weakref.ref[NDArray[Any]], Floats]] = {}


def row_products(rows: NDArray[Any], matrix: NDArray[Any], *, transposed: bool = False) -> Floats:
    """``rows @ matrix`` (or ``matrix.T``) in float64, shape (n, N); no row depends on the others.

    A large matrix is kept in the form that the product reads, as long as the matrix itself, which becomes read-only.

    >>> row_products(np.array([[1.0, 2.0]], dtype=np.float32), np.eye(2))
    array([[1., 2.]])
    """
    wide = _as_columns(matrix, transposed)
    n, width = rows.shape
    result = np.empty((n, wide.shape[1]))
    if n == 0 or result.size == 0 or width == 0:
        result[:] = 0
        return result
    with OneBlasThread():
        sizes = _sizes(*wide.shape)

        def fill(chunk: slice) -> None:
            _multiply(rows[chunk], wide, result[chunk], sizes)

        chunks = _chunks(n, width, sizes[0])
        if len(chunks) > 1 and n * wide.size >= _WORTH_THREADS:
            map_in_threads(fill, chunks)
        else:
            for chunk in chunks:
                fill(chunk)
    return result


def self_product(rows: NDArray[Any]) -> Floats:
    """``rows.T @ rows`` in float64, shape (D, D), exactly symmetric; the same bits on any number of threads.

    >>> self_product(np.array([[1.0, 2.0], [0.0, 1.0]], dtype=np.float32))
    array([[1., 2.],
           [2., 5.]])
    """
    wide = rows.astype(np.float64, copy=False)
    width = wide.shape[1]
    result = np.empty((width, width))

    def fill(start: int) -> None:
        stop = min(start + _SLAB, width)
        own = wide[:, start:stop]
        result[start:stop, start:stop] = own.T @ own
        if start:
            np.matmul(wide[:, :start].T, own, out=result[:start, start:stop])
            result[start:stop, :start] = result[:start, start:stop].T

    with OneBlasThread():
        slabs = range(0, width, _SLAB)
        if len(slabs) > 1 and rows.size * width >= _WORTH_THREADS:
            map_in_threads(fill, reversed(slabs))  # the largest first
        else:
            for start in slabs:
                fill(start)
    return result


def _chunks(n: int, width: int, size: int) -> list[slice]:
    """Ranges of rows, each a multiple of the block size but for the last."""
    blocks = row_blocks(-(-n // size), row_bytes=8 * width * size, block_bytes=_CHUNK_BYTES)
    return [slice(some.start * size, min(some.stop * size, n)) for some in blocks]


def _multiply(rows: NDArray[Any], matrix: Floats, result: Floats, sizes: tuple[int, ...]) -> None:
    wide = np.ascontiguousarray(rows, dtype=np.float64)
    done, n, width = 0, *wide.shape
    for size in sizes:
        stop = done + (n - done) // size * size
        if stop > done:
            blocks = wide[done:stop].reshape(-1, size, width)
            np.matmul(blocks, matrix, out=result[done:stop].reshape(len(blocks), size, -1))
            done = stop
    if done < n:
        last = np.zeros((sizes[-1], width))
        last[: n - done] = wide[done:]
        result[done:] = np.matmul(last, matrix)[: n - done]


@lru_cache(maxsize=1024)
def _sizes(width: int, columns: int) -> tuple[int, ...]:
    """Block sizes that give every row the same bits in every place, largest first; (1,) where no block does."""
    rng = np.random.default_rng(0)
    most = _LARGER[0]
    rows, matrix = rng.random((most, width)) - 0.5, rng.random((width, columns)) - 0.5

    def blockwise(size: int) -> Floats:
        return np.asarray(np.matmul(rows.reshape(-1, size, width), matrix).reshape(most, columns))

    least = blockwise(_LEAST)
    order = np.roll(np.arange(most), 3)  # every row in another place
    moved = np.matmul(rows[order].reshape(-1, _LEAST, width), matrix).reshape(most, columns)
    if not np.array_equal(moved, least[order]):
        return (1,)
    return (*(size for size in _LARGER if np.array_equal(blockwise(size), least)), _LEAST)


def _as_columns(matrix: NDArray[Any], transposed: bool) -> Floats:
    """The matrix, or its transpose, as a float64 array with contiguous rows."""
    if not transposed and matrix.dtype == np.float64 and matrix.flags.c_contiguous:
        return matrix
    if matrix.nbytes <= _SMALL:
        return np.ascontiguousarray(matrix.T if transposed else matrix, dtype=np.float64)
    key = (id(matrix), transposed)
    kept = _columns.get(key)
    if kept is not None and kept[0]() is matrix:
        return kept[1]
    matrix.flags.writeable = False
    wide = np.ascontiguousarray(matrix.T if transposed else matrix, dtype=np.float64)
    _columns[key] = (weakref.ref(matrix, lambda _: _columns.pop(key, None)), wide)
    return wide
