"""Scores, p-values and selected outliers of a source, written by workers into disjoint slices of one ``.npy`` file.

Conformal p-values take n + 1 values, so the histograms of the ranges, added up, give the exact Benjamini-Hochberg or
Storey cut over all rows: ``caveat.conformal.RankHistogram``.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_kind, as_level, as_vector, check_known
from caveat._internal.files import path_errors, replacing_file, temporary_name
from caveat.conformal import RankHistogram
from caveat.errors import InputError
from caveat.guard.statistic import Statistic as Combined
from caveat.outputs import Outputs
from caveat.scale.fitting import Job, Progress
from caveat.scale.rows import pieces
from caveat.scale.runner import running
from caveat.scale.sources import Source
from caveat.scores import Score

__all__ = ["Column", "PValues", "p_values", "score", "select_outliers"]

Path_ = str | os.PathLike[str]
Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Column:
    """A ``.npy`` file that is filled by row range; ``width`` columns, 0 for a vector."""

    path: str
    n: int
    dtype: str
    width: int = 0

    def create(self) -> None:
        """Write the header and make room; on most file systems the room is taken as it is filled."""
        shape = (self.n, self.width) if self.width else (self.n,)
        header = {"descr": self.dtype, "fortran_order": False, "shape": shape}
        with open(self.path, "wb") as stream:
            np.lib.format.write_array_header_2_0(stream, header)
            stream.truncate(stream.tell() + self._row_bytes * self.n)

    def write(self, start: int, values: NDArray[Any]) -> None:
        """Write values from row ``start`` on. Writing them twice, after a worker died, changes nothing."""
        room = os.path.getsize(self.path) - self._row_bytes * self.n  # the header
        with open(self.path, "r+b") as stream:
            stream.seek(room + self._row_bytes * start)
            stream.write(np.ascontiguousarray(values, dtype=self.dtype).data)

    @property
    def _row_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * max(1, self.width)


@final
@dataclass(frozen=True, eq=False)
class Filled:
    """Result of one or more ranges: number of rows, values unless they went to a file, histogram and counts."""

    rows: int
    values: tuple[NDArray[Any], ...] = ()
    histogram: RankHistogram | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: Filled) -> Filled:
        histogram = self.histogram if other.histogram is None else other.histogram + self.histogram
        counts = {key: self.counts.get(key, 0) + other.counts.get(key, 0) for key in {**self.counts, **other.counts}}
        return Filled(self.rows + other.rows, self.values + other.values, histogram, counts)


@final
@dataclass(frozen=True, eq=False)
class Scoring:
    """The work of scoring one range; with calibration scores, p-values and their ranks."""

    source: Source
    first: Outputs
    score: Score | Combined
    calibration: Floats | None
    column: Column | None
    keep: bool = True  # return the values if they do not go to a file

    def __call__(self, start: int, stop: int) -> Filled:
        scores = self.score.scores if isinstance(self.score, Combined) else (self.score,)
        needs = {field for score in scores for field in score.needs}
        parts = [self.score.score(piece)
                 for piece in pieces(self.source, self.first, start, stop, needs, check=True)]  # fmt: skip
        values, histogram = np.concatenate(parts), None
        if self.calibration is not None:
            histogram = RankHistogram.of(calibration=self.calibration, test=values)
            ranks = self.calibration.size - np.searchsorted(self.calibration, values, side="left")
            values = histogram.p_values()[ranks]
        if self.column is not None:
            self.column.write(start, values)
        kept = (values,) if self.column is None and self.keep else ()
        return Filled(stop - start, kept, histogram)


def score(
    score: Score,
    source: Source | Outputs | Path_,
    *,
    out: Path_ | None = None,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> Floats:
    """Score every row of a source. The larger, the stranger.

    Parameters
    ----------
    score
        A fitted score.
    source
        As in ``fit``.
    out
        A ``.npy`` file, into which workers write their own rows, on a file system that all of them see; it appears
        when it is complete. None: the values come back through the tree, for up to some ten million rows.
    client, rows_per_task, progress
        As in ``fit``.

    Returns
    -------
    Array of shape (n,)
        In memory, or the memory-mapped file.

    Examples
    --------
    >>> from caveat.scores import Energy
    >>> score(Energy(), Outputs(logits=[[9.0, 0.0], [0.0, 0.0]])).round(3)
    array([-9.   , -0.693])
    """
    with running(client) as runner:
        job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
        values: Floats = _scored(job, "scoring", score, None, out)[0]
    return values


@final
@dataclass(frozen=True, eq=False)
class PValues:
    """P-values of a source, and the histogram of their ranks.

    Parameters
    ----------
    values
        Shape (n,), in memory or memory-mapped.
    histogram
        How many rows have each rank; what ``select_outliers`` decides by.

    Examples
    --------
    >>> from caveat.scores import Confidence
    >>> result = p_values(Confidence(), Outputs(confidence=[0.5, -9.0]), calibration=np.arange(9.0))
    >>> result.values, result.histogram.m
    (array([1. , 0.1]), 2)
    """

    values: Floats
    histogram: RankHistogram


def p_values(
    score: Score,
    source: Source | Outputs | Path_,
    *,
    calibration: ArrayLike,
    out: Path_ | None = None,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> PValues:
    """Marginal conformal p-value of every row: ``conformal.p_values`` of its score.

    Parameters
    ----------
    score, source
        As in ``score``.
    calibration
        Calibration scores (n,), sent to every worker. A million of them say all there is.
    out, client, rows_per_task, progress
        As in ``score``.

    Returns
    -------
    PValues
        ``values`` (n,) and the ``histogram`` of their ranks.

    Examples
    --------
    >>> from caveat.scores import Confidence
    >>> p_values(Confidence(), Outputs(confidence=[0.5, -9.0]), calibration=np.arange(9.0)).values
    array([1. , 0.1])
    """
    with running(client) as runner:
        job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
        return PValues(*_scored(job, "p-values", score, calibration, out))


def select_outliers(
    score: Score,
    source: Source | Outputs | Path_,
    *,
    calibration: ArrayLike,
    q: float,
    method: Literal["bh", "storey"] = "bh",
    out: Path_ | None = None,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> NDArray[np.bool_]:
    """Which rows are selected as outliers at false discovery rate q, by the exact cut over all rows.

    The result is that of ``conformal.select_outliers`` on the p-values of all rows together.

    Parameters
    ----------
    score, source, calibration
        As in ``p_values``.
    q, method
        Allowed false discovery rate, and ``"bh"`` or ``"storey"``.
    out
        A ``.npy`` file of booleans; None: in memory.
    client, rows_per_task, progress
        As in ``p_values``.

    Returns
    -------
    boolean array of shape (n,)
        Which rows are selected; in memory, or the memory-mapped file.

    Examples
    --------
    >>> from caveat.scores import Confidence
    >>> test = Outputs(confidence=[-900.0, 5.0, -800.0, -50.0])
    >>> select_outliers(Confidence(), test, calibration=np.arange(99.0), q=0.1)
    array([ True, False,  True, False])
    """
    as_level(q, "q")
    check_known(method, ("bh", "storey"), "selection method")
    with running(client) as runner:
        job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
        if out is None:
            values, histogram = _scored(job, "p-values", score, calibration, None)
            return np.asarray(values <= histogram.largest_p(q, method))
        with new_column(out, job.source.n, "|b1") as column:
            scratch = Path(column.path).with_name(temporary_name(".npy"))
            held = Column(str(scratch), job.source.n, "<f8")
            try:
                _, histogram = _scored(job, "p-values", score, calibration, None, column=held)
                cut = histogram.largest_p(q, method)
                check_rows(job, job.reduce("selecting", Selecting(held, column, cut), operator.add))
            finally:
                scratch.unlink(missing_ok=True)
        return read_column(out)


@final
@dataclass(frozen=True)
class Selecting:
    """The work of the second walk of a selection: p-values up to the cut are selected."""

    p_values: Column
    selected: Column
    cut: float

    def __call__(self, start: int, stop: int) -> Filled:
        from caveat.scale.arrays import NpyFile

        values = NpyFile.of(Path(self.p_values.path)).rows(start, stop, 0)
        self.selected.write(start, values <= self.cut)
        return Filled(stop - start)


def can_score(score: Score, first: Outputs) -> None:
    """Raise an error before any work is sent: not fitted, a field is missing, the widths differ, a whole batch."""
    as_kind(score, Score, "score", what="a fitted Score")
    if getattr(score, "whole_batch", False):
        raise InputError(f"{score.name} scores a row against the whole batch, so it cannot be scored by row ranges. "
                         "Score a batch that fits into memory: score.score(scale.sample(source, 10_000)).")  # fmt: skip
    score.score(first)


def rank_histogram(job: Job, what: str, score: Score | Combined, calibration: ArrayLike) -> RankHistogram:
    """The rank histogram of a source, without the p-values themselves; of a score, or a guard's combination of some."""
    for part in score.scores if isinstance(score, Combined) else (score,):
        can_score(part, job.first)
    held = np.sort(as_vector(calibration, "calibration", allow_infinite=True))
    work = Scoring(job.source, job.first, score, held, None, keep=False)
    histogram = check_rows(job, job.reduce(what, work, operator.add)).histogram
    assert histogram is not None
    return histogram


