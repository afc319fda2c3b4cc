r"""Principal subspace of the training features: how much of a feature lies outside it, or inside it.

$$ \text{PCA error: } s(x) = \frac{\lVert h - \hat h \rVert_2}{\lVert h \rVert_2}, \qquad
   \hat h = U U^\top (h - \mu) + \mu $$

$$ \text{NECO: } s(x) = -\frac{\lVert P_d^\top \tilde h \rVert_2}{\lVert \tilde h \rVert_2}\;[\,\times \max_k z_k(x)\,],
   \qquad \tilde h_j = (h_j - \mu_j) / \sigma_j $$

Guan, Liu, Zheng, Zhou and Wang, "Revisit PCA-based Technique for Out-of-Distribution Detection", ICCV 2023.
Ben Ammar, Belkhir, Popescu, Manzanera and Franchi, "NECO: NEural Collapse Based Out-of-distribution detection",
ICLR 2024, arXiv:2310.06823.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import row_lengths
from caveat._internal.checks import as_count
from caveat._internal.params import check_params, count, flag, level
from caveat._internal.products import row_products
from caveat._internal.rounding import NEAR_MINUS_ONE, Rounding
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import ClassMoments, Gathered, Statistic
from caveat.scores._subspaces import components_for, principal_directions

__all__ = ["NECO", "PCAError"]


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
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"variance": (0.5, 0.8, 0.9, 0.95, 0.99)}
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        values, vectors = principal_directions(moments.total_scatter)
        self.centre_ = moments.global_mean
        self.outside_ = vectors[:, components_for(values, self.variance) :]

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        left = row_products(rows - self.centre_, self.outside_)
        lengths = row_lengths(rows)
        return np.asarray(row_lengths(left) / np.where(lengths > 0, lengths, 1))


@final
@dataclass(eq=False)
class NECO(Score):
    """Minus the share of the standardized feature's length inside the principal subspace. The larger, the stranger.

    A feature at the training mean has no direction, and scores 0.

    Parameters
    ----------
    dimension
        d, the number of components; the authors' ImageNet runs use 100. None: as many as ``variance`` takes.
    variance
        Share of the variance of the standardized training features that the components hold. Not read where
        ``dimension`` is given.
    times_max_logit
        Multiply by the largest logit, which brings the scale of the classes back; the outputs then need logits.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 1.0], [2.0, 2.1], [3.0, 2.9]])
    >>> NECO().fit(train).score(Outputs(features=[[5.0, 5.0], [5.0, -1.0]])).round(2)
    array([-1.  , -0.02])
    """

    dimension: int | None = count(None)
    variance: float = level(0.9)
    times_max_logit: bool = flag(False)

    name: ClassVar[str] = "neco"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"variance": (0.5, 0.8, 0.9, 0.95, 0.99)}
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    def __post_init__(self) -> None:
        check_params(self)
        if self.times_max_logit:
            self.needs = ("features", "logits")  # type: ignore[misc]  # this one reads more than its class does

    @property
    def rounding(self) -> Rounding:
        return Rounding() if self.times_max_logit else NEAR_MINUS_ONE

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        moments = gathered[ClassMoments()]
        covariance = moments.total_scatter / moments.n
        width = covariance.shape[0]
        if self.dimension is not None:
            as_count(self.dimension, "dimension", most=width - 1)
        spread = np.sqrt(np.diag(covariance))
        self.centre_, self.spread_ = moments.global_mean, np.where(spread > 0, spread, 1)
        values, vectors = principal_directions(covariance / np.outer(self.spread_, self.spread_))
        self.inside_ = vectors[:, : self.dimension or components_for(values, self.variance)]

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = (block.features - self.centre_) / self.spread_
        lengths = row_lengths(rows)
        share = row_lengths(row_products(rows, self.inside_)) / np.where(lengths > 0, lengths, 1)
        return np.asarray(-share * block.logits.max(axis=1) if self.times_max_logit else -share)
