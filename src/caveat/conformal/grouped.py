r"""Calibration scores sorted within groups: the one routine behind every conformal p-value and threshold.

$$ p = \frac{\#\{i \in g : a_i > a\} + \tau\,(1 + \#\{i \in g : a_i = a\})}{n_g + 1} $$

One group: marginal. The group is the label: label-conditional (Vovk et al. 2016, eq. 42). The group is a function of
the object: Mondrian (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", Springer 2005, section 4.5).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_array
from caveat.errors import InputError

__all__ = ["GroupedScores", "as_groups", "count_above", "count_at_least"]


def as_groups(value: ArrayLike, name: str, n: int) -> NDArray[Any]:
    """One group name per row: whole numbers, booleans or strings."""
    groups = as_array(value, name)
    if groups.shape != (n,):
        raise InputError(f"{name} must name one group per row ({n}), got shape {groups.shape}.")
    if groups.dtype == object and all(isinstance(group, str) for group in groups):  # as a pandas column gives them
        groups = groups.astype(np.str_)
    if groups.dtype.kind not in "biuUS":
        raise InputError(f"{name} must be whole numbers or strings, got dtype {groups.dtype}. Bin real values first.")
    return groups


@final
@dataclass(frozen=True, eq=False)
class GroupedScores:
    """Nonconformity of a calibration sample, ascending within each group; one group is sorted when that is needed.

    Examples
    --------
    >>> calibration = GroupedScores.of(np.array([3.0, 1.0, 9.0]), np.array(["a", "a", "b"]))
    >>> calibration.p_values(np.array([2.0, 2.0]), calibration.find(np.array(["a", "b"])))
    array([0.66666667, 1.        ])
    """

    names: NDArray[Any]  # the groups (G,), ascending
    starts: NDArray[np.intp]  # where each group begins in scores (G + 1,)
    held: NDArray[np.float64]  # (n,)
    ascending: bool = True  # False: ``held`` is one group, not sorted yet
    own: bool = False  # no one else holds ``held``: its order may change

    @classmethod
    def of(
        cls, scores: NDArray[np.float64], groups: NDArray[Any] | None = None, names: NDArray[Any] | None = None,
        *, own: bool = False,
    ) -> GroupedScores:  # fmt: skip
        """Sort once. ``names`` fixes the groups where some of them may have no score; ``own``: no copy is needed."""
        if groups is None:
            return cls(np.zeros(1, dtype=np.intp), np.array([0, scores.size]), scores, ascending=False, own=own)
        names, number = np.unique(groups, return_inverse=True) if names is None else (names, _find(names, groups))
        order = np.lexsort((scores, number))
        counts = np.bincount(number, minlength=names.size)
        return cls(names, np.concatenate([[0], np.cumsum(counts)]), scores[order])

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores, ascending within each group, shape (n,)."""
        if not self.ascending:
            object.__setattr__(self, "held", np.sort(self.held))
            object.__setattr__(self, "ascending", True)
        return self.held

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How many scores each group has, shape (G,)."""
        return np.diff(self.starts)

    def of_group(self, g: int) -> NDArray[np.float64]:
        """The sorted scores of the g-th group."""
        return self.scores[self.starts[g] : self.starts[g + 1]]

    def find(self, groups: NDArray[Any]) -> NDArray[np.intp]:
        """The number of each named group; -1 where calibration never saw it."""
        return _find(self.names, groups)

    def thresholds(self, rank: Callable[[int], int]) -> NDArray[np.float64]:
        """The rank(n)-th smallest score of each group of n; ``inf`` where that is more than n."""
        thresholds = np.full(self.names.size, math.inf)
        for g, n in enumerate(self.sizes):
            k = rank(int(n))
            if k <= n:
                thresholds[g] = self.of_group(g)[k - 1] if self.ascending else self._selected(k - 1)
        return thresholds

    def _selected(self, place: int) -> np.float64:
        """The score at one place of the ascending order: that needs no sort."""
        if not self.own:
            object.__setattr__(self, "held", self.held.copy())
            object.__setattr__(self, "own", True)
        self.held.partition(place)
        score: np.float64 = self.held[place]
        return score

    def p_values(
        self, scores: NDArray[Any], group: NDArray[np.intp] | None = None, tau: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """P-values of scores (m,) or (m, C).

        ``group``: the number of the group of each row, (m,); None: one group for all. ``tau``: one number per row for
        smoothing; None: 1. A group that calibration never saw has no scores, so its p-value is tau.
        """
        if group is None:
            return _p_values(self.of_group(0), scores, tau)
        p = np.empty(scores.shape)
        order = np.argsort(group, kind="stable")  # one sort, not one look at all rows per group
        numbers, starts = np.unique(group[order], return_index=True)
        for g, rows in zip(numbers, np.split(order, starts[1:]), strict=False):
            calibration = self.of_group(int(g)) if g >= 0 else self.scores[:0]
            p[rows] = _p_values(calibration, scores[rows], None if tau is None else tau[rows])
        return p

    def column_p_values(
        self, scores: NDArray[Any], column_group: NDArray[np.intp], tau: NDArray[np.float64] | None = None
    ) -> NDArray[np.float64]:
        """P-values of scores (m, C) where column c is compared with the group numbered ``column_group[c]``."""
        columns = [_p_values(self.of_group(int(g)), scores[:, c], tau) for c, g in enumerate(column_group)]
        return np.column_stack(columns)


def count_at_least(calibration: NDArray[Any], test: NDArray[Any]) -> NDArray[np.intp]:
    """How many of the ascending calibration scores are at least as large as each test score."""
    return np.asarray(calibration.size - np.searchsorted(calibration, test, side="left"))


def count_above(calibration: NDArray[Any], test: NDArray[Any]) -> NDArray[np.intp]:
    """How many of the ascending calibration scores are larger than each test score."""
    return np.asarray(calibration.size - np.searchsorted(calibration, test, side="right"))


def _p_values(calibration: NDArray[Any], test: NDArray[Any], tau: NDArray[np.float64] | None) -> NDArray[np.float64]:
    n, at_least = calibration.size, count_at_least(calibration, test)
    if tau is None:
        return np.asarray((at_least + 1) / (n + 1))
    above = count_above(calibration, test)
    shared = tau.reshape(-1, *(1,) * (test.ndim - 1))
    return np.asarray((above + shared * (1 + at_least - above)) / (n + 1))


def _find(names: NDArray[Any], groups: NDArray[Any]) -> NDArray[np.intp]:
    place = np.minimum(np.searchsorted(names, groups), names.size - 1)
    return np.asarray(np.where(names[place] == groups, place, -1))
