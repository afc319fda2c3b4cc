r"""Mahalanobis distance at several layers, combined into one number.

$$ s(x) = \sum_l w_l \, \frac{d_l(x) - m_l}{q_l}, \qquad
   d_l(x) = \min_c\,(h_l - \mu_{l,c})^\top \Sigma_l^{-1} (h_l - \mu_{l,c}) $$

where $h_l$ holds the channels of layer l averaged over positions, and $m_l$, $q_l$ are mean and standard deviation of
$d_l$ over the training rows; a layer with as many channels as rows has no such deviation, and $q_l = 1$. The weights
are equal, or learned by logistic regression from samples known to be in and out of the distribution.

Lee, Lee, Lee and Shin, "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
NeurIPS 2018, section 2.2 and algorithm 1, arXiv:1807.03888.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import positive
from caveat._internal.products import row_products
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._covariance import nearest_mean, whitener
from caveat.scores._statistics import Accumulator, ClassMoments, Gathered, Merge, Statistic, total
from caveat.scores.gram import known_layers

__all__ = ["LayerMoments", "LayerSpread", "MDSEnsemble"]

# As a share of the mean distance. With as many channels as rows, all training rows are equally far from their means,
# but for the ridge and rounding. Where there is a spread, the share is near sqrt(2 / channels).
_SMALLEST_SPREAD = 1e-3


@final
@dataclass
class LayerMoments(Statistic):
    """:class:`ClassMoments` of the channel means, by name of the layer."""

    reads: ClassVar[tuple[str, ...]] = ("layers", "labels")
    merge: ClassVar[Merge] = {"of": lambda one, other: {name: moments + other[name] for name, moments in one.items()}}

    def begin(self, train: Outputs) -> None:
        assert train.n_classes is not None
        self.of = {name: ClassMoments() for name in train.layers}
        for name, moments in self.of.items():
            moments.make_room(train.n_classes, train.layers[name].shape[1])

    def update(self, block: Outputs) -> None:
        for name, moments in self.of.items():
            moments.add_rows(channel_means(block.layers[name]), block.labels)


@final
@dataclass(eq=False)
class MDSEnsemble(Score):
    """Weighted mean of the standardized Mahalanobis distances of all layers. The larger, the stranger.

    Parameters
    ----------
    ridge
        Added to each covariance, as a share of its mean variance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> layers = {"early": rng.normal(size=(50, 2, 3, 3)), "late": rng.normal(size=(50, 4))}
    >>> score = MDSEnsemble().fit(Outputs(layers=layers, labels=np.arange(50) % 2))
    >>> far = {"early": np.full((1, 2, 3, 3), 5.0), "late": np.zeros((1, 4))}
    >>> bool(score.score(Outputs(layers=far))[0] > score.score(Outputs(layers=layers)).max())
    True
    """

    ridge: float = positive(1e-6)

    name: ClassVar[str] = "mds_ensemble"
    needs: ClassVar[tuple[str, ...]] = ("layers",)
    fits_on: ClassVar[tuple[str, ...]] = ("layers", "labels")
    learns: ClassVar[tuple[Statistic, ...]] = (LayerMoments(),)

    def _further(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        of = gathered[LayerMoments()].of
        self.layers_ = np.array(list(of))
        self.channels_ = np.array([moments.means.shape[1] for moments in of.values()], dtype=np.intp)
        centers, whiteners, means = [], [], []
        for name, moments in of.items():
            moments.demand_every_class("MDSEnsemble")
            white = whitener(moments.within_scatter / moments.n, ridge=self.ridge, what=f"layers[{name!r}]")
            centers.append(moments.global_mean)
            whiteners.append(white.ravel())
            means.append((moments.means - moments.global_mean) @ white)
        # One flat array of each kind, cut again by ``channels_``: a fitted score holds arrays and nothing else.
        self.centres_, self.whiteners_ = np.concatenate(centers), np.concatenate(whiteners)
        self.means_ = np.hstack(means)
        return (LayerSpread(self.ridge, self),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        seen = gathered[LayerSpread(self.ridge, self)]
        self.shift_ = seen.sum / seen.n
        spread = np.sqrt(np.maximum(seen.squares / seen.n - self.shift_**2, 0))
        self.spread_ = np.where(spread > _SMALLEST_SPREAD * self.shift_, spread, 1)
        self.weights_ = np.full(self.layers_.size, 1 / self.layers_.size)

    def fit_weights(self, *, inlier: Outputs, outlier: Outputs) -> Self:
        """Learn the weights of the layers by logistic regression from samples known to be in and out.

        This tunes the score on outliers: numbers measured on the same kind of outliers afterwards are not those of an
        unseen one.

        Parameters
        ----------
        inlier, outlier
            Outputs with the layers of the fit.
        """
        from sklearn.linear_model import LogisticRegression

        rows = [self._standardized(outputs) for outputs in (inlier, outlier)]
        model = LogisticRegression(class_weight="balanced", max_iter=1000)
        model.fit(np.concatenate(rows), np.repeat([0, 1], [inlier.n, outlier.n]))
        self.weights_ = np.asarray(model.coef_[0], dtype=np.float64)
        return self

    def layer_distances(self, outputs: Outputs) -> NDArray[np.float64]:
        """Squared Mahalanobis distance to the nearest class at each layer, shape (n, layers).

        Parameters
        ----------
        outputs
            Outputs of n samples, with the layers of the fit.

        Returns
        -------
        array of shape (n, layers)
            The distances.
        """
        starts = np.concatenate([[0], np.cumsum(self.channels_)])
        corners = np.concatenate([[0], np.cumsum(self.channels_**2)])
        columns = []
        for i, layer in enumerate(known_layers(outputs.layers, self.layers_, self.channels_)):
            span = slice(starts[i], starts[i + 1])
            square = self.whiteners_[corners[i] : corners[i + 1]].reshape(self.channels_[i], self.channels_[i])
            rows = channel_means(layer)
            white = row_products(rows - self.centres_[span], square)
            columns.append(nearest_mean(white, self.means_[:, span]))
        return np.stack(columns, axis=1).astype(np.float64)

    def _standardized(self, outputs: Outputs) -> NDArray[np.float64]:
        self._can_score(outputs)
        parts = [self.layer_distances(block) for block in outputs.blocks(self.needs)]
        return np.asarray((np.concatenate(parts) - self.shift_) / self.spread_)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(np.vecdot((self.layer_distances(block) - self.shift_) / self.spread_, self.weights_))


@final
@dataclass
class LayerSpread(Accumulator):
    """Sums of the layers' distances over the training rows, and of their squares."""

    ridge: float
    score: MDSEnsemble = field(compare=False, repr=False)  # knows the means and whiteners of that ridge

    reads: ClassVar[tuple[str, ...]] = ("layers",)
    merge: ClassVar[Merge] = {"n": total, "sum": total, "squares": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        distances = self.score.layer_distances(block)
        return {"n": block.n, "sum": distances.sum(axis=0), "squares": (distances**2).sum(axis=0)}


def channel_means(layer: NDArray[Any]) -> NDArray[Any]:
    """Mean over the positions of each channel, shape (n, channels), in the float type of the layer."""
    if layer.ndim == 2:
        return layer
    means = layer.reshape(*layer.shape[:2], -1).mean(axis=2, dtype=np.float64)
    return np.asarray(means.astype(layer.dtype))
