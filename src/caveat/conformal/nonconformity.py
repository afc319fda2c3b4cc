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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count, as_number
from caveat.conformal._ranked import label_ranks, mass_below_top, prefix_members, ranked_of_all, ranked_of_labels

__all__ = ["APS", "LAC", "NONCONFORMITY", "RAPS", "SAPS", "Margin", "Nonconformity", "TopK"]

Array = NDArray[Any]


class Nonconformity(ABC):
    """Maps probabilities (n, C) to the nonconformity of labels.

    ``u``, shape (n,), is the randomisation of each object; a score that uses none ignores it.
    """

    name: ClassVar[str]
    randomised: ClassVar[bool] = False  # whether u matters
    less: float = 0.0  # subtracted from the score

    @property
    def fine(self) -> Nonconformity:
        """The same score, less a number around which it would be rounded: the order that ``SplitSets`` goes by."""
        return self

    @abstractmethod
    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Nonconformity of one label per row, shape (n,)."""

    @abstractmethod
    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """Nonconformity of every label, shape (n, C)."""

    @abstractmethod
    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        """``of_all(probs, u) <= threshold[:, None]``, by the shortest way. ``threshold`` has shape (n,)."""


@final
@dataclass(frozen=True)
class LAC(Nonconformity):
    """One minus the probability of the label: the smallest sets on average."""

    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "lac"

    @property
    def fine(self) -> LAC:
        return replace(self, less=1.0)

    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        own = np.take_along_axis(probs, labels[:, None], axis=1)[:, 0]
        return np.asarray(np.subtract(1 - self.less, own, dtype=np.float64))

    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.subtract(1 - self.less, probs, dtype=np.float64)

    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        if (threshold == threshold[0]).all():
            return np.asarray(probs >= probs.dtype.type(self._least(float(threshold[0]), probs.dtype)))
        levels, where = np.unique(threshold, return_inverse=True)
        cuts = np.array([self._least(float(level), probs.dtype) for level in levels], dtype=probs.dtype)
        return np.asarray(probs >= cuts[where][:, None])

    def _least(self, threshold: float, dtype: np.dtype[Any]) -> float:
        return _least_probability(1 - self.less, threshold, dtype)


@lru_cache(maxsize=4096)  # asked again for every block of rows
def _least_probability(start: float, threshold: float, dtype: np.dtype[Any]) -> float:
    """The smallest p of the float type with start - p <= threshold, so that one comparison in that type decides."""
    if threshold >= start:
        return -np.inf
    if threshold < start - 1:
        return np.inf
    whole = np.dtype(f"i{dtype.itemsize}")
    low, high = 0, int(np.ones(1, dtype).view(whole)[0])  # positive floats are ordered as their bits
    while low < high:
        middle = (low + high) // 2
        p = np.array([middle], dtype=whole).view(dtype)[0]
        if start - np.float64(p) <= threshold:
            high = middle
        else:
            low = middle + 1
    return float(np.array([low], dtype=whole).view(dtype)[0])


@final
@dataclass(frozen=True)
class Margin(Nonconformity):
    """How far the best other label is ahead of the label."""

    name: ClassVar[str] = "margin"

    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.take_along_axis(self.of_all(probs, u), labels[:, None], axis=1)[:, 0]

    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        if probs.shape[1] == 1:
            return np.asarray(-probs.astype(np.float64))  # no other label: nothing is ahead
        best_two = np.partition(probs, -2, axis=1)[:, -2:].astype(np.float64)
        found = best_two[:, 1:] - probs
        top = np.argmax(probs, axis=1)
        found[np.arange(top.size), top] = best_two[:, 0] - best_two[:, 1]
        return np.asarray(found)

    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.asarray(self.of_all(probs, u) <= threshold[:, None])


@final
@dataclass(frozen=True)
class TopK(Nonconformity):
    """The rank of the label: every set has the same size."""

    name: ClassVar[str] = "topk"

    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        return label_ranks(probs, labels).astype(np.float64)

    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranked_of_all(_rank, probs, u)

    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        return prefix_members(_rank, probs, u, threshold)


@final
@dataclass(frozen=True)
class APS(Nonconformity):
    """Probability of the labels ranked above, plus a random share of the label's own."""

    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "aps"
    randomised: ClassVar[bool] = True

    @property
    def fine(self) -> APS:
        return replace(self, less=1.0)

    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranked_of_labels(self._ranked, probs, labels, u)

    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranked_of_all(self._ranked, probs, u)

    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        return prefix_members(self._ranked, probs, u, threshold)

    def _ranked(self, p: Array, below: Array, rank: Array, u: Array) -> Array:
        return _mass(p, below, u, self.less)


