"""Fit scores on row ranges: the statistics of the in-memory fit, gathered per range and merged in a fixed tree."""

from __future__ import annotations

import hashlib
import operator
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, final, overload

import numpy as np

from caveat._internal.checks import Rng, as_kind, as_list
from caveat._internal.classes import in_order
from caveat._internal.ranges import Range, default_rows, row_ranges
from caveat._internal.streams import as_seed
from caveat.errors import InputError
from caveat.guard import Guard
from caveat.outputs import Outputs
from caveat.scale.rows import SourceRows, pieces
from caveat.scale.runner import Runner, running
from caveat.scale.sources import InOrder, Source, open_source
from caveat.scores import Score, make
from caveat.scores._statistics import Gathered, Statistic, gather

__all__ = ["Job", "Progress", "fit", "walks"]

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many ranges are done, and how many there are."""
T = TypeVar("T")


@final
@dataclass(frozen=True, eq=False)
class Job:
    """A source, its ranges, who computes them, and who is told: what every call of this package starts from."""

    source: Source
    first: Outputs
    ranges: Sequence[Range]
    runner: Runner
    progress: Progress | None

    @classmethod
    def on(
        cls, source: Source | Outputs | str | os.PathLike[str], runner: Runner, *, rows_per_task: int | None,
        progress: Progress | None,
    ) -> Job:  # fmt: skip
        """Open the source and cut it into ranges."""
        rows = open_source(source)
        first = rows.read(0, 1)
        size = default_rows(rows.n, first.room()) if rows_per_task is None else rows_per_task
        return cls(rows, first, row_ranges(rows.n, size), runner, progress)

    def reduce(self, what: str, work: Callable[[int, int], T], merge: Callable[[T, T], T]) -> T:
        """One walk over the ranges."""

        def tell(done: int, total: int) -> None:
            if self.progress is not None:
                self.progress(what, done, total)

        tell(0, len(self.ranges))
        return self.runner.reduce(work, self.ranges, merge, tell)

    def rows(self, n_classes: int | None) -> SourceRows:
        """All rows as shapes."""
        return SourceRows(self.source, self.first, 0, self.source.n, n_classes=n_classes)

    def in_order(self, names: tuple[str, ...] | None, *, name: str, of: str) -> Job:
        """This job with the classes of its rows in the order of ``names``, as ``caveat._internal.classes.in_order``."""
        first = in_order(self.first, names, name=name, of=of)
        if first is self.first:
            return self
        assert names is not None
        return replace(self, source=InOrder(self.source, names), first=first)

    def n_classes(self) -> int | None:
        """Number of classes: of the arrays with a column per class, else from a walk over the labels."""
        if self.first.class_names is not None:
            return len(self.first.class_names)
        if not self.first.has("labels") or self.first.has("probs") or self.first.head is not None:
            return self.first.n_classes
        return 1 + self.reduce("counting classes", LargestLabel(self.source, self.first), max)


@overload
def fit(
    score: Guard, source: Source | Outputs | str | os.PathLike[str], *, client: Any = None,
    rows_per_task: int | None = None, progress: Progress | None = None, rng: Rng = 0,
) -> Guard: ...  # fmt: skip
@overload
def fit(  # type: ignore[overload-overlap]  # a name is text, and text an iterable of text
    score: str | Score, source: Source | Outputs | str | os.PathLike[str], *, client: Any = None,
    rows_per_task: int | None = None, progress: Progress | None = None, rng: Rng = 0,
) -> Score: ...  # fmt: skip
@overload
def fit(
    score: Iterable[str | Score], source: Source | Outputs | str | os.PathLike[str], *, client: Any = None,
    rows_per_task: int | None = None, progress: Progress | None = None, rng: Rng = 0,
) -> list[Score]: ...  # fmt: skip
def fit(
    score: str | Score | Guard | Iterable[str | Score],
    source: Source | Outputs | str | os.PathLike[str],
    *,
    client: Any = None,
    rows_per_task: int | None = None,
    progress: Progress | None = None,
    rng: Rng = 0,
) -> Score | Guard | list[Score]:
    """Fit a score, several scores or a guard on a source that need not fit into memory.

    At most two walks over the rows, which all scores share. Every range gives the statistics of its rows; they are
    merged in a fixed binary tree. The result depends on the data and ``rows_per_task`` alone: any number of workers
    gives the same bits, also after one of them died. With the default ``rows_per_task``, and with one range, they are
    those of ``score.fit``; with other ranges, sums are added in another order (``docs/scale.md`` says what it changes).

    Parameters
    ----------
    score
        A score, a name of the catalogue, several of them, or a guard. Scores given by name and those of a guard are
        spared what only their class scores need, and so is ``Mahalanobis``, whose class scores need all rows at once. A
        bank (``KNN``, ``NNGuide``) is read by the calling process, which must have room for it.
    source
        Path of a folder, Parquet or Zarr, or what ``open_source`` gave.
    client
        None: threads of this process. A number: processes on this machine. An address such as
        ``"tcp://10.0.0.1:8786"``, or a ``distributed.Client``: the workers of that Dask cluster, which must see the
        source under the same path. Or a runner of your own, see ``Runner``.
    rows_per_task
        Rows of a range; default about 64 MiB of them, and at most 1,024 ranges.
    progress
        Called with what is being done, ranges done, and ranges in all.
    rng
        Seed of the random steps, as in ``Score.fit``.

    Returns
    -------
    Score, Guard or list of Score
        What was passed, fitted; of names, and of a score that was spared its class scores, new scores.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> train = Outputs(features=rng.normal(size=(1000, 4)), labels=rng.integers(3, size=1000))
    >>> score = fit("mahalanobis", train, rows_per_task=300)
    >>> bool(np.allclose(score.score(train), make("mahalanobis", class_rank=0).fit(train).score(train)))
    True
    """
    guard = score if isinstance(score, Guard) else None
    single = isinstance(score, (str, Score))
    if guard is not None:
        guard.scores_ = tuple(part.without_class_scores() for part in guard.scores_)  # a guard reads none
        guard.confidence_ = guard.confidence_.without_class_scores()
        scores = guard.learners()
    else:
        parts: Any = [score] if isinstance(score, Score) else as_list(score, "score")  # type: ignore[arg-type]
        scores = [_fittable(part) for part in parts]
    with running(client) as runner:
        job = Job.on(source, runner, rows_per_task=rows_per_task, progress=progress)
        fit_scores(scores, job, as_seed(rng))
        if guard is not None:
            guard.fitted_on(_fingerprints(job))
            guard.class_names_ = job.first.class_names
            return guard
    return scores[0] if single else scores


def fit_scores(scores: Sequence[Score], job: Job, seed: int) -> None:
    """Fit scores from one or two shared walks over the ranges; all random steps start from ``seed``."""
    learners = [score for score in scores if score.fits_on]
    shapes = job.rows(job.first.n_classes)
    for score in learners:
        score.can_fit(shapes)  # type: ignore[arg-type]  # it asks for fields, which shapes know
        if reason := score.all_rows():
            raise InputError(
                f"{score.name} {reason}, so it is not fitted by row ranges. Fit it on a sample that fits into memory: "
                "score.fit(scale.sample(source, 100_000))."
            )
    if not learners:
        return
    train: Any = job.rows(job.n_classes())
    wanted = [s for score in learners for s in score.statistics()]
    first = _gathered(job, "fitting", wanted, train, check=True).with_seed(seed)
    further = [s for score in learners for s in score.prepare(train, first)]
    second = _gathered(job, "fitting, second walk", further, train, check=False)
    for done, score in enumerate(learners):
        if score.walks_alone and job.progress is not None:
            job.progress(f"fitting {score.name}, which {score.walks_alone}", done, len(learners))
        score.complete(train, first | second)


def walks(score: Score) -> str:
    """How a score is fitted on a source, as a phrase for tables.

    Parameters
    ----------
    score
        A score of the catalogue.

    Returns
    -------
    str
        ``"none"``, ``"one walk"``, ``"two walks"``, why the calling process reads rows itself, or why all rows are
        needed at once.

    Examples
    --------
    >>> walks(make("msp")), walks(make("react")), walks(make("vim")), walks(make("knn"))
    ('none', 'one walk', 'two walks', 'here: keeps the training rows as its bank')
    """
    if not score.fits_on:
        return "none"
    if reason := score.all_rows():
        return f"all rows: {reason}"
    if score.walks_alone:
        return f"here: {score.walks_alone}"
    return "one walk" if type(score)._further is Score._further else "two walks"


def _gathered(job: Job, what: str, wanted: Sequence[Statistic], train: SourceRows, *, check: bool) -> Gathered:
    if not wanted:
        return Gathered()
    work = Gather(job.source, job.first, tuple(wanted), train.n_classes, check)
    gathered: Gathered = job.reduce(what, work, operator.add)
    return gathered


@final
@dataclass(frozen=True, eq=False)
class Gather:
    """The work of a fit: statistics of one range."""

    source: Source
    first: Outputs
    wanted: tuple[Statistic, ...]
    n_classes: int | None
    check: bool

    def __call__(self, start: int, stop: int) -> Gathered:
        rows: Any = SourceRows(self.source, self.first, start, stop, n_classes=self.n_classes, check=self.check)
        return gather(rows, self.wanted)


@final
@dataclass(frozen=True, eq=False)
class LargestLabel:
    """The largest label of one range."""

    source: Source
    first: Outputs

    def __call__(self, start: int, stop: int) -> int:
        parts = pieces(self.source, self.first, start, stop, ("labels",), check=True)
        return max(int(part.labels.max()) for part in parts)


@final
@dataclass(frozen=True, eq=False)
class Digests:
    """SHA-256 of each array's bytes in one range, as a list with one entry."""

    source: Source
    first: Outputs

    def __call__(self, start: int, stop: int) -> list[dict[str, str]]:
        digests = {key: hashlib.sha256() for key in self.source.fields}
        for part in pieces(self.source, self.first, start, stop, None, check=False):
            for key, array in part.arrays().items():
                if key in digests:
                    digests[key].update(np.ascontiguousarray(array).data)
        return [{key: digest.hexdigest() for key, digest in digests.items()}]


def _fingerprints(job: Job) -> dict[str, Any]:
    """Number of rows, rows of a range, and for each array the SHA-256 of the digests of its ranges."""
    of_ranges = job.reduce("fingerprints", Digests(job.source, job.first), operator.add)
    whole = {key: hashlib.sha256("".join(part[key] for part in of_ranges).encode()).hexdigest()
             for key in job.source.fields}  # fmt: skip
    start, stop = job.ranges[0]
    return {"n": job.source.n, "rows_per_task": stop - start, "sha256": whole}


def _fittable(score: str | Score) -> Score:
    """The score; without what it learns for class scores if it was given by name, or would read all rows for them."""
    if isinstance(score, str):
        return make(score).without_class_scores()
    spared = as_kind(score, Score, "score", what="the name of a score or a Score").without_class_scores()
    return spared if score.all_rows() and not spared.all_rows() else score
