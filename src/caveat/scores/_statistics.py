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
    """Fill every wanted statistic in ONE walk over the row blocks of ``train``; equal recipes are filled once."""
    filled = {statistic.recipe: replace(statistic) for statistic in wanted}
    if not filled:
        return Gathered()
    for statistic in filled.values():
        statistic.begin(train)
    for block in train.blocks({field for statistic in filled.values() for field in statistic.reads}):
        for statistic in filled.values():
            statistic.update(block)
    return Gathered(filled.values())


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
    cancellation however far the classes lie from the origin, and the block product may stay in float32. Not so with too
    few rows to fill the space: a ridge then stands in for the variances that are zero, and the rounding of float32 is
    nearly as large as the ridge. There the product is taken in float64, which costs little for so few rows.

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
        if self.n + len(rows) <= sum(self._sums.shape):  # classes + features: so far the scatter must be singular
            rows = rows.astype(np.float64, copy=False)
        if self.normalize:
            rows = unit_rows(rows)
        seen, first = np.unique(labels, return_index=True)
        new = self.counts[seen] == 0
        self._anchors[seen[new]] = rows[first[new]]
        centered = self._anchors.astype(rows.dtype)[labels]
        np.subtract(rows, centered, out=centered)  # in place: new memory takes longer than the difference
        self.counts += np.bincount(labels, minlength=self.counts.size)
        self._sums += class_sums(centered, labels, self.counts.size)
        self._scatter += centered.T @ centered

    def __add__(self, other: Self) -> Self:
        check_same("shape to be added", one=self._sums.shape, other=other._sums.shape)
        both = replace(self)
        both.counts = self.counts + other.counts
        size = np.maximum(both.counts, 1)
        gap = self.means - other.means
        mean = self.means - gap * (other.counts / size)[:, None]
        weight = self.counts * other.counts / size
        both._anchors, both._sums = mean, np.zeros_like(mean)
        both._scatter = self.within_scatter + other.within_scatter + (gap * weight[:, None]).T @ gap
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
    return {"counts": counts, "sums": class_sums(rows, labels, n_classes).astype(np.float64)}


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
