r"""OpenMax: the probability of an unknown class, made from the tails of the distances to the class means.

Of the correctly classified training samples of class c, $\mu_c$ is the mean logit vector, and a Weibull distribution
$F_c$ is fitted to the 20 largest distances $\lVert z - \mu_c \rVert$. For a sample whose i-th largest logit is that of
class c(i), the A largest logits give part of their value away to an unknown class:

$$ w_{c(i)} = 1 - \frac{A - i + 1}{A} F_{c(i)}(\lVert z - \mu_{c(i)} \rVert), \qquad
   \hat z_c = w_c z_c, \qquad \hat z_0 = \sum_c (1 - w_c) z_c, \qquad
   s(x) = \frac{e^{\hat z_0}}{e^{\hat z_0} + \sum_c e^{\hat z_c}} $$

Bendale and Boult, "Towards Open Set Deep Networks", CVPR 2016, algorithms 1 and 2, arXiv:1511.06233. Conventions:
Euclidean distance between logits, and a Weibull distribution with location 0, so that scaling all distances changes
nothing; the authors' library moves the tail to 10,000 before it fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import count
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import Accumulator, Gathered, Merge, Statistic, class_totals, total

__all__ = ["CorrectLogits", "LargestDistances", "OpenMax", "fit_weibull"]

_LEAST_TAIL = 3  # distances; two points fit any Weibull distribution
_MOST_SHAPE = 1e4  # equal distances would have an infinite one


@final
@dataclass
class CorrectLogits(Accumulator):
    """Sum of the logits, and count, of the correctly classified samples of each class."""

    reads: ClassVar[tuple[str, ...]] = ("logits", "labels")
    merge: ClassVar[Merge] = {"counts": total, "sums": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return class_totals(*correct_rows(block), self.n_classes)

    @property
    def means(self) -> NDArray[np.float64]:
        """Mean logits (C, C) of each class; rows of classes that were never right are zero."""
        mean: NDArray[np.float64] = self.sums / np.maximum(self.counts, 1)[:, None]
        return mean


@final
@dataclass
class LargestDistances(Accumulator):
    """The largest distances to the mean logits among the correctly classified samples of each class.

    ``tails`` has shape (C, tail), largest first; zeros fill short rows.
    """

    tail: int
    means: NDArray[np.float64] = field(compare=False, repr=False)  # of CorrectLogits

    reads: ClassVar[tuple[str, ...]] = ("logits", "labels")
    merge: ClassVar[Merge] = {"tails": lambda one, other: -np.sort(-np.hstack([one, other]), axis=1)[:, : one.shape[1]]}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        logits, labels = correct_rows(block)
        distances = np.linalg.norm(logits - self.means[labels], axis=1)
        # Zeros for every class go first, so that a class with few rows has a full tail too.
        classes = self.means.shape[0]
        values = np.concatenate([np.zeros(classes * self.tail), distances])
        owner = np.concatenate([np.repeat(np.arange(classes), self.tail), labels])
        order = np.lexsort((-values, owner))
        starts = np.searchsorted(owner[order], np.arange(classes))
        return {"tails": values[order][starts[:, None] + np.arange(self.tail)]}


@final
@dataclass(eq=False)
class OpenMax(Score):
    """Probability of the unknown class after Weibull recalibration of the largest logits. The larger, the stranger.

    A class with fewer than three correctly classified training samples has no tail and gives nothing away.

    Parameters
    ----------
    tail
        How many of the largest distances of each class the Weibull distribution is fitted to.
    top
        A in the formula: how many of the largest logits are recalibrated; all where there are fewer classes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 50)
    >>> train = Outputs(logits=8 * np.eye(2)[labels] + rng.normal(size=(100, 2)), labels=labels)
    >>> OpenMax().fit(train).score(Outputs(logits=[[8.0, 0.0], [20.0, 19.0]])).round(3)
    array([0., 1.])
    """

    tail: int = count(20, least=_LEAST_TAIL, most=10_000)
    top: int = count(3)

    name: ClassVar[str] = "openmax"
    needs: ClassVar[tuple[str, ...]] = ("logits",)
    fits_on: ClassVar[tuple[str, ...]] = ("logits", "labels")
    learns: ClassVar[tuple[Statistic, ...]] = (CorrectLogits(),)

    def _further(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        self.means_ = gathered[CorrectLogits()].means
        return (LargestDistances(self.tail, self.means_),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.shape_, self.scale_ = fit_weibull(gathered[LargestDistances(self.tail, self.means_)].tails)

    def _score(self, block: Outputs) -> NDArray[Any]:
        logits = np.array(block.logits, dtype=np.float64)
        top = min(self.top, logits.shape[1])
        best = np.argpartition(-logits, top - 1, axis=1)[:, :top]
        order = np.argsort(-np.take_along_axis(logits, best, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        unknown = np.zeros(logits.shape[0])
        kept = logits.copy()
        for rank in range(top):
            chosen = best[:, rank]
            distance = np.linalg.norm(logits - self.means_[chosen], axis=1)
            with np.errstate(over="ignore"):  # far beyond a steep tail the power is infinite, and F is 1
                beyond = -np.expm1(-((distance / self.scale_[chosen]) ** self.shape_[chosen]))  # Weibull F
            moved = (top - rank) / top * beyond * np.take_along_axis(logits, chosen[:, None], axis=1)[:, 0]
            kept[np.arange(kept.shape[0]), chosen] -= moved
            unknown += moved
        highest = np.maximum(kept.max(axis=1), unknown)
        odds = np.exp(unknown - highest)
        return np.asarray(odds / (odds + np.exp(kept - highest[:, None]).sum(axis=1)))


def correct_rows(block: Outputs) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Logits in float64, and labels, of the rows of a block that were classified correctly."""
    logits = block.logits
    right = np.flatnonzero(np.argmax(logits, axis=1) == block.labels)
    return logits[right].astype(np.float64), block.labels[right]


