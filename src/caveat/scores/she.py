r"""Simplified Hopfield energy: the inner product with the stored pattern of the predicted class.

$$ s(x) = -\langle h, m_{\hat y} \rangle, \qquad m_c = \text{mean of the } h_i \text{ with } \hat y_i = y_i = c $$

Zhang, Fu, Chen, Du, Li, Wang, Liu, Han and Zhang, "Out-of-Distribution Detection based on In-Distribution Data Patterns
Memorization with Modern Hopfield Energy", ICLR 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import Gathered, Merge, Statistic, class_totals, total

__all__ = ["SHE", "RightAnswers"]


@final
@dataclass
class RightAnswers(Statistic):
    """Count and sum of the features of the rightly classified rows, by class."""

    reads: ClassVar[tuple[str, ...]] = ("features", "labels", "predictions")
    merge: ClassVar[Merge] = {"counts": total, "sums": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        right = block.predictions == block.labels
        return class_totals(block.features[right], block.labels[right], self.n_classes)


@final
@dataclass(eq=False)
class SHE(Score):
    """Minus the inner product with the stored pattern of the predicted class. The larger, the stranger.

    A class without a single right answer in training has no pattern. What is predicted as it scores 0, the strangest
    value that features without negative entries can have.

    Examples
    --------
    >>> from caveat import Head
    >>> head = Head([[1.0, 0.0], [0.0, 1.0]])
    >>> train = Outputs(features=[[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]], labels=[0, 0, 1], head=head)
    >>> SHE().fit(train).score(Outputs(features=[[3.0, 0.0], [1.0, 2.0]], head=head))
    array([-9., -2.])
    """

    name: ClassVar[str] = "she"
    needs: ClassVar[tuple[str, ...]] = ("features", "predictions")
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels", "predictions")
    cost: ClassVar[str] = "D + C"
    paper: ClassVar[str] = "Zhang et al. 2023"

    def statistics(self) -> tuple[Statistic, ...]:
        return (RightAnswers(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        right = gathered[RightAnswers()]
        self.patterns_ = right.sums / np.maximum(right.counts, 1)[:, None]

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        stored = self.patterns_.astype(rows.dtype)[block.predictions]
        return np.asarray(-np.einsum("ij,ij->i", rows, stored, dtype=np.float64))
