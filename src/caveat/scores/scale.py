r"""SCALE: the energy after each feature is scaled up by how much of it sits in its largest activations.

$$ s(x) = -\log \sum_c e^{(r W h + b)_c}, \qquad r = e^{s_1 / s_2}, $$

with s_1 the sum of the row and s_2 the sum of its k largest activations, k = (100 - p) % of D.

Xu, Chen, Franchi and Yao, "Scaling for Training Time and Post-hoc Out-of-distribution Detection Enhancement",
ICLR 2024, arXiv:2310.00227.
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
from caveat.scores._head import head_logits, log_sum_exp
from caveat.scores._pruning import how_many, sum_ratio

__all__ = ["Scale"]


@final
@dataclass(eq=False)
class Scale(Score):
    """Energy of the head on a scaled feature: the scaling of ASH without its pruning. The larger, the stranger.

    Meant for activations after a ReLU; with negative values the ratio s_1 / s_2 is held between 1 and D / k.

    Parameters
    ----------
    percentile
        Share of each row that the sum s_2 leaves out, in percent. The paper uses 85.

    Examples
    --------
    >>> from caveat import Head
    >>> said = Outputs(features=[[3.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]],
    ...                head=Head([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]))
    >>> Scale(percentile=50).score(said).round(2)
    array([ -8.16, -22.17])
    """

    percentile: float = percent(85.0)

    name: ClassVar[str] = "scale"
    needs: ClassVar[tuple[str, ...]] = ("features", "head")
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Xu et al. 2024"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (65.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0)}

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        k = how_many(rows.shape[1], self.percentile)
        top = np.partition(rows, rows.shape[1] - k, axis=1)[:, rows.shape[1] - k :]
        logits = head_logits(rows, block.head.weight, np.zeros(1)).astype(np.float64)
        logits *= np.exp(sum_ratio(rows, top, k))[:, None]
        return -log_sum_exp(logits + block.head.bias)