def fit_weibull(tails: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Shape and scale of the maximum-likelihood Weibull distribution (location 0) of each row, all rows at once.

    Zeros are not counted. A row with fewer than three positive values has scale infinity: its F is 0 everywhere.

    >>> shape, scale = fit_weibull(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]))
    >>> shape.round(3).tolist(), scale.round(3).tolist()
    ([2.739, 1.0], [2.259, inf])
    """
    usable = (tails > 0).sum(axis=1) >= _LEAST_TAIL
    real = (tails > 0) & usable[:, None]
    count = real.sum(axis=1)
    top = np.where(usable, tails.max(axis=1, initial=0.0), 1.0)
    logs = np.log(np.where(real, tails / top[:, None], 1.0))  # x / max: powers stay below one
    weight, size = real.astype(np.float64), np.maximum(count, 1)
    mean_log = (logs * weight).sum(axis=1) / size

    # The shape k solves  sum x^k log x / sum x^k - 1/k - mean log x = 0, whose left side rises in k: bisect log k.
    low, high = np.full(tails.shape[0], np.log(1e-3)), np.full(tails.shape[0], np.log(_MOST_SHAPE))
    for _ in range(80):
        middle = (low + high) / 2
        shape = np.exp(middle)
        powers = weight * np.exp(shape[:, None] * logs)
        total = np.where(usable, powers.sum(axis=1), 1.0)
        rises = (powers * logs).sum(axis=1) / total - 1 / shape - mean_log
        low, high = np.where(rises < 0, middle, low), np.where(rises < 0, high, middle)
    shape = np.where(usable, np.exp((low + high) / 2), 1.0)
    powers = weight * np.exp(shape[:, None] * logs)
    scale = np.where(usable, top * (powers.sum(axis=1) / size) ** (1 / shape), np.inf)
    return shape, scale
