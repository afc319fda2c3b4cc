r"""Reconstruction error of the training features' principal subspace, relative to the feature's length.

$$ s(x) = \frac{\lVert h - \hat h \rVert_2}{\lVert h \rVert_2}, \qquad \hat h = U U^\top (h - \mu) + \mu $$

Guan, Liu, Zheng, Zhou and Wang, "Revisit PCA-based Technique for Out-of-Distribution Detection", ICCV 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import level
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import ClassMoments, Gathered, Statistic
from caveat.scores._subspaces import components_for, principal_directions

__all__ = ["PCAError"]


@final
@dataclass(eq=False)
class PCAError(Score):
    """Share of the feature's length that lies outside the principal subspace. The larger, the stranger.

    A zero feature, which has no length to share, scores the plain length of what lies outside.

    Parameters
    ----------
    variance
        Share of the training variance that the subspace holds, with as few components as will do. At least one
        direction is always left out.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 1.0], [3.0, 1.0], [5.0, 1.0]])
    >>> PCAError().fit(train).score(Outputs(features=[[9.0, 1.0], [3.0, 4.0]])).round(3)
    array([0. , 0.6])
    """

    variance: float = level(0.95)

    name: ClassVar[str] = "pca_error"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    cost: ClassVar[str] = "D²"
    paper: ClassVar[str] = "Guan et al. 2023"

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassMoments(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        values, vectors = principal_directions(moments.total_scatter)
        self.centre_ = moments.global_mean
        self.outside_ = vectors[:, components_for(values, self.variance) :]

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        left = (rows - self.centre_.astype(rows.dtype)) @ self.outside_.astype(rows.dtype)
        lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(np.linalg.norm(left, axis=1) / np.where(lengths > 0, lengths, 1))
