r"""Class-typical matching: the angle to the nearest class, told by the head's weights or by the class means.

$$ s(x) = -\max_c \cos(w_c, h) \qquad\text{or}\qquad s(x) = -\max_c \cos(\mu_c, h) $$

Ngoc-Hieu, Hung-Quang, Ta, Nguyen-Tang, Doan and Thanh-Tung, "A Cosine Similarity-based Method for Out-of-Distribution
Detection", 2023, arXiv:2306.14920.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import by_row_blocks
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import ClassMoments, Gathered, Statistic, unit_rows

__all__ = ["CTM", "CTMMean"]


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
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Ngoc-Hieu et al. 2023"

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
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Ngoc-Hieu et al. 2023"

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassMoments(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        moments.demand_every_class("CTMMean")
        self.prototypes_ = unit_rows(moments.means)

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
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    cosines: NDArray[Any] = rows @ prototypes.astype(rows.dtype).T / np.where(lengths > 0, lengths, 1)
    return cosines
