r"""fDBD and NCI: where the centered feature lies relative to the boundaries, or to the weight, of its class.

$$ \text{fDBD: } s(x) = -\frac{1}{C-1} \sum_{c \ne \hat y}
   \frac{|z_{\hat y} - z_c| / \lVert w_{\hat y} - w_c \rVert_2}{\lVert h - \mu \rVert_2}, \qquad
   \text{NCI: } s(x) = -\Bigl( \frac{\langle w_{\hat y}, h - \mu \rangle}{\lVert h - \mu \rVert_2}
   + a \lVert h \rVert_1 \Bigr) $$

fDBD may divide by $\lVert h \rVert_2$ instead of the distance from the mean.

Liu and Qin, "Fast Decision Boundary based Out-of-Distribution Detector", ICML 2024, arXiv:2312.11536.
Liu and Qin, "Detecting Out-of-Distribution through the Lens of Neural Collapse", CVPR 2025, arXiv:2311.01479.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import row_lengths, row_sums
from caveat._internal.params import choice, number
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits
from caveat.scores._statistics import FeatureMean, Gathered, Statistic

__all__ = ["FDBD", "NCI"]

_NEAR = 1e-10  # squared distance, relative to the squared norms, below which the Gram matrix has too few digits


@final
@dataclass(eq=False)
class FDBD(Score):
    """Minus the mean distance to the class boundaries over that to the mean. The larger, the stranger.

    Two classes with the same weights have no boundary between them; the pair adds nothing to the sum.

    Parameters
    ----------
    by
        What the distances are divided by: ``"mean"``, the distance of the feature from the training mean (the paper),
        or ``"norm"``, the length of the feature.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    >>> FDBD().fit(train).score(Outputs(features=[[4.0, 0.0], [2.0, 1.9]])).round(3)
    array([-0.97, -0.11])
    """

    by: Literal["mean", "norm"] = choice("mean", ("mean", "norm"))

    name: ClassVar[str] = "fdbd"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (FeatureMean(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.mean_ = gathered[FeatureMean()].mean
        self.head_weight_, self.head_bias_ = train.head.weight, train.head.bias
        self.reciprocal_ = reciprocal_distances(self.head_weight_)

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        logits = head_logits(rows, self.head_weight_, self.head_bias_)
        predicted = logits.argmax(axis=1)
        gaps = logits[np.arange(block.n), predicted][:, None] - logits
        boundary = np.vecdot(gaps.astype(np.float64), self.reciprocal_[predicted]) / max(1, logits.shape[1] - 1)
        spread = row_lengths(rows - self.mean_ if self.by == "mean" else rows)
        # A row that equals the mean would divide by zero; it is as inlying as rounding can tell.
        floor = np.finfo(np.float64).eps * max(float(np.linalg.norm(self.mean_)), np.finfo(np.float64).tiny)
        return np.asarray(-boundary / np.maximum(spread, floor))


def reciprocal_distances(weight: NDArray[Any]) -> NDArray[np.float64]:
    """One over the distance of every pair of rows, shape (C, C), from the Gram matrix; 0 where the rows are equal.

    >>> reciprocal_distances(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]]))
    array([[0. , 0.2, 0.2],
           [0.2, 0. , 0. ],
           [0.2, 0. , 0. ]])
    """
    wide = weight.astype(np.float64)
    norms = np.einsum("ij,ij->i", wide, wide)
    sizes = norms[:, None] + norms
    squares = sizes - 2 * wide @ wide.T
    left, right = np.nonzero(squares <= _NEAR * sizes)
    for a, b in zip(left, right, strict=True):  # few: equal rows, nearly equal rows and the diagonal
        squares[a, b] = np.sum((wide[a] - wide[b]) ** 2)
    distances = np.sqrt(squares)
    return np.asarray(np.divide(1.0, distances, out=np.zeros_like(distances), where=distances > 0))


@final
@dataclass(eq=False)
class NCI(Score):
    """Minus the alignment of the centered feature with its class weight, less its norm. The larger, the stranger.

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
    learns: ClassVar[tuple[Statistic, ...]] = (FeatureMean(),)
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"strength": (0.0, 1e-4, 1e-3, 1e-2, 1e-1)}

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
        length = row_lengths(rows - self.mean_)
        aligned = np.divide(along, length, out=np.zeros_like(along), where=length > 0)
        return np.asarray(-(aligned + self.strength * row_sums(np.abs(rows))))
