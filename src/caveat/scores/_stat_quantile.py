"""Quantile of all training activations in one walk and constant memory: a mergeable statistic.

A float32 read as an integer keeps its order, so the leading bits of that integer number the bins of a histogram whose
bins are as fine, relative to the value, everywhere. Counts add without rounding: the answer depends neither on the
size of the blocks nor on the order in which parts are merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic

_DROPPED_BITS = 11  # of 23 in a float32 mantissa: bins 2^-12 wide, 2^21 of them
_BINS = 2 ** (32 - _DROPPED_BITS)
_ZERO_BIN = _BINS // 2


@final
@dataclass
class ActivationQuantiles(Statistic):
    """Every value of the features as one sample: exact up to ``exact_up_to`` values, then a histogram.

    The histogram is off by less than its bin: at most 2^-12 = 0.025 % of the value.

    Parameters
    ----------
    exact_up_to
        How many values are kept as they are.
    """

    exact_up_to: int = 2**20

    reads: ClassVar[tuple[str, ...]] = ("features",)

    def begin(self, train: Outputs) -> None:
        self.n = 0
        self._values: list[NDArray[np.float64]] = []
        self._counts: NDArray[np.int64] | None = None

    def update(self, block: Outputs) -> None:
        self.n += block.features.size
        if self._counts is None and self.n <= self.exact_up_to:
            self._values.append(block.features.astype(np.float64).ravel())
            return
        self._spill()
        self._count(block.features)

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both.n = self.n + other.n
        both._values = [*self._values, *other._values]
        both._counts = None
        counted = [part._counts for part in (self, other) if part._counts is not None]
        if counted:
            both._counts = np.sum(counted, axis=0)
        if counted or both.n > self.exact_up_to:
            both._spill()
        return both

    def quantile(self, q: float) -> float:
        """The q-quantile, linear between order statistics as in ``numpy.quantile``."""
        if self._counts is None:
            return float(np.quantile(np.concatenate(self._values), q))
        place = q * (self.n - 1)
        low = int(np.floor(place))
        below = self._order_statistic(low)
        above = self._order_statistic(min(low + 1, self.n - 1))
        return below + (place - low) * (above - below)

    def _spill(self) -> None:
        """Move the values that were kept into the histogram."""
        if self._counts is None:
            self._counts = np.zeros(_BINS, dtype=np.int64)
        for values in self._values:
            self._count(values)
        self._values = []

    def _count(self, values: NDArray[Any]) -> None:
        assert self._counts is not None
        found = np.bincount(_bin_of(values))
        self._counts[: found.size] += found

    def _order_statistic(self, rank: int) -> float:
        """The value of a rank (from 0), its bin taken as evenly filled."""
        assert self._counts is not None
        through = np.cumsum(self._counts)
        where = int(np.searchsorted(through, rank, side="right"))
        inside = rank - (int(through[where]) - int(self._counts[where]))
        low, high = _edge(where), _edge(where + 1)
        return low + (high - low) * (inside + 0.5) / int(self._counts[where])


def _bin_of(values: NDArray[Any]) -> NDArray[np.int32]:
    limit = np.finfo(np.float32).max  # the bits below are those of a float32 in the byte order of the machine
    narrow = values if values.dtype == np.float32 else np.clip(values, -limit, limit).astype(np.float32)
    bits = np.ascontiguousarray(narrow).view(np.int32).ravel()
    bins = bits >> _DROPPED_BITS
    if bits.min() < 0:  # the bits of negative floats run the other way
        np.copyto(bins, ~(bins & (_ZERO_BIN - 1)), where=bits < 0)
    bins += _ZERO_BIN
    return np.asarray(bins)


def _edge(where: int) -> float:
    """Smallest float of a bin."""
    ordered = np.array((where - _ZERO_BIN) << _DROPPED_BITS, dtype=np.int64)
    if ordered < 0:
        return float((ordered.astype(np.int32) ^ np.int32(0x7FFFFFFF)).view(np.float32))
    top = np.finfo(np.float32).max.view(np.int32)
    return float(np.minimum(ordered, top).astype(np.int32).view(np.float32))
