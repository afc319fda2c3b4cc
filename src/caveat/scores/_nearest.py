"""Exact nearest neighbors, on the unit sphere or of raw rows, by a matrix product that keeps only the k best columns.

Queries are searched in chunks, one thread each; the bank is read in tiles that stay in the cache. A tile is compared
with the worst neighbor kept so far, and only the few similarities above it are looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.parallel import map_in_threads

CLOSE = 0.03  # distance below which the rounding of a float32 product decides which neighbor is taken
_QUERIES = 1024  # of a chunk: enough that scaling a tile of the bank costs little compared with the product
_TILE = 1024  # bank rows: chunk x tile in float32 is 4 MiB
_SMALL_BANK, _TILE_BYTES = 4096, 2**20  # rows up to which all similarities of a query are selected from at once


def kth_nearest(
    queries: NDArray[Any], bank: NDArray[Any], lengths: NDArray[Any], k: int, *, raw: bool = False
) -> NDArray[np.intp]:
    """Row of ``bank`` (N, D), scaled to length one by ``lengths`` (N,), that is the k-th nearest to each unit query.

    ``raw``: neither the bank nor the queries are scaled.
    """

    def last(chunk: slice) -> NDArray[np.intp]:
        if bank.shape[0] <= _SMALL_BANK:
            return _kth_of_all(queries[chunk], bank, lengths, k, raw)
        closeness, where = _search(queries[chunk], bank, lengths, k, raw=raw)
        return np.asarray(where[np.arange(len(where)), np.argmin(closeness, axis=1)])

    return np.concatenate(map_in_threads(last, _chunks(queries)))


def k_nearest(queries: NDArray[Any], bank: NDArray[Any], lengths: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Rows (n, k) of the bank that are nearest to each unit query, in no order."""
    return np.concatenate(map_in_threads(lambda chunk: _search(queries[chunk], bank, lengths, k)[1], _chunks(queries)))


def _kth_of_all(
    queries: NDArray[Any], bank: NDArray[Any], lengths: NDArray[Any], k: int, raw: bool
) -> NDArray[np.intp]:
    """The k-th nearest row from all similarities at once: numpy selects a value faster than it finds its place."""
    n, m = queries.shape[0], bank.shape[0]
    factors, shift = _factors(bank, lengths, queries.dtype, raw)
    nearest = np.empty(n, dtype=np.intp)
    blocks = list(row_blocks(n, row_bytes=queries.itemsize * m, block_bytes=_TILE_BYTES))
    room = np.empty((2, blocks[0].stop, m), dtype=queries.dtype)  # used again by every block
    for some in blocks:
        tile, copy = room[:, : some.stop - some.start]
        np.matmul(queries[some], factors.T, out=tile)
        if shift is not None:
            tile += shift
        if k > 1:
            copy[:] = tile
            copy.partition(m - k, axis=1)
            nearest[some] = np.argmax(tile == copy[:, m - k, None], axis=1)
        else:
            nearest[some] = np.argmax(tile, axis=1)
    return nearest


def _chunks(queries: NDArray[Any]) -> Iterator[slice]:
    return row_blocks(queries.shape[0], row_bytes=1, block_bytes=_QUERIES)


def nearest_by_group(
    queries: NDArray[Any], bank: NDArray[Any], lengths: NDArray[Any], groups: NDArray[np.intp], n_groups: int, *,
    raw: bool = False,
) -> tuple[NDArray[Any], NDArray[np.intp]]:  # fmt: skip
    """Closeness (n, G) of each unit query to the nearest bank row of each group, and that row's number.

    The squared distance is |q|^2 + 1 - 2 closeness, of raw rows |q|^2 - 2 closeness; a group without rows has closeness
    minus infinity.
    """
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups, minlength=n_groups))[:-1])

    def search(chunk: slice) -> tuple[NDArray[Any], NDArray[np.intp]]:
        part = queries[chunk]
        best = np.full((part.shape[0], n_groups), -np.inf, dtype=queries.dtype)
        where = np.zeros(best.shape, dtype=np.intp)
        line = np.arange(part.shape[0])
        for group, rows in enumerate(members):
            for block in row_blocks(rows.size, row_bytes=1, block_bytes=_TILE):
                near = rows[block]
                tile = _closeness(part, bank[near], lengths[near], raw=raw)
                top = np.argmax(tile, axis=1)
                better = tile[line, top] > best[:, group]
                best[better, group] = tile[line, top][better]
                where[better, group] = near[top[better]]
        return best, where

    parts = map_in_threads(search, _chunks(queries))
    return np.concatenate([best for best, _ in parts]), np.concatenate([where for _, where in parts])


