r"""Neural collapse inspired score: how well the centred feature points along the weight of its class.

$$ s(x) = -\Bigl( \frac{\langle w_{\hat y}, h - \mu \rangle}{\lVert h - \mu \rVert_2} + a \lVert h \rVert_1 \Bigr) $$

Liu and Qin, "Detecting Out-of-Distribution through the Lens of Neural Collapse", CVPR 2025, arXiv:2311.01479.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import number
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits, lengths
from caveat.scores._statistics import FeatureMean, Gathered, Statistic

__all__ = ["NCI"]


@final
@dataclass(eq=False)
class NCI(Score):
    """Minus the alignment of the centred feature with its class weight, less its norm. The larger, the stranger.

    Parameters
    ----------
    strength
        a in the formula, at least 0: how much a small feature counts as strange. The paper chooses it on validation
        data between 1e-4 and 1e-1.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    >>> NCI(strength=0.1).fit(train).score(Outputs(features=[[4.0, 0.0], [2.0, 1.9]])).round(3)
    array([-1.257, -1.171])
    """

    strength: float = number(1e-4, least=0)

    name: ClassVar[str] = "nci"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Liu & Qin 2025"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"strength": (0.0, 1e-4, 1e-3, 1e-2, 1e-1)}

    def statistics(self) -> tuple[Statistic, ...]:
        return (FeatureMean(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.mean_ = gathered[FeatureMean()].mean
        self.head_weight_, self.head_bias_ = train.head.weight, train.head.bias
        self.at_mean_ = self.head_weight_ @ self.mean_ + self.head_bias_

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        logits = head_logits(rows, self.head_weight_, self.head_bias_)
        predicted = logits.argmax(axis=1)
        # <w, h - mu> is the logit less what the head gives at mu: no second product with the features.
        along = logits[np.arange(block.n), predicted].astype(np.float64) - self.at_mean_[predicted]
        length = lengths(rows - self.mean_.astype(rows.dtype))
        aligned = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
        return np.asarray(-(aligned + self.strength * np.abs(rows).sum(axis=1).astype(np.float64)))
