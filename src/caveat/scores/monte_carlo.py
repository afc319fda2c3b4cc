r"""Scores from T stochastic passes, such as Monte-Carlo dropout.

With $p_t$ the softmax of pass t, $\bar p = \frac1T \sum_t p_t$ and $H$ the entropy:

- ``mc_msp``: $-\max_k \bar p_k$
- ``mc_entropy``: $H(\bar p)$, all of the uncertainty
- ``mc_expected_entropy``: $\frac1T \sum_t H(p_t)$, the part that more data would not remove
- ``mc_mutual_information``: $H(\bar p) - \frac1T \sum_t H(p_t) \ge 0$, the part on which the passes disagree
- ``mc_variance``: $\frac1C \sum_k \frac1T \sum_t (p_{tk} - \bar p_k)^2$

Gal and Ghahramani, "Dropout as a Bayesian Approximation", ICML 2016, arXiv:1506.02142; mutual information: Houlsby,
Huszar, Ghahramani and Lengyel, 2011, arXiv:1112.5745. They read ``outputs.mc_logits``, shape (T, n, C).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.rounding import NEAR_MINUS_ONE, Rounding
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_mean_exp, log_softmax
from caveat.scores.entropy import entropy_of

__all__ = ["MCMSP", "MCEntropy", "MCExpectedEntropy", "MCMutualInformation", "MCVariance"]


@final
@dataclass(eq=False)
class MCMSP(Score):
    """Minus the largest probability of the mean over passes. The larger, the stranger.

    Examples
    --------
    >>> MCMSP().score(Outputs(mc_logits=[[[9.0, 0.0]], [[0.0, 9.0]]])).round(3)
    array([-0.5])
    """

    name: ClassVar[str] = "mc_msp"
    needs: ClassVar[tuple[str, ...]] = ("mc_logits",)

    @property
    def rounding(self) -> Rounding:
        return NEAR_MINUS_ONE

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(-np.exp(passes(block)).mean(axis=0).max(axis=1))


@final
@dataclass(eq=False)
class MCEntropy(Score):
    """Entropy of the mean over passes. The larger, the stranger.

    Examples
    --------
    >>> MCEntropy().score(Outputs(mc_logits=[[[9.0, 0.0]], [[0.0, 9.0]]])).round(3)
    array([0.693])
    """

    name: ClassVar[str] = "mc_entropy"
    needs: ClassVar[tuple[str, ...]] = ("mc_logits",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return entropy_of(log_mean_exp(passes(block)))


@final
@dataclass(eq=False)
class MCExpectedEntropy(Score):
    """Mean over passes of the entropy. The larger, the stranger.

    Examples
    --------
    >>> MCExpectedEntropy().score(Outputs(mc_logits=[[[9.0, 0.0]], [[0.0, 9.0]]])).round(4)
    array([0.0012])
    """

    name: ClassVar[str] = "mc_expected_entropy"
    needs: ClassVar[tuple[str, ...]] = ("mc_logits",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(entropy_of(np.array(block.mc_logits, dtype=np.float64)).mean(axis=0))


@final
@dataclass(eq=False)
class MCMutualInformation(Score):
    """How much the passes disagree: mean divergence of a pass from their mean. The larger, the stranger.

    Examples
    --------
    >>> agree, differ = [[2.0, 0.0], [2.0, 0.0]], [[9.0, 0.0], [0.0, 9.0]]
    >>> outputs = Outputs(mc_logits=np.stack([agree, differ], axis=1))
    >>> MCMutualInformation().score(outputs).round(3)
    array([0.   , 0.692])
    """

    name: ClassVar[str] = "mc_mutual_information"
    needs: ClassVar[tuple[str, ...]] = ("mc_logits",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        log_p = passes(block)
        mean = log_mean_exp(log_p)
        # With r = p / mean p, which is 1 in the mean over passes, it is the mean of mean p (r log r - r + 1). No term
        # is negative but by rounding, so a small disagreement keeps the digits that a difference of entropies loses.
        log_r = log_p - mean
        surplus = np.expm1(log_r)
        log_r *= 1 + surplus
        log_r -= surplus
        return np.asarray(np.maximum(np.einsum("nk,tnk->n", np.exp(mean), log_r), 0) / log_p.shape[0])


@final
@dataclass(eq=False)
class MCVariance(Score):
    """Variance of the probabilities over passes, averaged over classes. The larger, the stranger.

    Examples
    --------
    >>> MCVariance().score(Outputs(mc_logits=[[[99.0, 0.0]], [[0.0, 99.0]]]))
    array([0.25])
    """

    name: ClassVar[str] = "mc_variance"
    needs: ClassVar[tuple[str, ...]] = ("mc_logits",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        log_p = passes(block)
        p = np.exp(log_p)
        rows, best = np.arange(block.n), p.sum(axis=0).argmax(axis=1)
        p[:, rows, best] = np.expm1(log_p[:, rows, best])  # p - 1 has the same variance, and its digits where p is sure
        return np.asarray(p.var(axis=0).mean(axis=1))


def passes(block: Outputs) -> NDArray[np.float64]:
    """Log probabilities of every pass, shape (T, n, C)."""
    return log_softmax(np.array(block.mc_logits, dtype=np.float64))
