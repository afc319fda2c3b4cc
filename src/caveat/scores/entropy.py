r"""Entropies of the predicted probabilities.

With $p_{(1)} \ge p_{(2)} \ge \dots$ the probabilities of one sample in falling order:

- ``entropy``: $-\sum_k p_k \log p_k$. Shannon, "A Mathematical Theory of Communication", 1948; as an uncertainty under
  shift: Ovadia et al., "Can You Trust Your Model's Uncertainty?", NeurIPS 2019, arXiv:1906.02530.
- ``collision``: $-\log \sum_k p_k^2$, the Renyi entropy of order 2: how unlikely it is that two draws name the same
  class. Granese, Romanelli, Gorla, Palamidessi and Piantanida, "DOCTOR: A Simple Method for Detecting
  Misclassification Errors", NeurIPS 2021, arXiv:2106.02395.
- ``renyi``: $\frac{1}{1 - a} \log \sum_{k=1}^{M} p_{(k)}^{a}$ with $0 < a < 1$. Renyi, "On Measures of Entropy and
  Information", Fourth Berkeley Symposium, 1961. With M below the number of classes the kept probabilities are not
  normalized again, so the value can be negative.
- ``gen``: $\sum_{k=1}^{M} p_{(k)}^{\gamma} (1 - p_{(k)})^{\gamma}$, sensitive to how sure a sure prediction is. Liu,
  Lochman and Zach, "GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection", CVPR 2023.
- ``guessing``: $\sum_k k\, p_{(k)}$, how many guesses the true class takes on average, best guess first. Massey,
  "Guessing and Entropy", IEEE International Symposium on Information Theory, 1994.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import count, level
from caveat._internal.rounding import NEAR_ONE, Rounding
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import below_largest, log_probabilities, logits_of, with_complement

__all__ = ["GEN", "Collision", "Entropy", "Guessing", "Renyi", "entropy_of", "largest"]

_NO_WEIGHT = -1000.0  # its exponential is 0


@final
@dataclass(eq=False)
class Entropy(Score):
    """Entropy of the softmax, in nats: from 0 to log C. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Entropy().score(Outputs(logits=[sure, unsure])).round(4)
    array([0.0012, 0.6931])
    """

    name: ClassVar[str] = "entropy"
    needs: ClassVar[tuple[str, ...]] = ("probs",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return entropy_of(logits_of(block))


def entropy_of(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entropy of the softmax over the last axis; ``logits`` (or log probabilities) are overwritten."""
    _, weights, rest = below_largest(logits)
    np.maximum(logits, _NO_WEIGHT, out=logits)  # of a class that is ruled out: 0 log 0 is 0, also at -inf
    return np.asarray(np.log1p(rest) - np.einsum("...k,...k->...", weights, logits) / (1 + rest))


@final
@dataclass(eq=False)
class Collision(Score):
    """Collision entropy of the softmax: from 0 to log C. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Collision().score(Outputs(logits=[sure, unsure])).round(4)
    array([2.000e-04, 6.931e-01])
    """

    name: ClassVar[str] = "collision"
    needs: ClassVar[tuple[str, ...]] = ("probs",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        p, rest = with_complement(log_probabilities(block))
        # sum p^2 = 1 - sum p (1 - p), without cancellation
        return np.asarray(-np.log1p(-np.einsum("ij,ij->i", p, rest)))


@final
@dataclass(eq=False)
class Renyi(Score):
    """Renyi entropy of the M largest probabilities. The larger, the stranger.

    Parameters
    ----------
    order
        a in the formula, strictly between 0 and 1; towards 1 it becomes the Shannon entropy.
    top
        M: how many of the largest probabilities enter; all of them where there are fewer classes.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Renyi(order=0.5).score(Outputs(logits=[sure, unsure])).round(4)
    array([0.022 , 0.6931])
    """

    order: float = level(0.1)
    top: int = count(100)

    name: ClassVar[str] = "renyi"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "order": (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9),
        "top": (10, 50, 100, 500),
    }

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        return _tops_below(outputs, self.grid, self.top)

    def _score(self, block: Outputs) -> NDArray[Any]:
        best, _, rest = below_largest(largest(log_probabilities(block, least=0.0), self.top) * self.order)
        return np.asarray((best + np.log1p(rest)) / (1 - self.order))


@final
@dataclass(eq=False)
class GEN(Score):
    """Generalized entropy, summed (not averaged) over the M largest probabilities. The larger, the stranger.

    Parameters
    ----------
    gamma
        Exponent, strictly between 0 and 1. The smaller, the more a trace of doubt counts.
    top
        M: how many of the largest probabilities enter; all of them where there are fewer classes.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> GEN().score(Outputs(logits=[sure, unsure])).round(3)
    array([0.813, 1.741])
    """

    gamma: float = level(0.1)
    top: int = count(100)

    name: ClassVar[str] = "gen"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "gamma": (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9),
        "top": (10, 50, 100, 500),
    }

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        return _tops_below(outputs, self.grid, self.top)

    def _score(self, block: Outputs) -> NDArray[Any]:
        log_p = largest(log_probabilities(block, least=0.0), self.top)
        _, rest = with_complement(log_p)
        with np.errstate(divide="ignore"):  # 1 - p is 0 if every other p is, or has underflowed: its share is 0
            exponent = np.log(rest, out=rest)
        exponent += log_p
        exponent *= self.gamma
        return np.asarray(np.exp(exponent, out=exponent).sum(axis=1))


def largest(values: NDArray[np.float64], top: int) -> NDArray[np.float64]:
    """The ``top`` largest values of each row, in no order; all of them where there are fewer."""
    classes = values.shape[1]
    return values if top >= classes else np.partition(values, classes - top, axis=1)[:, classes - top :]


@final
@dataclass(eq=False)
class Guessing(Score):
    """Expected number of guesses in order of falling probability: from 1 to (C + 1) / 2. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Guessing().score(Outputs(logits=[sure, unsure])).round(4)
    array([1.0001, 1.5   ])
    """

    name: ClassVar[str] = "guessing"
    needs: ClassVar[tuple[str, ...]] = ("probs",)

    @property
    def rounding(self) -> Rounding:
        return NEAR_ONE

    def _score(self, block: Outputs) -> NDArray[Any]:
        rising = np.sort(np.exp(log_probabilities(block)), axis=1)
        return np.asarray(np.einsum("ij,j->i", rising, np.arange(rising.shape[1], 0.0, -1.0)))


def _tops_below(outputs: Outputs, grid: Mapping[str, tuple[Any, ...]], own: int) -> Mapping[str, tuple[Any, ...]]:
    """A grid without values of ``top`` that mean the same: from the number of classes on, all classes enter."""
    classes = outputs.n_classes or max(grid["top"])
    below = tuple(top for top in grid["top"] if top < classes)
    return {**grid, "top": (*below, max(own, classes))}