def _search(
    queries: NDArray[Any], bank: NDArray[Any], lengths: NDArray[Any], k: int, *, raw: bool = False
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Closeness (n, k) of the k nearest bank rows to each unit query, and their numbers, in no order."""
    n = queries.shape[0]
    best = np.full((n, k), -np.inf, dtype=queries.dtype)  # the k largest closenesses so far, in no order
    where = np.zeros((n, k), dtype=np.intp)
    worst = np.full((n, 1), -np.inf, dtype=queries.dtype)  # the smallest of them

    def keep(lines: NDArray[np.intp], values: NDArray[Any], rows: NDArray[np.intp]) -> None:
        values, rows = np.hstack([best[lines], values]), np.hstack([where[lines], rows])
        top = np.argpartition(values, -k, axis=1)[:, -k:]
        kept = np.take_along_axis(values, top, axis=1)
        best[lines], where[lines] = kept, np.take_along_axis(rows, top, axis=1)
        worst[lines, 0] = kept.min(axis=1)

    buffer = np.empty((n, _TILE), dtype=queries.dtype)
    for block in _tiles(bank.shape[0], k):
        width = block.stop - block.start
        tile = _closeness(queries, bank[block], lengths[block], buffer[:, :width], raw=raw)
        hits = np.flatnonzero(tile > worst)
        lines, columns = np.divmod(hits, width)
        counts = np.bincount(lines, minlength=n)
        # Where much of a row is new (the first tile, or the first of the query's class), packing it gains nothing.
        crowded = np.flatnonzero(counts > width // 4)
        if crowded.size:
            everything = np.broadcast_to(np.arange(block.start, block.stop), (crowded.size, width))
            keep(crowded, tile[crowded], everything)
            few = counts[lines] <= width // 4
            lines, columns = lines[few], columns[few]
            counts[crowded] = 0
        if lines.size:
            some = np.flatnonzero(counts)
            count = counts[some]
            place = np.arange(lines.size) - np.repeat(np.cumsum(count) - count, count)  # 0, 1, ... within each query
            values = np.full((some.size, count.max()), -np.inf, dtype=queries.dtype)
            numbers = np.zeros(values.shape, dtype=np.intp)
            packed = np.repeat(np.arange(some.size), count)
            values[packed, place] = tile[lines, columns]
            numbers[packed, place] = columns + block.start
            keep(some, values, numbers)
    return best, where


def _tiles(n: int, k: int) -> Iterator[slice]:
    """Tiles of the bank, a small one first: everything in it is new, and takes many times the room of what is kept."""
    first = min(n, _TILE, max(2 * k, _TILE // 8))
    yield slice(0, first)
    for block in row_blocks(n - first, row_bytes=1, block_bytes=_TILE):
        yield slice(block.start + first, block.stop + first)


def _closeness(
    queries: NDArray[Any], rows: NDArray[Any], lengths: NDArray[Any], out: NDArray[Any] | None = None, *,
    raw: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """Cosine (n, m) of unit queries with bank rows, raised by 1/2 for a zero row, which is nearer than its cosine says.

    With bank rows scaled to length one (zero rows stay zero), the squared distance is |q|^2 + 1 - 2 closeness. Of raw
    rows the closeness is the product less half the squared length of the bank row.
    """
    factors, shift = _factors(rows, lengths, queries.dtype, raw)
    tile: NDArray[Any] = np.matmul(queries, factors.T, out=out)
    if shift is not None:
        tile += shift
    return tile


def _factors(
    rows: NDArray[Any], lengths: NDArray[Any], dtype: np.dtype[Any], raw: bool
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """What the queries are multiplied with, and what is added then: None where that is nothing."""
    if raw:
        return rows.astype(dtype, copy=False), (-np.square(lengths) / 2).astype(dtype)
    empty = lengths <= np.finfo(dtype).tiny  # one over it must not overflow
    scaled = rows * (1 / np.where(empty, 1, lengths)).astype(dtype)[:, None]
    return scaled.astype(dtype, copy=False), empty.astype(dtype) / 2 if empty.any() else None
