r"""SIRC: softmax confidence for the model's own errors, raised where the features look unlike the training data.

$$ s(x) = \log(1 - \max_k p_k) + \log\bigl(1 + e^{-b (S_2(x) - a)}\bigr), \qquad
   a = \mu - 3 \sigma, \quad b = 1 / \sigma $$

$S_2$ is high on training data: the length $\lVert h \rVert_1$ of the feature, or minus its length outside the principal
subspace (the residual of ViM). $\mu$ and $\sigma$ are its mean and standard deviation over the training data. Well
above a the order is that of the softmax; well below, the score grows by b for each unit of $S_2$.

Xia and Bouganis, "Augmenting Softmax Information for Selective Classification with Out-of-Distribution Data", ACCV
2022, arXiv:2207.07506, with $S_1$ the largest probability. The paper's confidence is minus the exponential of this
score: the same order, but sure rows of a saturated softmax round to the same value there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import row_sums
from caveat._internal.params import count
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_complement, logits_of
from caveat.scores._statistics import ClassMoments, Gathered, Statistic
from caveat.scores.vim import outside_principal_space, residual_length

__all__ = ["SIRC", "SIRCResidual", "SecondSignal"]

_LEAST_SPREAD = 1e-6  # as a share of the training features' length: below it there is only rounding
_STEPS = 3.0  # standard deviations from the mean to a


@final
@dataclass
class SecondSignal(Statistic):
    """Mean and spread of S_2 over the training rows: the L1 length, or where a basis is given minus the residual."""

    dimension: int | None = None
    residual: bool = False
    origin: NDArray[np.float64] | None = field(default=None, compare=False, repr=False)
    outside: NDArray[Any] | None = field(default=None, compare=False, repr=False)

    reads: ClassVar[tuple[str, ...]] = ("features",)

    def begin(self, train: Outputs) -> None:
        self.n = 0
        self.mean = self.squares = self.length = 0.0  # squares: of the deviations from the mean

    def update(self, block: Outputs) -> None:
        values = second_signal(block.features, self.origin, self.outside)
        mean = float(values.mean())
        squares, length = float(np.square(values - mean).sum()), float(l1_lengths(block.features).mean())
        self._merge(block.n, mean, squares, length)

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both.n, both.mean, both.squares, both.length = self.n, self.mean, self.squares, self.length
        both._merge(other.n, other.mean, other.squares, other.length)
        return both

    def _merge(self, n: int, mean: float, squares: float, length: float) -> None:
        total, gap = self.n + n, mean - self.mean
        self.squares += squares + gap**2 * self.n * n / total
        self.mean += gap * n / total
        self.length += (length - self.length) * n / total
        self.n = total

    def bend(self) -> tuple[float, float]:
        """a and b of the formula."""
        spread = max(float(np.sqrt(self.squares / self.n)), _LEAST_SPREAD * self.length, np.finfo(np.float64).tiny)
        return self.mean - _STEPS * spread, 1 / spread


@final
@dataclass(eq=False)
class SIRC(Score):
    """Softmax confidence, lowered where the feature is shorter than in training. The larger, the stranger.

    Examples
    --------
    >>> train = Outputs(logits=[[9.0, 0.0], [0.0, 9.0]], features=[[5.0, 1.0], [1.0, 6.0]])
    >>> sure, unsure, short = ([9.0, 0.0], [5.0, 1.0]), ([1.0, 0.0], [5.0, 1.0]), ([9.0, 0.0], [0.1, 0.0])
    >>> logits, features = zip(sure, unsure, short)
    >>> SIRC().fit(train).score(Outputs(logits=logits, features=features)).round(2)
    array([-8.87, -1.19,  0.8 ])
    """

    name: ClassVar[str] = "sirc"
    needs: ClassVar[tuple[str, ...]] = ("probs", "features")
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    learns: ClassVar[tuple[Statistic, ...]] = (SecondSignal(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.bend_, self.slope_ = gathered[SecondSignal()].bend()

    def _score(self, block: Outputs) -> NDArray[Any]:
        return _combined(block, second_signal(block.features), self.bend_, self.slope_)


@final
@dataclass(eq=False)
class SIRCResidual(Score):
    """Softmax confidence, lowered where the feature leaves the training subspace. The larger, the stranger.

    Parameters
    ----------
    dimension
        D', the dimension of the principal subspace, as for :class:`Residual`.

    Examples
    --------
    >>> from caveat import Head
    >>> head = Head([[1.0, 0.0], [-1.0, 0.0]])
    >>> train = Outputs(features=[[5.0, 0.1], [-5.0, -0.1], [5.0, -0.3]], head=head)
    >>> SIRCResidual().fit(train).score(Outputs(features=[[5.0, 0.0], [5.0, 3.0]], head=head)).round(1)
    array([-10. ,  32.5])
    """

    dimension: int | None = count(None)

    name: ClassVar[str] = "sirc_residual"
    needs: ClassVar[tuple[str, ...]] = ("probs", "features")
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    def _further(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        self.origin_, self.outside_ = outside_principal_space(gathered[ClassMoments()], train.head, self.dimension)
        return (self._signal(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.bend_, self.slope_ = gathered[self._signal()].bend()

    def _score(self, block: Outputs) -> NDArray[Any]:
        return _combined(block, second_signal(block.features, self.origin_, self.outside_), self.bend_, self.slope_)

    def _signal(self) -> SecondSignal:
        return SecondSignal(self.dimension, True, self.origin_, self.outside_)


def second_signal(
    rows: NDArray[Any], origin: NDArray[np.float64] | None = None, outside: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """S_2 of each row, larger for training data: the L1 length, or minus the residual."""
    if origin is None or outside is None:
        return l1_lengths(rows)
    return -residual_length(rows, origin, outside).astype(np.float64)


def l1_lengths(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Sum of the absolute values of each row.

    >>> l1_lengths(np.array([[1.0, -2.0]]))
    array([3.])
    """
    return row_sums(np.abs(rows))


def _combined(block: Outputs, signal: NDArray[np.float64], bend: float, slope: float) -> NDArray[np.float64]:
    return np.asarray(log_complement(logits_of(block)) + np.logaddexp(0.0, -slope * (signal - bend)))
