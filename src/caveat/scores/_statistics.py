"""Mergeable summaries of training outputs: gathered once for all scores, block by block, added with ``+``.

Some can only be filled when others are known: distances to class means, lengths outside a principal space. They are
gathered in one further walk, again for all scores together.

The same verbs serve a memory-mapped file (``update`` per block), several processes and several machines (``a + b`` of
partial results).
"""

from __future__ import annotations

import copy
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from caveat._internal.arrays import widened
from caveat._internal.checks import check_same
from caveat._internal.parallel import OneBlasThread, stream_in_threads
from caveat._internal.products import self_product
from caveat._internal.ranges import Tree, default_rows, row_ranges
from caveat.errors import InputError
from caveat.outputs import Outputs

_FEW = 2**16  # rows x classes up to which class sums are a dense product

Merge = Mapping[str, Callable[[Any, Any], Any]]  # name of what is learned -> how two values of it become one
total = operator.iadd  # adds numbers, arrays (in place) and lists


@dataclass
class Statistic(ABC):
    """A recipe (the dataclass fields) and, once rows have passed, what was learned from them.

    ``merge`` declares what is learned and how the values of two sets of rows become one. Two scores that ask for equal
    recipes share one statistic. A field with ``compare=False`` is not part of the recipe: it holds what follows from
    the recipe and from statistics of the same rows.
    """

    reads: ClassVar[tuple[str, ...]]
    merge: ClassVar[Merge] = {}

    @property
    def recipe(self) -> tuple[Any, ...]:
        return (type(self), *(getattr(self, field.name) for field in fields(self) if field.compare))

    @abstractmethod
    def begin(self, train: Outputs) -> None:
        """Make room, knowing shapes but no rows."""

    @abstractmethod
    def update(self, block: Outputs) -> None:
        """Take in one block of rows."""

    def __add__(self, other: Self) -> Self:
        """The statistic of both sets of rows together."""
        both = copy.copy(self)
        for name in self.merge:
            setattr(both, name, copy.copy(getattr(self, name)))  # merged in place
        both._take({name: getattr(other, name) for name in self.merge})
        return both

    def _take(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if name in vars(self):
                old = getattr(self, name)
                check_same("shape to be added", one=getattr(old, "shape", ()), other=getattr(value, "shape", ()))
                value = self.merge[name](old, value)  # noqa: PLW2901
            setattr(self, name, value)


class Accumulator(Statistic):
    """A statistic whose blocks merge as its parts do: a subclass declares ``merge`` and gives the values of a block."""

    if TYPE_CHECKING:  # what ``merge`` declares

        def __getattr__(self, name: str) -> Any: ...

    def begin(self, train: Outputs) -> None:
        self.n_classes = train.n_classes or 1

    def update(self, block: Outputs) -> None:
        self._take(self.of_block(block))

    @abstractmethod
    def of_block(self, block: Outputs) -> dict[str, Any]:
        """Values of one block by name, in float64, not shared with anything."""


S = TypeVar("S", bound=Statistic)


@final
class Gathered:
    """Filled statistics, asked for by their recipe, and the seed of the fit they are for."""

    def __init__(self, statistics: Iterable[Statistic] = (), *, seed: int = 0) -> None:
        self._by_recipe = {statistic.recipe: statistic for statistic in statistics}
        self.seed = seed

    def __getitem__(self, wanted: S) -> S:
        return self._by_recipe[wanted.recipe]  # type: ignore[return-value]

    def __add__(self, other: Gathered) -> Gathered:
        """The same statistics of both sets of rows."""
        return Gathered((self._by_recipe[key] + other._by_recipe[key] for key in self._by_recipe), seed=self.seed)

    def __or__(self, other: Gathered) -> Gathered:
        """The statistics of both, of the same rows."""
        return Gathered([*self._by_recipe.values(), *other._by_recipe.values()], seed=self.seed)

    def with_seed(self, seed: int) -> Gathered:
        """The same statistics, for a fit with this seed."""
        return Gathered(self._by_recipe.values(), seed=seed)


def gather(train: Outputs, wanted: Iterable[Statistic]) -> Gathered:
    """Fill every wanted statistic in ONE walk over the row blocks of ``train``; equal recipes are filled once.

    Rows in memory are cut into the ranges that ``caveat.scale`` sends to workers, and merged as it merges them: a fit
    has the same bits wherever it is computed, on any number of threads.
    """
    recipes = {statistic.recipe: statistic for statistic in wanted}
    if not recipes:
        return Gathered()
    fields = {field for statistic in recipes.values() for field in statistic.reads}

    def fill(rows: Outputs) -> Gathered:
        filled = [replace(statistic) for statistic in recipes.values()]
        for statistic in filled:
            statistic.begin(train)
        with np.errstate(over="ignore", invalid="ignore"):  # check_result reports overflow
            for block in rows.blocks(fields):
                for statistic in filled:
                    statistic.update(block)
        return Gathered(filled)

    with OneBlasThread():
        ranges = (
            row_ranges(train.n, default_rows(train.n, train.room() // max(1, train.n)))
            if isinstance(train, Outputs)
            else []
        )
        if len(ranges) < 2:
            return fill(train)
        tree = Tree[Gathered](operator.add)
        for part in stream_in_threads(lambda some: fill(train[slice(*some)]), lambda _: ranges):
            tree.add(part)
        return tree.root()


def rows_of(train: Outputs, field: str, chosen: NDArray[np.intp] | None = None) -> NDArray[Any]:
    """An array of the training rows, or of chosen ones in rising order; that of a source is read block by block."""
    array: NDArray[Any] = getattr(train, field)
    if isinstance(train, Outputs):
        return array if chosen is None else array[chosen]
    size = train.n if chosen is None else chosen.size
    rows, start, filled = np.empty((size, *array.shape[1:]), dtype=array.dtype), 0, 0
    for block in train.blocks((field,)):
        part = getattr(block, field)
        if chosen is not None:
            part = part[chosen[np.searchsorted(chosen, start) : np.searchsorted(chosen, start + block.n)] - start]
        rows[filled : filled + len(part)] = part
        start, filled = start + block.n, filled + len(part)
    return rows


@final
@dataclass
class FeatureMean(Accumulator):
    """Number of rows and their mean, without labels; ``normalize``: of the rows scaled to length one."""

    normalize: bool = False

    reads: ClassVar[tuple[str, ...]] = ("features",)
    merge: ClassVar[Merge] = {"n": total, "sum": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        rows = unit_rows(block.features) if self.normalize else block.features
        return {"n": block.n, "sum": rows.sum(axis=0, dtype=np.float64)}

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean feature, shape (D,)."""
        mean: NDArray[np.float64] = self.sum / self.n
        return mean


@final
@dataclass
class ClassMoments(Statistic):
    """Count, mean and pooled within-class scatter of the features, by label.

    Rows are centered on the first row seen of their class before they are multiplied: the scatter then has no
    cancellation however far the classes lie from the origin. All is computed in float64, on one BLAS thread: sums of
    float32 products depend on the number of threads and on the order of the rows by as much as a score may tell.

    Outputs without labels count as one class. The global mean and the total scatter are the same either way, so a
    score that reads only these asks for this statistic too and shares it with those that need the classes.
    ``normalize``: rows are scaled to length one first.
    """

    normalize: bool = False

    reads: ClassVar[tuple[str, ...]] = ("features", "labels")

    def begin(self, train: Outputs) -> None:
        self.make_room(train.n_classes or 1, train.features.shape[1])

    def make_room(self, classes: int, width: int) -> None:
        self.counts = np.zeros(classes)
        self._anchors = np.zeros((classes, width))
        self._sums = np.zeros((classes, width))  # of rows minus their class anchor
        self._scatter = np.zeros((width, width))  # about the anchors

    @classmethod
    def of_rows(cls, parts: Iterable[NDArray[Any]]) -> Self:
        """Moments of plain rows, given in parts, as one class."""
        moments = cls()
        for rows in parts:
            if not hasattr(moments, "counts"):
                moments.make_room(1, rows.shape[1])
            moments.add_rows(rows, np.zeros(len(rows), dtype=np.intp))
        return moments

    def update(self, block: Outputs) -> None:
        self.add_rows(block.features, block.labels if block.has("labels") else np.zeros(block.n, dtype=np.intp))

    def add_rows(self, rows: NDArray[Any], labels: NDArray[np.intp]) -> None:
        rows = rows.astype(np.float64, copy=False)
        if self.normalize:
            rows = unit_rows(rows)
        seen, first = np.unique(labels, return_index=True)
        new = self.counts[seen] == 0
        self._anchors[seen[new]] = rows[first[new]]
        centered = self._anchors[labels]
        np.subtract(rows, centered, out=centered)  # in place: new memory takes longer than the difference
        self.counts += np.bincount(labels, minlength=self.counts.size)
        self._sums += class_sums(centered, labels, self.counts.size)
        self._scatter += self_product(centered)

    def __add__(self, other: Self) -> Self:
        check_same("shape to be added", one=self._sums.shape, other=other._sums.shape)
        both = replace(self)
        both.counts = self.counts + other.counts
        both._anchors = np.where((self.counts > 0)[:, None], self._anchors, other._anchors)
        # The rows of ``other`` lie ``gap`` further from these anchors.
        gap = np.where((other.counts > 0)[:, None], other._anchors - both._anchors, 0)
        moved = gap * other.counts[:, None]
        both._sums = self._sums + other._sums + moved
        cross = gap.T @ (other._sums + moved / 2)
        both._scatter = self._scatter + other._scatter + cross + cross.T
        return both

    @property
    def n(self) -> float:
        return float(self.counts.sum())

    @property
    def means(self) -> NDArray[np.float64]:
        """Class means (C, D); rows of empty classes are zero."""
        shift: NDArray[np.float64] = self._sums / np.maximum(self.counts, 1)[:, None]
        return self._anchors + shift

    @property
    def global_mean(self) -> NDArray[np.float64]:
        """Mean of all rows (D,). A column that never varies keeps its value to the last digit, so it has no scatter."""
        means = self.means
        some = means[np.argmax(self.counts)]
        mean: NDArray[np.float64] = some + self.counts @ (means - some) / self.n
        return mean

    @property
    def within_scatter(self) -> NDArray[np.float64]:
        """Sum over rows of (h - mu_c)(h - mu_c)^T, shape (D, D)."""
        shift = self._sums / np.sqrt(np.maximum(self.counts, 1))[:, None]
        scatter: NDArray[np.float64] = self._scatter - shift.T @ shift
        return (scatter + scatter.T) / 2

    @property
    def total_scatter(self) -> NDArray[np.float64]:
        """Sum over rows of (h - mu)(h - mu)^T, shape (D, D)."""
        between = (self.means - self.global_mean) * np.sqrt(self.counts)[:, None]
        scatter: NDArray[np.float64] = self.within_scatter + between.T @ between
        return scatter

    def demand_every_class(self, who: str) -> None:
        """Raise InputError if a class has no row."""
        demand_every_class(self.counts, who)


def demand_every_class(counts: NDArray[Any], who: str) -> None:
    """Raise InputError if a class has no row."""
    if (empty := np.flatnonzero(counts == 0)).size:
        raise InputError(f"labels has no sample of class {empty[0]}, and {who} needs every class. "
                         "Add training samples of it, or renumber the classes without it.")  # fmt: skip


def class_totals(rows: NDArray[Any], labels: NDArray[np.intp], n_classes: int) -> dict[str, NDArray[np.float64]]:
    """Number of rows of each class (C,) and their sum (C, D), in float64."""
    counts = np.bincount(labels, minlength=n_classes).astype(np.float64)
    return {"counts": counts, "sums": class_sums(rows.astype(np.float64, copy=False), labels, n_classes)}


def class_sums(rows: NDArray[Any], labels: NDArray[np.intp], n_classes: int) -> NDArray[Any]:
    """Sum of the rows of each class, shape (C, D), as a sparse product: one read of ``rows``."""
    n = labels.size
    if n * n_classes <= _FEW:  # to make a sparse matrix takes longer than this whole product
        return np.asarray((np.arange(n_classes)[:, None] == labels).astype(rows.dtype) @ rows)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_classes))])
    indicator = csr_array((np.ones(n, dtype=rows.dtype), order, starts), shape=(n_classes, n))
    sums: NDArray[Any] = indicator @ rows
    return sums


def unit_rows(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows scaled to length one; zero rows stay zero. float16 becomes float32: it cannot hold the square of 256."""
    rows = widened(rows)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: NDArray[Any] = rows / np.where(norms > 0, norms, 1)
    return scaled
