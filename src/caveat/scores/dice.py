r"""DICE: the energy of a head that keeps only its most contributing weights.

$$ s(x) = -\log \sum_c e^{\bar z_c}, \qquad \bar z = (W \odot M) h + b, \qquad
   M_{cj} = 1\{ w_{cj}\,\mathbb{E}[h_j] > \text{the percentile of all } w_{cj}\,\mathbb{E}[h_j] \} $$

Sun and Li, "DICE: Leveraging Sparsification for Out-of-Distribution Detection", ECCV 2022, arXiv:2111.09805.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import percent
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits, log_sum_exp
from caveat.scores._statistics import FeatureMean, Gathered, Statistic

__all__ = ["DICE"]


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
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Sun & Li 2022"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (10.0, 30.0, 50.0, 70.0, 90.0)}

    def statistics(self) -> tuple[Statistic, ...]:
        return (FeatureMean(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        weight = train.head.weight
        contribution = weight * gathered[FeatureMean()].mean
        kept = contribution > np.percentile(contribution, self.percentile)
        self.head_weight_ = np.where(kept, weight, weight.dtype.type(0))
        self.head_bias_ = train.head.bias

    def _score(self, block: Outputs) -> NDArray[Any]:
        return -log_sum_exp(head_logits(block.features, self.head_weight_, self.head_bias_))
