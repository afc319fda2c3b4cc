r"""The score ``knn`` against a bank of any size: every shard gives its k nearest rows, and the k smallest are kept.

$$ s(x) = \lVert \bar h - \bar h_{(k)} \rVert_2, \qquad \bar h = h / \lVert h \rVert_2 $$

The k nearest rows of the whole bank are among the k nearest of its shards, so the merge is exact. A shard searches by a
product in float64, as ``caveat.scores.KNN`` does, and takes the distances of the rows that it keeps from the rows
themselves. Equal distances are ordered by row number.

Sun, Ming, Zhu and Li, "Out-of-Distribution Detection with Deep Nearest Neighbors", ICML 2022, arXiv:2204.06507.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.arrays import widened
from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_count, check_same
from caveat._internal.ranges import Range, row_ranges
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scale.fitting import Job, Progress
from caveat.scale.rows import pieces
from caveat.scale.runner import running
from caveat.scale.scoring import Column, new_column, read_column
from caveat.scale.sources import Source, open_source
from caveat.scores._nearest import k_nearest
from caveat.scores._statistics import unit_rows

__all__ = ["Neighbors", "knn_scores"]

Path_ = str | os.PathLike[str]
_QUERY_BYTES = 32 * 2**20  # queries that go through the bank together; each task reads them again


@final
@dataclass(frozen=True, eq=False)
class Neighbors:
    """The k nearest bank rows of each query so far, nearest first. ``a + b`` keeps the k nearest of both.

    Examples
    --------
    >>> one = Neighbors(np.array([[0.1, 0.5]]), np.array([[7, 3]]), k=2)
    >>> two = Neighbors(np.array([[0.2]]), np.array([[9]]), k=2)
    >>> (one + two).distances, (one + two).rows
    (array([[0.1, 0.2]]), array([[7, 9]]))
    """

    distances: NDArray[np.float64]  # (n, at most k)
    rows: NDArray[np.int64]
    k: int

    def __add__(self, other: Neighbors) -> Neighbors:
        distances = np.hstack([self.distances, other.distances])
        rows = np.hstack([self.rows, other.rows])
        order = np.lexsort((rows, distances), axis=1)[:, : self.k]
        return Neighbors(np.take_along_axis(distances, order, 1), np.take_along_axis(rows, order, 1), self.k)


@final
@dataclass(frozen=True, eq=False)
class Shard:
    """The work on one range of the bank: the k nearest of its rows to each query of one range."""

    bank: Source
    first: Outputs
    source: Source
    first_query: Outputs
    queries: Range
    k: int

    def __call__(self, start: int, stop: int) -> Neighbors:
        queries = unit_rows(_features(self.source, self.first_query, *self.queries).astype(np.float64))
        bank = _features(self.bank, self.first, start, stop)
        lengths = np.sqrt(np.einsum("ij,ij->i", bank, bank, dtype=np.float64))
        near = k_nearest(queries, bank, lengths, min(self.k, len(bank)))
        distances = _distances(queries, bank, near)
        nothing = Neighbors(np.empty((len(near), 0)), np.empty((len(near), 0), dtype=np.int64), self.k)
        return nothing + Neighbors(distances, near + start, self.k)


def knn_scores(
    bank: Source | Outputs | Path_, source: Source | Outputs | Path_, *, k: int = 50, out: Path_ | None = None,
    client: Any = None, rows_per_task: int | None = None, progress: Progress | None = None,
) -> NDArray[np.float64]:  # fmt: skip
    """Score ``knn`` of every row of a source against a bank of training rows that need not fit into memory.

    What ``KNN(k=k).fit(bank).score(source)`` gives, up to the last digits of a float32 product. The larger, the
    stranger. A task holds one range of the bank and one of the source, 64 MiB and 32 MiB of rows by default. The result
    depends on the data and ``rows_per_task`` alone, not on the workers.

    Parameters
    ----------
    bank
        Training rows with features; as in ``fit``.
    source
        Rows to be scored, with features.
    k
        Which neighbor; at most the number of bank rows.
    out
        A ``.npy`` file for the scores; None: in memory.
    client
        As in ``fit``.
    rows_per_task
        Bank rows of a task; default about 64 MiB of them.
    progress
        As in ``fit``.

    Returns
    -------
    numpy.ndarray
        Scores, shape (n,); memory-mapped with ``out``.

    Examples
    --------
    >>> from caveat.scores import KNN
    >>> rng = np.random.default_rng(0)
    >>> bank, rows = Outputs(features=rng.normal(size=(500, 4))), Outputs(features=rng.normal(size=(9, 4)))
    >>> scores = knn_scores(bank, rows, k=5, rows_per_task=100)
    >>> bool(np.allclose(scores, KNN(k=5).fit(bank).score(rows)))
    True
    """
    with running(client) as runner:
        job = Job.on(bank, runner, rows_per_task=rows_per_task, progress=progress)
        rows = open_source(source)
        first = rows.read(0, 1)
        for name, outputs in (("bank", job.first), ("source", first)):
            if not outputs.has("features"):
                raise InputError(f"knn_scores needs features, which the {name} does not have.")
        width = first.features.shape[1]
        check_same("number of features", bank=job.first.features.shape[1], source=width)
        as_count(k, "k", most=job.source.n)
        ranges = row_ranges(rows.n, max(1, _QUERY_BYTES // (max(4, first.features.itemsize) * width)))
        with nullcontext() if out is None else new_column(out, rows.n, "<f8") as column:
            parts = [_scored(job, rows, first, part, k, column, f"{i + 1} of {len(ranges)}")
                     for i, part in enumerate(ranges)]  # fmt: skip
    return np.concatenate(parts) if out is None else read_column(out)


def _scored(
    job: Job, rows: Source, first: Outputs, part: Range, k: int, column: Column | None, place: str
) -> NDArray[np.float64]:
    """Scores of one range of queries; nothing where they go into a column."""
    work = Shard(job.source, job.first, rows, first, part, k)
    neighbors: Neighbors = job.reduce(f"searching for rows {place}", work, Neighbors.__add__)
    scores = neighbors.distances[:, -1]
    if column is None:
        return scores
    column.write(part[0], scores)
    return scores[:0]


def _distances(queries: NDArray[Any], bank: NDArray[Any], near: NDArray[np.intp]) -> NDArray[np.float64]:
    """Distance of each unit query to each of its bank rows, scaled to length one; in float64."""
    distances = np.empty(near.shape)
    for block in row_blocks(len(near), row_bytes=24 * near.shape[1] * bank.shape[1]):
        rows = unit_rows(bank[near[block].ravel()].astype(np.float64)).reshape(*near[block].shape, -1)
        rows -= queries[block][:, None]
        distances[block] = np.sqrt(np.vecdot(rows, rows))
    return distances


def _features(source: Source, first: Outputs, start: int, stop: int) -> NDArray[Any]:
    parts = pieces(source, first, start, stop, ("features",), check=True)
    return np.concatenate([widened(part.features) for part in parts])
