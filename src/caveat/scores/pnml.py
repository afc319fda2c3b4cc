r"""Predictive normalized maximum likelihood: the regret against a learner that had seen the answer.

$$ s(x) = \frac{1}{\log C} \log \sum_c \frac{p_c}{p_c + p_c^{g} (1 - p_c)}, \qquad
   g = \max\Bigl( x^\top P_\perp x,\ \frac{s}{1 + s} \Bigr), \quad s = x^\top (X^\top X)^{+} x, \quad
   x = (1, h / \lVert h \rVert_2), $$

where X holds the training rows in the form of x and P_perp projects off their span.

Bibas, Feder and Hassner, "Single Layer Predictive Normalized Maximum Likelihood for Out-of-Distribution Detection",
NeurIPS 2021, theorem 1, arXiv:2110.09246.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from caveat._internal.params import flag
from caveat._internal.products import row_products, self_product
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits, log_softmax
from caveat.scores._statistics import Accumulator, Gathered, Merge, Statistic, total, unit_rows

__all__ = ["PNML", "AugmentedGram"]


@final
@dataclass
class AugmentedGram(Accumulator):
    """X^T X of the rows x = (1, h / ||h||), in float64: its small eigenvalues matter, and float32 would drown them.

    ``resolution`` is the machine epsilon of the coarsest features seen.
    """

    reads: ClassVar[tuple[str, ...]] = ("features",)
    merge: ClassVar[Merge] = {"gram": total, "resolution": max}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        rows = augmented_rows(block.features)
        return {"gram": self_product(rows), "resolution": float(np.finfo(block.features.dtype).eps)}


@final
@dataclass(eq=False)
class PNML(Score):
    """Regret of the last layer, as a share of log C. The larger, the stranger.

    A sample outside the span of the training features can be fitted to any label, so its regret is high however sure
    the prediction is: that is the P_perp branch of g.

    Parameters
    ----------
    unit_features
        Take p from the head on h / ||h||, as the authors' code does, instead of from the head on h.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [2.0, 2.0, 0.0]],
    ...                 head=Head([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    >>> inside, outside = [3.0, 1.0, 0.0], [3.0, 1.0, 50.0]
    >>> PNML().fit(train).score(Outputs(features=[inside, outside])).round(2)
    array([0.17, 0.51])
    """

    unit_features: bool = flag(False)

    name: ClassVar[str] = "pnml"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (AugmentedGram(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        second_moments = gathered[AugmentedGram()]
        values, self.axes_ = np.linalg.eigh(second_moments.gram)
        # Rounding of the features leaves eigenvalues of about eps squared, which are not directions of the data.
        noise = max(float(np.finfo(np.float64).eps), second_moments.resolution**2)
        inside = values > values[-1] * values.size * noise
        # x P x and x P_bot x are sums over the squared coordinates, one with these weights, one with those.
        self.inside_ = np.divide(1.0, values, out=np.zeros_like(values), where=inside)
        self.outside_ = np.where(inside, 0.0, 1.0)
        self.head_weight_, self.head_bias_ = train.head.weight, train.head.bias

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = augmented_rows(block.features)
        energy = row_products(rows, self.axes_)
        energy *= energy
        parallel, across = np.vecdot(energy, self.inside_), np.vecdot(energy, self.outside_)
        g = np.maximum(across, parallel / (1 + parallel))
        features = rows[:, 1:] if self.unit_features else block.features
        log_p = log_softmax(head_logits(features, self.head_weight_, self.head_bias_).astype(np.float64))
        # p / (p + p^g (1 - p)) = 1 / (1 + (1 - p) p^(g - 1)), in logarithms so that p = 0 and p = 1 stay finite.
        with np.errstate(divide="ignore"):
            odds = (1 - g)[:, None] * log_p - np.log(-np.expm1(log_p))
        # The largest p of a sure row adds almost 1: what it lacks is kept instead, so that sure rows do not tie at 0.
        row, best = np.arange(block.n), log_p.argmax(axis=1)
        lacking = expit(-odds[row, best])
        odds[row, best] = -np.inf
        surplus = expit(odds, out=odds).sum(axis=1) - lacking
        return np.asarray(np.log1p(surplus) / np.log(max(2, log_p.shape[1])))


def augmented_rows(features: NDArray[Any]) -> NDArray[np.float64]:
    """Rows (1, h / ||h||) in float64, shape (n, D + 1); a zero row gives (1, 0)."""
    rows = np.ones((features.shape[0], features.shape[1] + 1))
    rows[:, 1:] = unit_rows(features.astype(np.float64, copy=False))
    return rows
