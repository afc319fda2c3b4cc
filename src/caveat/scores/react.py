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
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import choice, percent
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits, log_softmax, log_sum_exp
from caveat.scores._stat_quantile import ActivationQuantiles
from caveat.scores._statistics import FeatureMean, Gathered, Statistic

__all__ = ["DICE", "ReAct"]


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
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Sun et al. 2021"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (80.0, 85.0, 90.0, 95.0, 99.0)}

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
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Sun & Li 2022"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (10.0, 30.0, 50.0, 70.0, 90.0)}

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        weight = train.head.weight
        contribution = weight * gathered[FeatureMean()].mean
        kept = contribution > np.percentile(contribution, self.percentile)
        self.head_weight_ = np.where(kept, weight, weight.dtype.type(0))
        self.head_bias_ = train.head.bias

    def _score(self, block: Outputs) -> NDArray[Any]:
        return -log_sum_exp(head_logits(block.features, self.head_weight_, self.head_bias_))