def _scored(
    job: Job, what: str, score: Score, calibration: ArrayLike | None, out: Path_ | None, *, column: Column | None = None
) -> Any:
    """Values and histogram of all rows; a ``column`` is filled and left to the caller."""
    can_score(score, job.first)
    held = None if calibration is None else np.sort(as_vector(calibration, "calibration", allow_infinite=True))

    def run(into: Column | None) -> Filled:
        work = Scoring(job.source, job.first, score, held, into)
        return check_rows(job, job.reduce(what, work, operator.add))

    if column is not None:
        column.create()
        return None, run(column).histogram
    if out is None:
        filled = run(None)
        return np.concatenate(filled.values), filled.histogram
    with new_column(out, job.source.n, "<f8") as made:
        histogram = run(made).histogram
    return read_column(out), histogram


def check_rows(job: Job, filled: Filled) -> Filled:
    assert filled.rows == job.source.n, "a range was lost"
    return filled


@contextmanager
def new_column(out: Path_, n: int, dtype: str) -> Iterator[Column]:
    """A column under a temporary name, renamed to ``out`` when the block ends well."""
    path = Path(out)
    if path.suffix != ".npy":
        raise InputError(f"out must end in .npy, got {path.name}. For a part per range and a manifest, also at a URL, "
                         "call score_parts.")  # fmt: skip
    with path_errors(path), replacing_file(path.resolve()) as temporary:
        column = Column(str(temporary), n, dtype)
        column.create()
        yield column


def read_column(path: Path_) -> NDArray[Any]:
    """A finished column, memory-mapped."""
    column: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return column
