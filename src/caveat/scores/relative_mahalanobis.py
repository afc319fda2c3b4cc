r"""Mahalanobis distance to the nearest class, less the distance to the training data as a whole.

$$ s(x) = \min_c\,(h - \mu_c)^\top \Sigma^{-1} (h - \mu_c) - (h - \mu)^\top \Sigma_0^{-1} (h - \mu) $$

with the pooled within-class covariance and the covariance of all features about their mean. What is odd about a sample
in a way that no class cares for cancels.

Ren, Fort, Liu, Roy, Padhy and Lakshminarayanan, "A Simple Fix to Mahalanobis Distance for Improving Near-OOD
Detection", 2021, arXiv:2106.09022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import positive
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import ClassMoments, Gathered, Statistic
from caveat.scores._whitening import nearest_mean, whitener

__all__ = ["RelativeMahalanobis"]


@final
@dataclass(eq=False)
class RelativeMahalanobis(Score):
    """Squared Mahalanobis distance to the nearest class minus that to all training data. The larger, the stranger.

    Parameters
    ----------
    ridge
        Added to both covariances, as a share of their mean variance.

    Examples
    --------
    >>> train = Outputs(features=[[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0], [1.0, 0.0], [-1.0, 0.0]],
    ...                 labels=[0, 0, 1, 1, 0, 0])
    >>> near, between, aside = [9.0, 0.0], [4.5, 0.0], [9.0, 2.0]
    >>> RelativeMahalanobis().fit(train).score(Outputs(features=[near, between, aside])).round(1)
    array([-2. , 60.6, -2. ])
    """

    ridge: float = positive(1e-6)

    name: ClassVar[str] = "relative_mahalanobis"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels")
    cost: ClassVar[str] = "D² + CD"
    paper: ClassVar[str] = "Ren et al. 2021"

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassMoments(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        moments.demand_every_class("RelativeMahalanobis")
        self.centre_ = moments.global_mean
        self.whitener_ = whitener(moments.within_scatter / moments.n, ridge=self.ridge)
        self.background_ = whitener(moments.total_scatter / moments.n, ridge=self.ridge)
        self.means_ = (moments.means - self.centre_) @ self.whitener_

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features - self.centre_.astype(block.features.dtype)
        white = rows @ self.background_.astype(rows.dtype)
        background = np.einsum("ij,ij->i", white, white, dtype=np.float64)
        nearest = nearest_mean(rows @ self.whitener_.astype(rows.dtype), self.means_)
        return np.asarray(nearest - background)
