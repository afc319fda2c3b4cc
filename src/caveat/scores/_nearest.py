"""Exact nearest neighbors, on the unit sphere or of raw rows, by a matrix product that keeps only the k best columns.

Queries are searched in chunks, one thread each; the bank is read in tiles that stay in the cache. A tile is compared
with the worst neighbor kept so far, and only the few similarities above it are looked at again. Products are taken in
float64, and a pair has the same similarity wherever it stands: the neighbors of a row do not depend on its batch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.parallel import map_in_threads
from caveat._internal.products import row_products

Floats = NDArray[np.float64]

_QUERIES = 1024  # of a chunk: enough that scaling a tile of the bank costs little compared with the product
_TILE = 1024  # bank rows: chunk x tile in float64 is 8 MiB
_SMALL_BANK, _TILE_BYTES = 4096, 2**20  # rows up to which all similarities of a query are selected from at once
_KEPT_BYTES = 2**28  # of a bank in float64 that is kept scaled: one query then costs little more than its products
_kept: dict[tuple[int, bool], tuple[weakref.ref[NDArray[Any]], list[_Tile]]] = {}


class _Tile(NamedTuple):
    """Rows of the bank from ``start`` on, as the queries are multiplied with them, and what is added then."""

    start: int
    factors: Floats  # (m, D)
    shift: Floats | None  # (m,)


def kth_nearest(
    queries: Floats, bank: NDArray[Any], lengths: NDArray[Any], k: int, *, raw: bool = False
) -> NDArray[np.intp]:
    """Row of ``bank`` (N, D), scaled to length one by ``lengths`` (N,), that is the k-th nearest to each unit query.

    ``raw``: neither the bank nor the queries are scaled.
    """
    tiles = _tiles(bank, lengths, raw)

    def last(chunk: slice) -> NDArray[np.intp]:
        if bank.shape[0] <= _SMALL_BANK:
            return _kth_of_all(queries[chunk], next(iter(tiles)), k)
        closeness, where = _search(queries[chunk], tiles, k)
        return np.asarray(where[np.arange(len(where)), np.argmin(closeness, axis=1)])

    return np.concatenate(map_in_threads(last, _chunks(queries)))


def k_nearest(queries: Floats, bank: NDArray[Any], lengths: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Rows (n, k) of the bank that are nearest to each unit query, in no order."""
    tiles = _tiles(bank, lengths, raw=False)
    return np.concatenate(map_in_threads(lambda chunk: _search(queries[chunk], tiles, k)[1], _chunks(queries)))


def _kth_of_all(queries: Floats, bank: _Tile, k: int) -> NDArray[np.intp]:
    """The k-th nearest row from all similarities at once: numpy selects a value faster than it finds its place."""
    n, m = queries.shape[0], bank.factors.shape[0]
    nearest = np.empty(n, dtype=np.intp)
    for some in row_blocks(n, row_bytes=8 * m, block_bytes=_TILE_BYTES):
        tile = _closeness(queries[some], bank)
        if k > 1:
            kth = np.partition(tile, m - k, axis=1)[:, m - k, None]
            nearest[some] = np.argmax(tile == kth, axis=1)
        else:
            nearest[some] = np.argmax(tile, axis=1)
    return nearest


def _chunks(queries: NDArray[Any]) -> Iterator[slice]:
    return row_blocks(queries.shape[0], row_bytes=1, block_bytes=_QUERIES)


def nearest_by_group(
    queries: Floats, bank: NDArray[Any], lengths: NDArray[Any], groups: NDArray[np.intp], n_groups: int, *,
    raw: bool = False,
) -> tuple[Floats, NDArray[np.intp]]:  # fmt: skip
    """Closeness (n, G) of each unit query to the nearest bank row of each group, and that row's number.

    The squared distance is |q|^2 + 1 - 2 closeness, of raw rows |q|^2 - 2 closeness; a group without rows has closeness
    minus infinity.
    """
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups, minlength=n_groups))[:-1])

    def search(chunk: slice) -> tuple[Floats, NDArray[np.intp]]:
        part = queries[chunk]
        best = np.full((part.shape[0], n_groups), -np.inf)
        where = np.zeros(best.shape, dtype=np.intp)
        line = np.arange(part.shape[0])
        for group, rows in enumerate(members):
            for block in row_blocks(rows.size, row_bytes=1, block_bytes=_TILE):
                near = rows[block]
                tile = _closeness(part, _scaled(bank[near], lengths[near], raw))
                top = np.argmax(tile, axis=1)
                better = tile[line, top] > best[:, group]
                best[better, group] = tile[line, top][better]
                where[better, group] = near[top[better]]
        return best, where

    parts = map_in_threads(search, _chunks(queries))
    return np.concatenate([best for best, _ in parts]), np.concatenate([where for _, where in parts])


