r"""GradNorm: the size of the gradient that would push the prediction towards uniform.

$$ s(x) = -\Bigl\lVert \frac{\partial}{\partial W} \sum_k \operatorname{CE}(z, k) \Bigr\rVert_1
        = -C\,\lVert p - \tfrac1C \rVert_1\,\lVert h \rVert_1 $$

The gradient of the last layer is the outer product of p - 1/C and h, so its norm needs no backward pass.
Huang, Geng and Li, "On the Importance of Gradients for Detecting Distributional Shifts in the Wild", NeurIPS 2021,
eq. (3) and (5), arXiv:2110.00218.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import row_sums
from caveat.outputs import Outputs
from caveat.scores._base import Score

__all__ = ["GradNorm"]


@final
@dataclass(eq=False)
class GradNorm(Score):
    """Minus the L1 norm of the last-layer gradient of the cross-entropy to uniform. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.1, 0.0]
    >>> GradNorm().score(Outputs(logits=[sure, unsure], features=[[3.0, 1.0], [1.0, 1.0]])).round(3)
    array([-7.998, -0.2  ])
    """

    name: ClassVar[str] = "gradnorm"
    needs: ClassVar[tuple[str, ...]] = ("probs", "features")

    def _score(self, block: Outputs) -> NDArray[Any]:
        if not block.gives_probs:
            mass = block.logits.astype(np.float64)
            mass -= mass.max(axis=1, keepdims=True)
            np.exp(mass, out=mass)  # p up to a factor, which divides out below
        else:
            mass = np.array(block.probs, dtype=np.float64)
        classes = mass.shape[1]
        total = mass.sum(axis=1)
        mass -= (total / classes)[:, None]
        gap = np.abs(mass, out=mass).sum(axis=1) / total
        return np.asarray(-classes * gap * row_sums(np.abs(block.features)))
