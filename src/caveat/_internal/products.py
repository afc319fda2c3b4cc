"""Products whose bits depend on the data alone: of rows with a matrix, and of rows with themselves.

A plain ``rows @ matrix`` picks other kernels for one row than for many, and splits many rows over threads: the last
bits of a row then depend on the rows around it. Equal inputs get unequal scores, and promises about ties break. Here
rows go through BLAS in float64, on one BLAS thread, in small blocks, the last one filled up with zeros. Larger blocks
are quicker. Which sizes give the same bits depends on the kernels of this machine, so all are tried once for each shape
of the matrix.
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

_SIZES = (4, 8, 16, 32, 64, 128)  # rows of a block
_CHUNK_BYTES = 2**20  # of rows in float64: cast and multiplied while they are in the cache
_WORTH_THREADS = 2**28  # multiplications
_SLAB = 256  # columns of a self product that one thread computes
_SMALL = 64 * 2**10  # bytes; a cast of less costs no more than looking it up
_kept: dict[tuple[int, bool], tuple[weakref.ref[NDArray[Any]], Floats]] = {}


def row_products(rows: NDArray[Any], matrix: NDArray[Any], *, transposed: bool = False) -> Floats:
    """``rows @ matrix`` (or ``matrix.T``) in float64, shape (n, N); no row depends on the others.

    A large matrix is kept in the form that the product reads, as long as the matrix itself, which becomes read-only.

    >>> row_products(np.array([[1.0, 2.0]], dtype=np.float32), np.eye(2))
    array([[1., 2.]])
    """
    wide = _by_column(matrix, transposed)
    n, width = rows.shape
    result = np.empty((n, wide.shape[0]))
    if n == 0 or result.size == 0 or width == 0:
        result[:] = 0
        return result
    with OneBlasThread():
        sizes = _sizes(width, wide.shape[0])

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


def _multiply(rows: NDArray[Any], columns: Floats, result: Floats, sizes: tuple[int, ...]) -> None:
    wide = np.ascontiguousarray(rows, dtype=np.float64)
    done, n, width = 0, *wide.shape
    for size in sizes:
        stop = done + (n - done) // size * size
        if stop > done:
            blocks = wide[done:stop].reshape(-1, size, width)
            np.matmul(blocks, columns.T, out=result[done:stop].reshape(len(blocks), size, -1))
            done = stop
    if done < n:
        last = np.zeros((sizes[-1], width))
        last[: n - done] = wide[done:]
        result[done:] = np.matmul(last, columns.T)[: n - done]


@lru_cache(maxsize=1024)
def _sizes(width: int, columns: int) -> tuple[int, ...]:
    """Block sizes that give every row the same bits in every place, largest first; (1,) where no two of them do.

    Kernels for small products have bits of their own, so sizes fall into groups. The group of the smallest size is
    taken: one row alone is what costs most.
    """
    rng, most = np.random.default_rng(0), max(_SIZES)
    rows, matrix = rng.random((most, width)) - 0.5, rng.random((columns, width)) - 0.5
    order = np.roll(np.arange(most), 3)  # every row in another place
    groups: list[tuple[Floats, list[int]]] = []
    for size in _SIZES:
        product, moved = np.empty((2, most, columns))
        _multiply(rows, matrix, product, (size,))
        _multiply(rows[order], matrix, moved, (size,))
        if np.array_equal(moved, product[order]):
            alike = [sizes for other, sizes in groups if np.array_equal(other, product)]
            if alike:
                alike[0].append(size)
            else:
                groups.append((product, [size]))
    return next((tuple(reversed(sizes)) for _, sizes in groups if len(sizes) > 1), (1,))


def _by_column(matrix: NDArray[Any], transposed: bool) -> Floats:
    """The columns of the matrix, or of its transpose, one after the other, in float64: kernels copy these quickest."""
    columns = matrix if transposed else matrix.T
    if matrix.dtype == np.float64 and columns.flags.c_contiguous:
        return columns
    if matrix.nbytes <= _SMALL:
        return np.ascontiguousarray(columns, dtype=np.float64)
    key = (id(matrix), transposed)
    kept = _kept.get(key)
    if kept is not None and kept[0]() is matrix:
        return kept[1]
    matrix.flags.writeable = False
    wide = np.ascontiguousarray(columns, dtype=np.float64)
    _kept[key] = (weakref.ref(matrix, lambda _: _kept.pop(key, None)), wide)
    return wide
