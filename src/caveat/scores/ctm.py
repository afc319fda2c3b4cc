r"""CTM and SHE: how well the feature matches a prototype of a class (head weights, class mean or stored pattern).

$$ \text{CTM: } s(x) = -\max_c \cos(w_c, h) \quad\text{or}\quad -\max_c \cos(\mu_c, h), \qquad
   \text{SHE: } s(x) = -\langle h, m_{\hat y} \rangle, \quad
   m_c = \text{mean of the } h_i \text{ with } \hat y_i = y_i = c $$

SHE may take minus the cosine with $m_{\hat y}$, or the distance to it, instead of the inner product.

Ngoc-Hieu, Hung-Quang, Ta, Nguyen-Tang, Doan and Thanh-Tung, "A Cosine Similarity-based Method for Out-of-Distribution
Detection", 2023, arXiv:2306.14920. Zhang, Fu, Chen, Du, Li, Wang, Liu, Han and Zhang, "Out-of-Distribution Detection
based on In-Distribution Data Patterns Memorization with Modern Hopfield Energy", ICLR 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import by_row_blocks
from caveat._internal.by_row import row_lengths
from caveat._internal.params import choice
from caveat._internal.products import row_products
from caveat._internal.rounding import NEAR_MINUS_ONE, Rounding
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import (
    Accumulator,
    ClassMoments,
    Gathered,
    Merge,
    Statistic,
    class_totals,
    total,
    unit_rows,
)

__all__ = ["CTM", "SHE", "CTMMean", "RightAnswers"]


@final
@dataclass(eq=False)
class CTM(Score):
    """Minus the largest cosine between the feature and a row of the head's weights. The larger, the stranger.

    A zero feature has cosine 0 with everything. Needs no training data: the head has learned the classes.

    Examples
    --------
    >>> from caveat import Head
    >>> head = Head([[1.0, 0.0], [0.0, 2.0]])
    >>> CTM().score(Outputs(features=[[0.0, 5.0], [3.0, 3.0]], head=head)).round(3)
    array([-1.   , -0.707])
    """

    name: ClassVar[str] = "ctm"
    needs: ClassVar[tuple[str, ...]] = ("features", "head")

    @property
    def rounding(self) -> Rounding:
        return NEAR_MINUS_ONE

    def _score(self, block: Outputs) -> NDArray[Any]:
        return _nearest(block.features, unit_rows(block.head.weight))

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the cosine with the weights of each class."""
        return -_cosines(block.features, unit_rows(block.head.weight))


@final
@dataclass(eq=False)
class CTMMean(Score):
    """Minus the largest cosine between the feature and a class mean. The larger, the stranger.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]], labels=[0, 0, 1])
    >>> CTMMean().fit(train).score(Outputs(features=[[0.0, 5.0], [3.0, 3.0]])).round(3)
    array([-1.   , -0.707])
    """

    name: ClassVar[str] = "ctm_mean"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels")
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        moments.demand_every_class("CTMMean")
        self.prototypes_ = unit_rows(moments.means)

    @property
    def rounding(self) -> Rounding:
        return NEAR_MINUS_ONE

    def _score(self, block: Outputs) -> NDArray[Any]:
        return _nearest(block.features, self.prototypes_)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the cosine with the mean of each class."""
        return -_cosines(block.features, self.prototypes_)


def _nearest(rows: NDArray[Any], prototypes: NDArray[Any]) -> NDArray[Any]:
    """Minus the largest cosine (n,) of each row with a unit prototype."""
    return by_row_blocks(lambda part: -_cosines(part, prototypes).max(axis=1), rows, row_bytes=8 * prototypes.shape[0])


def _cosines(rows: NDArray[Any], prototypes: NDArray[Any]) -> NDArray[Any]:
    """Cosine (n, C) of each row with each unit prototype. Dividing the product is cheaper than dividing the rows."""
    lengths = row_lengths(rows)[:, None]
    return row_products(rows, prototypes, transposed=True) / np.where(lengths > 0, lengths, 1)


@final
@dataclass
class RightAnswers(Accumulator):
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
    value that features without negative entries can have; by distance, as far as the farthest pattern there is.

    Parameters
    ----------
    metric
        How a feature is compared with its pattern: ``"inner"`` (the paper), ``"cosine"`` or ``"euclidean"`` (variants
        of its ablation).

    Examples
    --------
    >>> from caveat import Head
    >>> head = Head([[1.0, 0.0], [0.0, 1.0]])
    >>> train = Outputs(features=[[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]], labels=[0, 0, 1], head=head)
    >>> SHE().fit(train).score(Outputs(features=[[3.0, 0.0], [1.0, 2.0]], head=head))
    array([-9., -2.])
    """

    metric: Literal["inner", "cosine", "euclidean"] = choice("inner", ("inner", "cosine", "euclidean"))

    name: ClassVar[str] = "she"
    needs: ClassVar[tuple[str, ...]] = ("features", "predictions")
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels", "predictions")
    learns: ClassVar[tuple[Statistic, ...]] = (RightAnswers(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        right = gathered[RightAnswers()]
        self.patterns_ = right.sums / np.maximum(right.counts, 1)[:, None]
        self.stored_ = np.flatnonzero(right.counts)

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows, predicted = block.features, block.predictions
        if self.metric == "euclidean":
            return self._distances(rows, predicted)
        patterns = self.patterns_ if self.metric == "inner" else unit_rows(self.patterns_)
        products = np.vecdot(rows.astype(np.float64, copy=False), patterns[predicted])
        if self.metric == "cosine":
            lengths = row_lengths(rows)
            products /= np.where(lengths > 0, lengths, 1)
        return np.asarray(-products)

    def _distances(self, rows: NDArray[Any], predicted: NDArray[np.intp]) -> NDArray[np.float64]:
        distances = np.linalg.norm(rows - self.patterns_[predicted], axis=1)
        unknown = np.flatnonzero(~np.isin(predicted, self.stored_))
        if unknown.size and self.stored_.size:
            far = [np.linalg.norm(rows[unknown] - self.patterns_[c], axis=1) for c in self.stored_]
            distances[unknown] = np.max(far, axis=0)
        return np.asarray(distances)
