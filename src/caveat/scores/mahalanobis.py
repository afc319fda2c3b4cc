r"""Mahalanobis distance to the nearest class mean, with one covariance for all classes.

$$ s(x) = \min_c\,(h - \mu_c)^\top \Sigma^{-1} (h - \mu_c), \qquad
   \Sigma = \frac1N \sum_c \sum_{i: y_i = c} (h_i - \mu_c)(h_i - \mu_c)^\top + \rho\,\frac{\operatorname{tr}}{D} I $$

As a member of class y, with a covariance of the class's own, shrunk as if D more rows had the common covariance:

$$ s(x, y) = \sqrt{(h - \mu_y)^\top \Sigma_y^{-1} (h - \mu_y)}, \qquad
   \Sigma_y = \frac{n_y \hat\Sigma_y + D\,\Sigma}{n_y + D} $$

The relative distance subtracts the distance to the training data as a whole, with the covariance of all features about
their mean, so that what is unusual about a sample but irrelevant to the classes cancels:

$$ s(x) = \min_c\,(h - \mu_c)^\top \Sigma^{-1} (h - \mu_c) - (h - \mu)^\top \Sigma_0^{-1} (h - \mu) $$

Lee, Lee, Lee and Shin, "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
NeurIPS 2018, eq. (2), arXiv:1807.03888. With ``normalize=True``: Mueller and Hein, "Mahalanobis++", ICML 2025,
arXiv:2505.18032. Class scores: "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction with
Illustrations of Its Benefits", appendix C.4. Relative distance: Ren, Fort, Liu, Roy, Padhy and Lakshminarayanan, "A
Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection", 2021, arXiv:2106.09022.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import count, flag, positive
from caveat._internal.products import row_products
from caveat._internal.rounding import Rounding
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._covariance import class_covariances, nearest_mean, squared_distances, whitener
from caveat.scores._statistics import ClassMoments, Gathered, Statistic, unit_rows

__all__ = ["Mahalanobis", "RelativeMahalanobis"]


@final
@dataclass(eq=False)
class Mahalanobis(Score):
    """Squared Mahalanobis distance to the nearest class mean. The larger, the stranger.

    A covariance for each class would take C x D x D numbers, 34 GB for 1000 classes and 2048 features. The class
    scores keep ``class_rank`` directions of each instead, found among the training rows of one class at a time, and
    treat what is left as equally wide in all directions once the common covariance is whitened. With at most
    ``class_rank`` features nothing is left, and the covariances are exact.

    Parameters
    ----------
    normalize
        Scale features to length one first (Mahalanobis++).
    ridge
        Added to the covariance, as a share of its mean variance: the result does not change when all features are
        scaled, and stays finite with fewer samples than features.
    class_rank
        Directions kept of each class's own covariance, for the class scores alone. 0: the class scores use the common
        covariance, and ``fit`` takes a fifth of the time: it reads the training rows once and whitens none of them.

    Examples
    --------
    >>> train = Outputs(features=[[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0], [1.0, 0.0], [-1.0, 0.0]],
    ...                 labels=[0, 0, 1, 1, 0, 0])
    >>> Mahalanobis().fit(train).score(Outputs(features=[[9.0, 0.0], [4.5, 0.0]])).round(1)
    array([ 0. , 60.7])
    """

    normalize: bool = flag(False)
    ridge: float = positive(1e-6)
    class_rank: int = count(64, least=0)

    name: ClassVar[str] = "mahalanobis"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "labels")

    def without_class_scores(self) -> Score:
        return replace(self, class_rank=0)

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassMoments(self.normalize),)

    def fit_mapped(self, train: Outputs, gathered: Gathered, operator: NDArray[np.float64]) -> Self:
        """Fit as if all rows, those to be scored too, were ``h @ operator`` plus any constant; no row is multiplied.

        Parameters
        ----------
        train
            Training outputs.
        gathered
            Statistics of their rows.
        operator
            Shape (D, D).
        """
        self.prepare(train, gathered)
        self._learn(train, gathered, operator)
        self.fitted_ = True
        return self

    def all_rows(self) -> str:
        return (
            "reads the rows of one class at a time for its class scores (class_rank=0 spares them)"
            if self.class_rank
            else ""
        )

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self._learn(train, gathered, None)

    def _learn(self, train: Outputs, gathered: Gathered, operator: NDArray[np.float64] | None) -> None:
        moments = gathered[ClassMoments(self.normalize)]
        moments.demand_every_class("Mahalanobis")
        self.centre_ = moments.global_mean
        covariance = moments.within_scatter / moments.n
        if operator is None:
            self.whitener_ = whitener(covariance, ridge=self.ridge)
        else:
            self.whitener_ = operator @ whitener(operator.T @ covariance @ operator, ridge=self.ridge)
        self.means_ = (moments.means - self.centre_) @ self.whitener_
        self.class_axes_ = self.class_variances_ = self.class_rest_ = None
        if self.class_rank:
            own = class_covariances(train, moments, self.whitener_, rank=self.class_rank, seed=gathered.seed)
            self.class_axes_, self.class_variances_, self.class_rest_ = own.axes, own.variances, own.rest

    def _score(self, block: Outputs) -> NDArray[Any]:
        return nearest_mean(self._whiten(block), self.means_)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        white = self._whiten(block)
        squared = squared_distances(white, self.means_)
        if self.class_axes_ is None or self.class_variances_ is None or self.class_rest_ is None:
            return np.asarray(np.sqrt(squared))
        for c, axes in enumerate(self.class_axes_):
            along = np.square(row_products(white, axes) - self.means_[c] @ axes)
            rest = np.maximum(squared[:, c] - along.sum(axis=1), 0) if axes.shape[1] < axes.shape[0] else 0
            squared[:, c] = np.vecdot(along, 1 / self.class_variances_[c]) + rest / self.class_rest_[c]
        return np.asarray(np.sqrt(squared))

    def _whiten(self, block: Outputs) -> NDArray[np.float64]:
        rows = unit_rows(block.features.astype(np.float64)) if self.normalize else block.features
        return row_products(rows - self.centre_, self.whitener_)


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
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    @property
    def rounding(self) -> Rounding:
        """Both distances are about as large as the number of features, and so is their noise."""
        return Rounding(unit=2.0 ** int(self.n_features_ or 1).bit_length())

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        moments.demand_every_class("RelativeMahalanobis")
        self.centre_ = moments.global_mean
        self.whitener_ = whitener(moments.within_scatter / moments.n, ridge=self.ridge)
        self.background_ = whitener(moments.total_scatter / moments.n, ridge=self.ridge)
        self.means_ = (moments.means - self.centre_) @ self.whitener_

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features - self.centre_
        white = row_products(rows, self.background_)
        return np.asarray(nearest_mean(row_products(rows, self.whitener_), self.means_) - np.vecdot(white, white))
