"""Prediction sets: which labels are still possible for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from caveat._internal.checks import same_length
from caveat._internal.classes import read_classes
from caveat._internal.html import small_table

__all__ = ["PredictionSets", "promise_ending", "stack_rows"]


@final
@dataclass(frozen=True, eq=False)
class PredictionSets:
    """Which labels are still possible for each sample.

    Parameters
    ----------
    member
        Boolean (n, C): label c is in the set of sample i. A matrix, or ``scipy.sparse.csr_array`` for many classes.
    alpha
        The allowed error that was asked for.
    level
        The coverage that is promised: at least 1 - alpha, over calibration set and test point together.
    caveat
        A warning in one sentence, or empty.
    delta
        None, or the chance over calibration sets that the promise fails (PAC).
    class_names
        Names of the classes, in the order of the columns; None where classes have numbers alone.

    Examples
    --------
    >>> sets = PredictionSets(np.array([[True, False, True], [False, True, False]]), alpha=0.1, level=0.9)
    >>> print(sets)
    2 prediction sets over 3 classes: mean size 1.50, 1 single, 0 empty; coverage promised 0.900
    >>> sets.labels(0), sets.sizes, sets.coverage([2, 0])
    (array([0, 2]), array([2, 1]), 0.5)
    >>> named = PredictionSets(np.array([[True, True]]), alpha=0.1, level=0.9, class_names=("cat", "dog"))
    >>> named.names(0), named.coverage(["dog"])
    (['cat', 'dog'], 1.0)
    """

    member: Any
    alpha: float
    level: float
    caveat: str = ""
    delta: float | None = None
    class_names: tuple[str, ...] | None = None

    @property
    def n(self) -> int:
        return int(self.member.shape[0])

    def __len__(self) -> int:
        return self.n

    @property
    def n_classes(self) -> int:
        return int(self.member.shape[1])

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How many labels each set holds."""
        if isinstance(self.member, csr_array):
            return np.asarray(np.diff(self.member.indptr), dtype=np.intp)
        return np.asarray(np.count_nonzero(self.member, axis=1))

    def labels(self, i: int) -> NDArray[np.intp]:
        """The labels in the set of sample i.

        Parameters
        ----------
        i
            Number of the sample.

        Returns
        -------
        integer array
            The labels.
        """
        if isinstance(self.member, csr_array):
            i = range(self.n)[i]
            return np.asarray(self.member.indices[self.member.indptr[i] : self.member.indptr[i + 1]], dtype=np.intp)
        return np.flatnonzero(self.member[i])

    def names(self, i: int) -> list[str]:
        """The names of the classes in the set of sample i; their numbers as text where they have no names.

        Parameters
        ----------
        i
            Number of the sample.

        Returns
        -------
        list of str
            The names.
        """
        return [str(c) if self.class_names is None else self.class_names[c] for c in self.labels(i).tolist()]

    def to_csr(self) -> csr_array:
        """The sets as a sparse boolean matrix."""
        return self.member if isinstance(self.member, csr_array) else csr_array(self.member)

    def to_dense(self) -> NDArray[np.bool_]:
        """The sets as a boolean matrix (n, C)."""
        return np.asarray(self.member.toarray() if isinstance(self.member, csr_array) else self.member)

    def covers(self, labels: ArrayLike) -> NDArray[np.bool_]:
        """Whether each true label is in its set.

        Parameters
        ----------
        labels
            True labels, shape (n,): class numbers or class names.

        Returns
        -------
        boolean array of shape (n,)
            True where covered.
        """
        true = self._checked(labels)
        if not isinstance(self.member, csr_array):
            return np.asarray(self.member[np.arange(self.n), true])
        held = self.member.indices == np.repeat(true, self.sizes)
        return np.bincount(np.repeat(np.arange(self.n), self.sizes)[held], minlength=self.n) > 0

    def coverage(self, labels: ArrayLike) -> float:
        """Share of samples whose true label is in the set.

        Parameters
        ----------
        labels
            True labels, shape (n,).

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(self.covers(labels).mean())

    def class_coverage(self, labels: ArrayLike) -> NDArray[np.float64]:
        """Coverage among the samples of each class.

        Parameters
        ----------
        labels
            True labels, shape (n,).

        Returns
        -------
        array of shape (C,)
            NaN for a class without samples.
        """
        true, held = self._checked(labels), self.covers(labels)
        counts = np.bincount(true, minlength=self.n_classes)
        hits = np.bincount(true, weights=held, minlength=self.n_classes)
        return np.asarray(np.divide(hits, counts, out=np.full(self.n_classes, np.nan), where=counts > 0))

    def _checked(self, labels: ArrayLike) -> NDArray[np.intp]:
        true = read_classes({"labels": labels}, self.class_names, self.n_classes)[0]["labels"]
        same_length(sets=self, labels=true)
        return true

    def _repr_html_(self) -> str:
        sizes = self.sizes
        values, counts = np.unique(sizes, return_counts=True)
        rows = [(f"size {size}", f"{count} ({100 * count / self.n:.1f} %)")
                for size, count in zip(values[:12], counts[:12], strict=True)]  # fmt: skip
        note = f"Mean size {sizes.mean():.2f}; coverage promised {self.level:.3f}. {self.caveat}".strip()
        return small_table(f"{self.n} prediction sets, {self.n_classes} classes", rows, note=note)

    def __str__(self) -> str:
        sizes = self.sizes
        text = (
            f"{self.n} prediction sets over {self.n_classes} classes: mean size {sizes.mean():.2f}, "
            f"{(sizes == 1).sum()} single, {(sizes == 0).sum()} empty; coverage promised {self.level:.3f}"
        )
        return text + promise_ending(self.delta, self.caveat)


def promise_ending(delta: float | None, caveat: str) -> str:
    """How the sentence about sets or intervals ends: the confidence, if any, and the caveat."""
    return ("" if delta is None else f" with confidence {1 - delta:g}") + (f". {caveat}" if caveat else "")


def stack_rows(parts: Sequence[NDArray[np.bool_]], *, sparse: bool) -> Any:
    """Row blocks of memberships as one boolean matrix, or as one CSR matrix without a dense copy."""
    if not sparse:
        return np.concatenate(parts)
    rows = [csr_array(part) for part in parts]
    starts = np.cumsum([0, *(part.nnz for part in rows)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + s for part, s in zip(rows, starts[:-1], strict=True))])
    indices = np.concatenate([part.indices for part in rows])
    shape = (indptr.size - 1, parts[0].shape[1])
    return csr_array((np.ones(indices.size, dtype=np.bool_), indices, indptr), shape=shape)
