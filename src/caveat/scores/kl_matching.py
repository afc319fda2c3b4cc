r"""KL matching: distance of the predicted probabilities from the typical ones of each class.

$$ s(x) = \min_k \operatorname{KL}(p(x) \,\|\, d_k), \qquad
   d_k = \text{mean of } p \text{ over the ID samples predicted as } k $$

Hendrycks, Basart, Mazeika, Zou, Kwon, Mostajabi, Steinhardt and Song, "Scaling Out-of-Distribution Detection for
Real-World Settings", ICML 2022, arXiv:1911.11132.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.products import row_products
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_probabilities, logits_of
from caveat.scores._statistics import Accumulator, Gathered, Merge, Statistic, class_totals, total

__all__ = ["KLMatching", "PredictedProbabilities"]

_IN_CACHE = 2**22  # bytes of the rows worked on at once
_TINY = np.finfo(np.float64).tiny


@final
@dataclass
class PredictedProbabilities(Accumulator):
    """Sum of the probabilities, and count, of the samples predicted as each class."""

    reads: ClassVar[tuple[str, ...]] = ("probs",)
    merge: ClassVar[Merge] = {"counts": total, "sums": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return class_totals(np.exp(log_probabilities(block)), block.predictions, self.n_classes)


@final
@dataclass(eq=False)
class KLMatching(Score):
    """Divergence from the nearest typical posterior; classes never predicted have none. The larger, the stranger.

    The paper takes the typical posteriors from validation data; ``fit`` accepts any in-distribution data.

    Examples
    --------
    >>> train = Outputs(probs=[[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    >>> KLMatching().fit(train).score(Outputs(probs=[[0.8, 0.2], [0.5, 0.5]])).round(3)
    array([0.   , 0.223])
    """

    name: ClassVar[str] = "kl_matching"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    fits_on: ClassVar[tuple[str, ...]] = ("probs",)
    learns: ClassVar[tuple[Statistic, ...]] = (PredictedProbabilities(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        seen = gathered[PredictedProbabilities()]
        predicted = np.flatnonzero(seen.counts)
        typical = seen.sums[predicted] / seen.counts[predicted, None]
        self.log_typical_ = np.log(np.maximum(typical, _TINY))  # a class no sample ever favored: far, not infinite

    def _score(self, block: Outputs) -> NDArray[Any]:
        # With z taken from the largest logit, w = exp z and r the sum of the other w, p = w / (1 + r), and the nearest
        # posterior is that of the largest w . log d_k. The largest logit has w = 1 and is then added apart, so that a
        # network that is almost sure still gives different numbers.
        logits = logits_of(block) if block.gives_probs else block.logits
        surplus = np.empty(block.n)
        for rows in row_blocks(block.n, row_bytes=8 * sum(self.log_typical_.shape), block_bytes=_IN_CACHE):
            z = logits[rows].astype(np.float64)
            largest, line = np.argmax(z, axis=1), np.arange(len(z))
            z -= z[line, largest, None]
            weights = np.exp(z)
            nearest = np.argmax(row_products(weights, self.log_typical_, transposed=True), axis=1)
            weights[line, largest] = 0
            rest = weights.sum(axis=1)
            z -= self.log_typical_[nearest]
            apart = np.vecdot(weights, z) - self.log_typical_[nearest, largest]
            surplus[rows] = apart / (1 + rest) - np.log1p(rest)
        return np.maximum(surplus, 0, out=surplus)
