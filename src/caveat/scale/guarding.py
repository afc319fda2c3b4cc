"""Verdicts of a guard on a source, as columns in a folder."""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_kind, as_level
from caveat._internal.files import path_errors, write_json
from caveat._internal.folders import staging
from caveat.errors import InputError
from caveat.guard import Guard, Verdicts
from caveat.guard.verdicts import KINDS
from caveat.outputs import Outputs
from caveat.scale.fitting import Job, Progress
from caveat.scale.rows import pieces
from caveat.scale.runner import running
from caveat.scale.scoring import Column, Filled, can_score, check_rows, rank_histogram, read_column
from caveat.scale.sources import Source

__all__ = ["Predicted", "predict"]

_PAGE = "verdicts.json"


@final
@dataclass(frozen=True, eq=False)
class Predicted:
    """Verdicts of a guard in a folder.

    Parameters
    ----------
    folder
        Where the columns are.
    n, counts
        Number of rows, and how many got each verdict.
    n_classes
        Number of classes, to unpack ``sets``; None without sets.

    Examples
    --------
    >>> import tempfile
    >>> rows = Outputs(logits=np.random.default_rng(0).normal(size=(300, 3)))
    >>> guard = Guard("energy", sets=None).calibrate(rows[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predicted = predict(guard, rows[200:], out=f"{folder}/verdicts")
    ...     predicted.column("score").shape, sum(predicted.counts.values())
    ((100,), 100)
    """

    folder: str
    n: int
    counts: Mapping[str, int]
    n_classes: int | None

    def column(self, name: str) -> NDArray[Any]:
        """A column of the verdicts, memory-mapped.

        Parameters
        ----------
        name
            ``kind`` (index into accept, abstain, outlier), ``score``, ``p_value``, ``conditional_p_value``,
            ``prediction``, ``set_size`` or ``sets`` (bits of each row's classes, packed).

        Returns
        -------
        array of shape (n,)
            The column; ``sets`` has one byte for every eight classes of a row.
        """
        return read_column(Path(self.folder) / f"{name}.npy")

    def members(self, start: int, stop: int) -> NDArray[np.bool_]:
        """The prediction sets of some rows, shape (stop - start, C).

        Parameters
        ----------
        start, stop
            First row, and the row after the last.

        Returns
        -------
        boolean array of shape (stop - start, C)
            Which classes are in each set.
        """
        packed = self.column("sets")[start:stop]
        return np.unpackbits(packed, axis=1, count=self.n_classes).astype(np.bool_)


def predict(
    guard: Guard,
    source: Source | Outputs | str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    fdr: float | None = None,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
) -> Predicted:
    """Give a verdict on every row of a source, into a folder of ``.npy`` columns.

    Parameters
    ----------
    guard
        A calibrated guard.
    source
        As in ``fit``.
    out
        Folder to write, new or empty, on a file system that all workers see; it appears when it is complete.
    fdr
        None: rows at or above the threshold are outliers. A number: the outliers of the whole source are selected at
        this false discovery rate, which takes one more walk.
    client, rows_per_task, progress
        As in ``fit``.

    Returns
    -------
    Predicted
        ``counts`` of the verdicts; ``column(name)`` maps a column into memory.

    Examples
    --------
    >>> import tempfile
    >>> rows = Outputs(logits=np.random.default_rng(0).normal(size=(300, 3)))
    >>> guard = Guard("energy", sets=None).calibrate(rows[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     predicted = predict(guard, rows[200:], out=f"{folder}/verdicts")
    >>> predicted.n, sorted(predicted.counts)
    (100, ['abstain', 'accept', 'outlier'])
    """
    as_kind(guard, Guard, "guard", what="a calibrated Guard")
    target = Path(out).resolve()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target} exists and is not an empty folder. Choose another path.")
    if fdr is not None:
        as_level(fdr, "fdr")
    with running(client) as runner, ExitStack() as stack:
        job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
        job = job.in_order(guard.class_names_, name="source", of="the guard")
        example = guard(job.first)
        for score in guard.statistic_.scores:
            can_score(score, job.first)
        cut = None
        if fdr is not None:
            ranks = rank_histogram(job, "p-values", guard.statistic_, guard.calibration_scores_)
            cut = ranks.largest_p(fdr)
        with path_errors(target):
            staged = stack.enter_context(staging(target.parent))
        columns = {name: Column(str(staged / f"{name}.npy"), job.source.n, values.dtype.str,
                                values.shape[1] if values.ndim == 2 else 0)
                   for name, values in as_columns(example).items()}  # fmt: skip
        for column in columns.values():
            column.create()
        work = Predicting(job.source, job.first, guard, cut, fdr, columns)
        filled = check_rows(job, job.reduce("verdicts", work, operator.add))
        classes = None if example.sets is None else example.sets.n_classes
        counts = {kind: filled.counts.get(kind, 0) for kind in KINDS}
        page = {"format": "caveat-verdicts", "version": 1, "n": job.source.n, "kinds": list(KINDS), "counts": counts,
                "n_classes": classes, "guard": guard.fingerprint, "fdr": fdr}  # fmt: skip
        write_json(staged / _PAGE, page)
        with path_errors(target):
            if target.exists():
                target.rmdir()
            staged.rename(target)
    return Predicted(str(target), job.source.n, counts, classes)


@final
@dataclass(frozen=True, eq=False)
class Predicting:
    """The work of verdicts on one range."""

    source: Source
    first: Outputs
    guard: Guard
    cut: float | None
    fdr: float | None
    columns: Mapping[str, Column]

    def __call__(self, start: int, stop: int) -> Filled:
        done, counts = start, dict.fromkeys(KINDS, 0)
        for piece in pieces(self.source, self.first, start, stop, fields_of(self.guard, self.first), check=True):
            verdicts = self.guard(piece, fdr=self.fdr, cut=self.cut)
            for name, values in as_columns(verdicts).items():
                self.columns[name].write(done, values)
            done += piece.n
            counts = {kind: counts[kind] + count for kind, count in verdicts.counts.items()}
        return Filled(stop - start, counts=counts)


def as_columns(verdicts: Verdicts) -> dict[str, NDArray[Any]]:
    """Verdicts as plain arrays by name."""
    columns: dict[str, NDArray[Any]] = {
        "kind": np.select([verdicts.kind == kind for kind in KINDS], range(len(KINDS))).astype(np.uint8),
        "score": verdicts.score,
        "p_value": verdicts.p_values,
        "conditional_p_value": verdicts.conditional_p_values,
    }
    if verdicts.predictions is not None:
        columns["prediction"] = verdicts.predictions.astype(np.int64)
    if verdicts.sets is not None:
        member = verdicts.sets.member
        dense = member if isinstance(member, np.ndarray) else member.toarray()
        columns["set_size"] = verdicts.sets.sizes.astype(np.int64)
        columns["sets"] = np.packbits(np.asarray(dense, dtype=np.bool_), axis=1)
    return columns


def fields_of(guard: Guard, first: Outputs) -> set[str]:
    """What verdicts are read from."""
    scores = (*guard.statistic_.scores, guard.confidence_)
    derived = {field for field in ("probs", "predictions") if first.has(field)}
    return {field for score in scores for field in score.needs if first.has(field)} | derived