@final
@dataclass(frozen=True)
class RAPS(Nonconformity):
    """APS with a penalty on every rank past ``k_reg``, which cuts off the long tail.

    Parameters
    ----------
    penalty
        Lambda in the formula; ``tune_raps`` chooses it on a tuning split.
    k_reg
        Ranks up to this one are free.
    """

    penalty: float = 0.01
    k_reg: int = 5
    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "raps"
    randomised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", as_number(self.penalty, "penalty", least=0))
        as_count(self.k_reg, "k_reg", least=0)

    @property
    def fine(self) -> RAPS:
        return replace(self, less=1.0)

    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranked_of_labels(self._ranked, probs, labels, u)

    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranked_of_all(self._ranked, probs, u)

    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        return prefix_members(self._ranked, probs, u, threshold)

    def _ranked(self, p: Array, below: Array, rank: Array, u: Array) -> Array:
        return np.asarray(_mass(p, below, u, self.less) + self.penalty * np.maximum(0, rank - self.k_reg))


@final
@dataclass(frozen=True)
class SAPS(Nonconformity):
    """Only the largest probability and the rank count: the long tail of small probabilities is noise.

    Parameters
    ----------
    weight
        w in the formula, the price of a rank; ``tune_saps`` chooses it on a tuning split.
    """

    weight: float = 0.2
    less: float = field(default=0.0, kw_only=True, repr=False)

    name: ClassVar[str] = "saps"
    randomised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", as_number(self.weight, "weight", least=0))

    @property
    def fine(self) -> SAPS:
        return replace(self, less=1.0)

    def of_labels(self, probs: Array, labels: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        ranks = label_ranks(probs, labels)
        return self._ranked(probs, probs, ranks, self._rows(probs, u))  # no probability of the label is looked at

    def of_all(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return ranked_of_all(self._ranked, probs, self._rows(probs, u))

    def within(self, probs: Array, u: NDArray[np.float64], threshold: NDArray[np.float64]) -> NDArray[np.bool_]:
        return prefix_members(self._ranked, probs, self._rows(probs, u), threshold)

    def _rows(self, probs: Array, u: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([mass_below_top(probs), u], axis=1)

    def _ranked(self, p: Array, below: Array, rank: Array, row: Array) -> Array:
        start, left, u = 1 - self.less, row[..., 0], row[..., 1]  # p_max = 1 - left
        return np.where(rank == 1, start - ((1 - u) + u * left), start - left + (rank - 2 + u) * self.weight)


def _mass(p: Array, below: Array, u: Array, less: float) -> Array:
    """The mass up to a label and a share u of its own, less a number."""
    return np.asarray((1 - less) - (below + (1 - u) * p))


def _rank(p: Array, below: Array, rank: Array, u: Array) -> Array:
    return np.broadcast_to(rank, np.broadcast_shapes(p.shape, rank.shape)).astype(np.float64)


NONCONFORMITY: Mapping[str, type[Nonconformity]] = MappingProxyType(
    {kind.name: kind for kind in (LAC, APS, RAPS, SAPS, TopK, Margin)}
)