def _search(queries: Floats, tiles: Iterable[_Tile], k: int) -> tuple[Floats, NDArray[np.intp]]:
    """Closeness (n, k) of the k nearest bank rows to each unit query, and their numbers, in no order."""
    n = queries.shape[0]
    best = np.full((n, k), -np.inf)  # the k largest closenesses so far, in no order
    where = np.zeros((n, k), dtype=np.intp)
    worst = np.full((n, 1), -np.inf)  # the smallest of them

    def keep(lines: NDArray[np.intp], values: NDArray[Any], rows: NDArray[np.intp]) -> None:
        values, rows = np.hstack([best[lines], values]), np.hstack([where[lines], rows])
        top = np.argpartition(values, -k, axis=1)[:, -k:]
        kept = np.take_along_axis(values, top, axis=1)
        best[lines], where[lines] = kept, np.take_along_axis(rows, top, axis=1)
        worst[lines, 0] = kept.min(axis=1)

    for some in tiles:
        width = some.factors.shape[0]
        tile = _closeness(queries, some)
        hits = np.flatnonzero(tile > worst)
        lines, columns = np.divmod(hits, width)
        counts = np.bincount(lines, minlength=n)
        # Where much of a row is new (the first tile, or the first of the query's class), packing it gains nothing.
        crowded = np.flatnonzero(counts > width // 4)
        if crowded.size:
            everything = np.broadcast_to(np.arange(some.start, some.start + width), (crowded.size, width))
            keep(crowded, tile[crowded], everything)
            sparse = counts[lines] <= width // 4
            lines, columns = lines[sparse], columns[sparse]
            counts[crowded] = 0
        if lines.size:
            few = np.flatnonzero(counts)
            count = counts[few]
            place = np.arange(lines.size) - np.repeat(np.cumsum(count) - count, count)  # 0, 1, ... within each query
            values = np.full((few.size, count.max()), -np.inf)
            numbers = np.zeros(values.shape, dtype=np.intp)
            packed = np.repeat(np.arange(few.size), count)
            values[packed, place] = tile[lines, columns]
            numbers[packed, place] = columns + some.start
            keep(few, values, numbers)
    return best, where


def _closeness(queries: Floats, bank: _Tile) -> Floats:
    """Cosine (n, m) of unit queries with bank rows, raised by 1/2 for a zero row, which is nearer than its cosine says.

    With bank rows scaled to length one (zero rows stay zero), the squared distance is |q|^2 + 1 - 2 closeness. Of raw
    rows the closeness is the product less half the squared length of the bank row.
    """
    tile = row_products(queries, bank.factors, transposed=True)
    if bank.shift is not None:
        tile += bank.shift
    return tile


def _scaled(rows: NDArray[Any], lengths: NDArray[Any], raw: bool, start: int = 0) -> _Tile:
    factors = np.array(rows, dtype=np.float64, order="C")
    if raw:
        return _Tile(start, factors, -np.square(lengths) / 2)
    empty = lengths <= np.finfo(np.float64).tiny  # one over it must not overflow
    factors *= (1 / np.where(empty, 1, lengths))[:, None]
    return _Tile(start, factors, empty / 2 if empty.any() else None)


@final
@dataclass(frozen=True)
class _Scaled:
    """The tiles of a bank, scaled anew in every walk."""

    bank: NDArray[Any]
    lengths: NDArray[Any]
    raw: bool

    def __iter__(self) -> Iterator[_Tile]:
        m = len(self.bank)
        for block in row_blocks(m, row_bytes=1, block_bytes=m if m <= _SMALL_BANK else _TILE):
            yield _scaled(self.bank[block], self.lengths[block], self.raw, block.start)


def _tiles(bank: NDArray[Any], lengths: NDArray[Any], raw: bool) -> Iterable[_Tile]:
    """The tiles of a bank. Those of one that is not too large are kept as long as the bank, which must not change."""
    tiles = _Scaled(bank, lengths, raw)
    if 8 * bank.size > _KEPT_BYTES:
        return tiles
    key = (id(bank), raw)
    kept = _kept.get(key)
    if kept is None or kept[0]() is not bank:
        kept = _kept[key] = (weakref.ref(bank, lambda _: _kept.pop(key, None)), list(tiles))
    return kept[1]
