r"""ReAct and DICE: the energy after unusually large activations are cut off, or after weak weights are dropped.

$$ s(x) = -\log \sum_c e^{\bar z_c}, \qquad \text{ReAct: } \bar z = W \min(h, c) + b, \qquad
   c = \text{the percentile of all training activations} $$

$$ \text{DICE: } \bar z = (W \odot M) h + b, \qquad
   M_{cj} = 1\{ w_{cj}\,\mathbb{E}[h_j] > \text{the percentile of all } w_{cj}\,\mathbb{E}[h_j] \} $$

Sun, Guo and Li, "ReAct: Out-of-distribution Detection With Rectified Activations", NeurIPS 2021, arXiv:2111.12797.
Sun and Li, "DICE: Leveraging Sparsification for Out-of-Distribution Detection", ECCV 2022, arXiv:2111.09805.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import log_sum_exp
from caveat._internal.params import choice, percent
from caveat._internal.rounding import NEAR_MINUS_ONE, Rounding
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits, log_softmax
from caveat.scores._statistics import FeatureMean, Gathered, Statistic

__all__ = ["DICE", "ActivationQuantiles", "ReAct"]

_DROPPED_BITS = 11  # of 23 in a float32 mantissa: bins 2^-12 wide, 2^21 of them
_BINS = 2 ** (32 - _DROPPED_BITS)
_ZERO_BIN = _BINS // 2


@final
@dataclass
class ActivationQuantiles(Statistic):
    """Every value of the features as one sample: exact up to ``exact_up_to`` values, then a histogram.

    A float32 read as an integer keeps its order, so the leading bits of that integer number the bins of a histogram
    whose bins are as fine, relative to the value, everywhere: it is off by at most 2^-12 = 0.025 % of the value. Counts
    add without rounding: the answer does not depend on the size of the blocks or the order of merging.
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
        counts = np.bincount(_bin_of(values))
        self._counts[: counts.size] += counts

    def _order_statistic(self, rank: int) -> float:
        """The value of a rank (from 0), its bin taken as evenly filled."""
        assert self._counts is not None
        through = np.cumsum(self._counts)
        where = int(np.searchsorted(through, rank, side="right"))
        inside = rank - (int(through[where]) - int(self._counts[where]))
        low, high = _edge(where), _edge(where + 1)
        return low + (high - low) * (inside + 0.5) / int(self._counts[where])


@final
@dataclass(eq=False)
class ReAct(Score):
    """Energy of the head on clipped features. The larger, the stranger.

    The threshold is exact up to a million activations and off by at most 0.025 % beyond, from one walk in constant
    memory.

    Parameters
    ----------
    percentile
        Of all training activations, all features together; values above it are cut to it.
    base
        ``"energy"``, or ``"msp"`` for minus the largest probability.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    >>> ReAct(percentile=50).fit(train).score(Outputs(features=[[1.0, 0.0], [99.0, 0.0]])).round(3)
    array([-1.313, -1.701])
    """

    percentile: float = percent(90.0)
    base: str = choice("energy", ("energy", "msp"), "base score of react")

    name: ClassVar[str] = "react"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (ActivationQuantiles(),)
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (80.0, 85.0, 90.0, 95.0, 99.0)}

    @property
    def rounding(self) -> Rounding:
        return NEAR_MINUS_ONE if self.base == "msp" else Rounding()

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.threshold_ = gathered[ActivationQuantiles()].quantile(self.percentile / 100)
        self.head_weight_, self.head_bias_ = train.head.weight, train.head.bias

    def _score(self, block: Outputs) -> NDArray[Any]:
        logits = self._logits(block)
        if self.base == "energy":
            return -log_sum_exp(logits)
        return np.asarray(-np.exp(logits.max(axis=1) - log_sum_exp(logits)))

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the log-probability of each class after clipping, so that softmax(-s) is the class softmax."""
        return -log_softmax(self._logits(block).astype(np.float64))

    def _logits(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        return head_logits(np.minimum(rows, rows.dtype.type(self.threshold_)), self.head_weight_, self.head_bias_)


@final
@dataclass(eq=False)
class DICE(Score):
    """Energy of the head with its weak contributions set to zero. The larger, the stranger.

    Parameters
    ----------
    percentile
        Share of the C x D weights that is dropped, in percent.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 1.0], [1.0, 3.0]], head=Head([[1.0, 0.1], [0.2, 1.0]]))
    >>> dice = DICE(percentile=50).fit(train)
    >>> dice.head_weight_
    array([[1., 0.],
           [0., 1.]])
    >>> dice.score(Outputs(features=[[4.0, 0.0], [0.0, 0.0]])).round(3)
    array([-4.018, -0.693])
    """

    percentile: float = percent(90.0)

    name: ClassVar[str] = "dice"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (FeatureMean(),)
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (10.0, 30.0, 50.0, 70.0, 90.0)}

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        weight = train.head.weight
        contribution = weight * gathered[FeatureMean()].mean
        kept = contribution > np.percentile(contribution, self.percentile)
        self.head_weight_ = np.where(kept, weight, weight.dtype.type(0))
        self.head_bias_ = train.head.bias

    def _score(self, block: Outputs) -> NDArray[Any]:
        return -log_sum_exp(head_logits(block.features, self.head_weight_, self.head_bias_))


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
