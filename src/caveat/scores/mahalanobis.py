r"""Mahalanobis distance to the nearest class mean, with one covariance for all classes.

$$ s(x) = \min_c\,(h - \mu_c)^\top \Sigma^{-1} (h - \mu_c), \qquad
   \Sigma = \frac1N \sum_c \sum_{i: y_i = c} (h_i - \mu_c)(h_i - \mu_c)^\top + \rho\,\frac{\operatorname{tr}}{D} I $$

Lee, Lee, Lee and Shin, "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
NeurIPS 2018, eq. (2), arXiv:1807.03888. With ``normalize=True``: Mueller and Hein, "Mahalanobis++", ICML 2025,
arXiv:2505.18032.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._checks import as_positive
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import ClassMoments, Gathered, Statistic, unit_rows

__all__ = ["Mahalanobis"]


@final
@dataclass(eq=False)
class Mahalanobis(Score):
    """Squared Mahalanobis distance to the nearest class mean. The larger, the stranger.

    Parameters
    ----------
    normalize
        Scale features to length one first (Mahalanobis++).
    ridge
        Added to the covariance, as a share of its mean variance: the result does not change when all features are
        scaled, and stays finite with fewer samples than features.

    Examples
    --------
    >>> train = Outputs(features=[[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0], [1.0, 0.0], [-1.0, 0.0]],
    ...                 labels=[0, 0, 1, 1, 0, 0])
    >>> Mahalanobis().fit(train).score(Outputs(features=[[9.0, 0.0], [4.5, 0.0]])).round(1)
    array([ 0. , 60.7])
    """

    normalize: bool = False
    ridge: float = 1e-6

    name: ClassVar[str] = "mahalanobis"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels")
    cost: ClassVar[str] = "D² + CD"
    paper: ClassVar[str] = "Lee et al. 2018, eq. 2"

    def __post_init__(self) -> None:
        as_positive(self.ridge, "ridge")

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassMoments(self.normalize),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments(self.normalize)]
        moments.demand_every_class("Mahalanobis")
        self.centre_ = moments.global_mean
        self.whitener_ = whitener(moments.within_scatter / moments.n, ridge=self.ridge)
        self.means_ = (moments.means - self.centre_) @ self.whitener_

    def _score(self, block: Outputs) -> NDArray[Any]:
        return nearest_mean(self._whiten(block), self.means_)

    def _whiten(self, block: Outputs) -> NDArray[Any]:
        rows = unit_rows(block.features) if self.normalize else block.features
        white: NDArray[Any] = (rows - self.centre_.astype(rows.dtype)) @ self.whitener_.astype(rows.dtype)
        return white


def whitener(covariance: NDArray[np.float64], *, ridge: float) -> NDArray[np.float64]:
    """A matrix W with W W^T = (covariance + ridge * its mean variance * I)^-1."""
    scale = float(np.trace(covariance)) / covariance.shape[0]
    if not scale > 0:
        raise InputError("features must vary within at least one class, but every row equals its class mean.")
    values, vectors = np.linalg.eigh(covariance / scale)
    scaled: NDArray[np.float64] = vectors / np.sqrt((np.maximum(values, 0) + ridge) * scale)
    return scaled


def nearest_mean(rows: NDArray[Any], means: NDArray[np.float64]) -> NDArray[Any]:
    """Squared Euclidean distance of each row to the nearest mean."""
    lengths = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    pull = rows @ means.astype(rows.dtype).T
    offsets = np.einsum("ij,ij->i", means, means) / 2
    return np.asarray(np.maximum(lengths + 2 * np.min(offsets.astype(rows.dtype) - pull, axis=1), 0))
