r"""Nonconformity of a label: how ill y fits x, from the probabilities p of all labels. The larger, the stranger.

With o(y) the rank of y (1 = most probable; ties by label number) and u ~ U(0, 1) per object, or u = 1:

- ``lac``     $1 - p_y$ (Sadinle, Lei and Wasserman, JASA 114, 2019)
- ``aps``     $\sum_{o(y') < o(y)} p_{y'} + u\,p_y$ (Romano, Sesia and Candes, NeurIPS 2020)
- ``raps``    aps $+ \lambda \max(0, o(y) - k_{reg})$ (Angelopoulos, Bates, Jordan and Malik, ICLR 2021)
- ``saps``    $u\,p_{max}$ if o(y) = 1, else $p_{max} + (o(y) - 2 + u)\,w$ (Huang et al., ICML 2024)
- ``topk``    $o(y)$
- ``margin``  $\max_{y' \ne y} p_{y'} - p_y$

Every score is computed by the same floating-point steps at calibration and at test, so that a test point equal to a
calibration point gets the equal score. The mass up to y is taken as 1 minus the mass that remains: without u a sure
model scores 1 - 1e-9 or 1 - 1e-20, which rounding ties; so does ``lac`` where it is sure and wrong. Less 1 (``fine``)
such scores stay apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import (
    as_labels,
    as_matrix,
    as_shares,
    as_vector,
    check_probabilities,
    same_length,
)
from caveat._internal.params import check_params, count, number
from caveat.conformal._ranked import label_ranks, mass_below_top, prefix_members, ranked_of_all, ranked_of_labels

__all__ = ["APS", "LAC", "NONCONFORMITY", "RAPS", "SAPS", "Margin", "Nonconformity", "TopK"]

Array = NDArray[Any]
Floats = NDArray[np.float64]


class Nonconformity(ABC):
    """Maps probabilities (n, C) to the nonconformity of labels. A subclass is its formula, ``_of_all``.

    ``u``, shape (n,), is the randomization of each object; a score that uses none ignores it.

    Examples
    --------
    >>> class Square(Nonconformity):
    ...     name = "square"
    ...     def _of_all(self, probs, u):
    ...         return (1 - probs) ** 2
    >>> Square().of_labels(np.array([[0.7, 0.2, 0.1]]), np.array([1]), u=np.ones(1)).round(3)
    array([0.64])
    """

    name: ClassVar[str]
    randomized: ClassVar[bool] = False  # whether u matters
    near_one: ClassVar[bool] = False  # whether scores of a sure model crowd around 1, where rounding ties them
    less: float = 0.0  # subtracted from the score

    @property
    def fine(self) -> Self:
        """The same score, less a number around which it would be rounded: the order that ``SplitSets`` goes by."""
        if not self.near_one:
            return self
        rule = copy(self)
        object.__setattr__(rule, "less", 1.0)
        return rule

    def of_all(self, probs: ArrayLike, u: ArrayLike) -> Floats:
        """Nonconformity of every label, shape (n, C).

        Parameters
        ----------
        probs
            Probabilities, shape (n, C).
        u
            Randomization of each object, shape (n,), between 0 and 1.

        Returns
        -------
        array of shape (n, C)
            The larger, the stranger.
        """
        return self._of_all(*_checked(probs, u))

    def of_labels(self, probs: ArrayLike, labels: ArrayLike, u: ArrayLike) -> Floats:
        """Nonconformity of one label per row, shape (n,).

        Parameters
        ----------
        probs
            Probabilities, shape (n, C).
        labels
            One label per row, shape (n,).
        u
            Randomization of each object, shape (n,), between 0 and 1.

        Returns
        -------
        array of shape (n,)
            The larger, the stranger.
        """
        probs, u = _checked(probs, u)
        numbers = as_labels(labels, "labels", n_classes=probs.shape[1])
        same_length(probs=probs, labels=numbers)
        return self._of_labels(probs, numbers, u)

    def within(self, probs: ArrayLike, u: ArrayLike, threshold: ArrayLike) -> NDArray[np.bool_]:
        """Which labels are at or below a threshold: ``of_all(probs, u) <= threshold[:, None]``, by the shortest way.

        Parameters
        ----------
        probs
            Probabilities, shape (n, C).
        u
            Randomization of each object, shape (n,), between 0 and 1.
        threshold
            Largest nonconformity in the set of each object, shape (n,).

        Returns
        -------
        boolean array of shape (n, C)
            The prediction sets.
        """
        probs, u = _checked(probs, u)
        ends = as_vector(threshold, "threshold", allow_infinite=True)
        same_length(probs=probs, threshold=ends)
        return self._within(probs, u, ends)

    # The formulas, for values that were checked before.

    @abstractmethod
    def _of_all(self, probs: Array, u: Floats) -> Floats: ...

    def _of_labels(self, probs: Array, labels: NDArray[np.intp], u: Floats) -> Floats:
        return np.take_along_axis(self._of_all(probs, u), labels[:, None], axis=1)[:, 0]

    def _within(self, probs: Array, u: Floats, threshold: Floats) -> NDArray[np.bool_]:
        return np.asarray(self._of_all(probs, u) <= threshold[:, None])


def _checked(probs: ArrayLike, u: ArrayLike) -> tuple[Array, Floats]:
    matrix, shares = as_matrix(probs, "probs"), as_shares(u, "u")
    check_probabilities(matrix, "probs")
    same_length(probs=matrix, u=shares)
    return matrix, shares


@final
@dataclass(frozen=True)
class LAC(Nonconformity):
    """One minus the probability of the label: the smallest sets on average.

    Parameters
    ----------
    less
        Number subtracted from the score (see ``fine``).

    Examples
    --------
    >>> probs = np.array([[0.7, 0.2, 0.1]])
    >>> LAC().of_all(probs, u=np.ones(1)).round(3)
    array([[0.3, 0.8, 0.9]])
    """

    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "lac"
    near_one: ClassVar[bool] = True

    def _of_labels(self, probs: Array, labels: NDArray[np.intp], u: Floats) -> Floats:
        own = np.take_along_axis(probs, labels[:, None], axis=1)[:, 0]
        return np.asarray(np.subtract(1 - self.less, own, dtype=np.float64))

    def _of_all(self, probs: Array, u: Floats) -> Floats:
        return np.subtract(1 - self.less, probs, dtype=np.float64)

    def _within(self, probs: Array, u: Floats, threshold: Floats) -> NDArray[np.bool_]:
        if (threshold == threshold[0]).all():
            return np.asarray(probs >= self._cut(float(threshold[0]), probs.dtype))
        levels, where = np.unique(threshold, return_inverse=True)
        cuts = np.array([self._cut(float(level), probs.dtype) for level in levels])
        return np.asarray(probs >= cuts[where][:, None])

    def _cut(self, threshold: float, dtype: np.dtype[Any]) -> Any:
        return dtype.type(_least_probability(1 - self.less, threshold, dtype))


@lru_cache(maxsize=4096)  # asked again for every block of rows
def _least_probability(start: float, threshold: float, dtype: np.dtype[Any]) -> float:
    """The smallest p of the float type with start - p <= threshold, so that one comparison in that type decides."""
    if threshold >= start:
        return -np.inf
    if threshold < start - 1:
        return np.inf
    whole = np.dtype(f"i{dtype.itemsize}")  # positive floats are ordered as their bits

    def number(bits: int) -> float:
        return float(np.array([bits], dtype=whole).view(dtype)[0])

    bits_of_one = int(np.ones(1, dtype).view(whole)[0])
    return number(bisect_left(range(bits_of_one), True, key=lambda bits: start - number(bits) <= threshold))


@final
@dataclass(frozen=True)
class Margin(Nonconformity):
    """How far the best other label is ahead of the label.

    Examples
    --------
    >>> Margin().of_all(np.array([[0.7, 0.2, 0.1]]), u=np.ones(1)).round(3)
    array([[-0.5,  0.5,  0.6]])
    """

    name: ClassVar[str] = "margin"

    def _of_all(self, probs: Array, u: Floats) -> Floats:
        if probs.shape[1] == 1:
            return np.asarray(-probs.astype(np.float64))  # no other label: nothing is ahead
        best_two = np.partition(probs, -2, axis=1)[:, -2:].astype(np.float64)
        margins = best_two[:, 1:] - probs
        top = np.argmax(probs, axis=1)
        margins[np.arange(top.size), top] = best_two[:, 0] - best_two[:, 1]
        return np.asarray(margins)


class Ranked(Nonconformity):
    """A score of the rank of a label and of the probabilities around it. A subclass is its formula (``_ranked``)."""

    def _of_labels(self, probs: Array, labels: NDArray[np.intp], u: Floats) -> Floats:
        return ranked_of_labels(self._ranked, probs, labels, self._rows(probs, u))

    def _of_all(self, probs: Array, u: Floats) -> Floats:
        return ranked_of_all(self._ranked, probs, self._rows(probs, u))

    def _within(self, probs: Array, u: Floats, threshold: Floats) -> NDArray[np.bool_]:
        return prefix_members(self._ranked, probs, self._rows(probs, u), threshold)

    def _rows(self, probs: Array, u: Floats) -> Floats:
        """What the formula needs to know of each row."""
        return u

    @abstractmethod
    def _ranked(self, p: Array, below: Array, rank: Array, row: Array) -> Array: ...


@final
@dataclass(frozen=True)
class TopK(Ranked):
    """The rank of the label: every set has the same size.

    Examples
    --------
    >>> TopK().of_all(np.array([[0.2, 0.7, 0.1]]), u=np.ones(1))
    array([[2., 1., 3.]])
    """

    name: ClassVar[str] = "topk"

    def _of_labels(self, probs: Array, labels: NDArray[np.intp], u: Floats) -> Floats:
        return label_ranks(probs, labels).astype(np.float64)

    def _ranked(self, p: Array, below: Array, rank: Array, row: Array) -> Array:
        return np.broadcast_to(rank, np.broadcast_shapes(p.shape, rank.shape)).astype(np.float64)


@final
@dataclass(frozen=True)
class APS(Ranked):
    """Probability of the labels ranked above, plus a random share of the label's own.

    Parameters
    ----------
    less
        Number subtracted from the score (see ``fine``).

    Examples
    --------
    >>> probs = np.array([[0.7, 0.2, 0.1]])
    >>> APS().of_all(probs, u=np.array([0.5])).round(3)
    array([[0.35, 0.8 , 0.95]])
    """

    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "aps"
    randomized: ClassVar[bool] = True
    near_one: ClassVar[bool] = True

    def _ranked(self, p: Array, below: Array, rank: Array, row: Array) -> Array:
        return _mass(p, below, row, self.less)


@final
@dataclass(frozen=True)
class RAPS(Ranked):
    """APS with a penalty on every rank past ``k_reg``, which cuts off the long tail.

    Parameters
    ----------
    penalty
        Lambda in the formula; ``tune_raps`` chooses it on a tuning split.
    k_reg
        Ranks up to this one are free.
    less
        Number subtracted from the score (see ``fine``).

    Examples
    --------
    >>> probs = np.array([[0.7, 0.2, 0.1]])
    >>> RAPS(penalty=0.1, k_reg=1).of_all(probs, u=np.array([0.5])).round(3)
    array([[0.35, 0.9 , 1.15]])
    """

    penalty: float = number(0.01, least=0)
    k_reg: int = count(5, least=0)
    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "raps"
    randomized: ClassVar[bool] = True
    near_one: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_params(self)

    def _ranked(self, p: Array, below: Array, rank: Array, row: Array) -> Array:
        return np.asarray(_mass(p, below, row, self.less) + self.penalty * np.maximum(0, rank - self.k_reg))


@final
@dataclass(frozen=True)
class SAPS(Ranked):
    """Only the largest probability and the rank count: the long tail of small probabilities is noise.

    Parameters
    ----------
    weight
        w in the formula, the price of a rank; ``tune_saps`` chooses it on a tuning split.
    less
        Number subtracted from the score (see ``fine``).

    Examples
    --------
    >>> probs = np.array([[0.7, 0.2, 0.1]])
    >>> SAPS(weight=0.2).of_all(probs, u=np.array([0.5])).round(3)
    array([[0.35, 0.8 , 1.  ]])
    """

    weight: float = number(0.2, least=0)
    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "saps"
    randomized: ClassVar[bool] = True
    near_one: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_params(self)

    def _of_labels(self, probs: Array, labels: NDArray[np.intp], u: Floats) -> Floats:
        ranks = label_ranks(probs, labels)
        return self._ranked(probs, probs, ranks, self._rows(probs, u))  # the label's own probability does not count

    def _rows(self, probs: Array, u: Floats) -> Floats:
        return np.stack([mass_below_top(probs), u], axis=1)

    def _ranked(self, p: Array, below: Array, rank: Array, row: Array) -> Array:
        start, left, u = 1 - self.less, row[..., 0], row[..., 1]  # p_max = 1 - left
        return np.where(rank == 1, start - ((1 - u) + u * left), start - left + (rank - 2 + u) * self.weight)


def _mass(p: Array, below: Array, u: Array, less: float) -> Array:
    """The mass up to a label and a share u of its own, less a number."""
    return np.asarray((1 - less) - (below + (1 - u) * p))


NONCONFORMITY: Mapping[str, type[Nonconformity]] = MappingProxyType(
    {kind.name: kind for kind in (LAC, APS, RAPS, SAPS, TopK, Margin)}
)
