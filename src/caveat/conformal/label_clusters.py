r"""Classes with alike scores share a threshold: class-conditional coverage for many classes with few samples each.

On a split of its own, each class y is embedded as the quantiles of its true-label scores,

$$ z_y = \bigl( \hat Q_y(0.5), \hat Q_y(0.6), \hat Q_y(0.7), \hat Q_y(0.8), \hat Q_y(0.9), \hat Q_y(1 - \alpha) \bigr)$$

and k-means with weights $\sqrt{n_y}$ groups the classes. Classes with fewer than $1 / \min(\alpha, 0.1) - 1$ rows there
form a cluster of their own, the pooled one. The other rows set one threshold per cluster. Ding, Angelopoulos, Bates,
Jordan and Tibshirani, "Class-Conditional Conformal Prediction with Many Classes", NeurIPS 2023, arXiv:2306.09335,
section 2.2. One thing differs: there the pooled classes take the threshold of all rows, which promises them nothing;
here they take that of the pooled rows, as every cluster does.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import Rng, as_rng, exact_level
from caveat._internal.params import check_params, count, level

__all__ = ["LabelClusters"]

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)


@final
@dataclass(frozen=True)
class LabelClusters:
    """How ``SplitSets(by=...)`` clusters the classes; ``by="cluster"`` stands for ``LabelClusters()``.

    Parameters
    ----------
    share
        Share of the calibration rows that is used to cluster, and for nothing else. None: C / (75 + C) for C classes,
        as in the paper: the more classes, the more rows it takes to tell them apart.
    clusters
        How many clusters. None: half the rows of the smallest class that is not pooled, at least one.
    least
        A class with fewer rows in that share is pooled. None: 1 / min(alpha, 0.1) - 1.

    Examples
    --------
    >>> scores, labels = np.array([0.1, 0.2, 0.1, 0.2, 0.8, 0.9, 0.5]), np.array([0, 0, 1, 1, 2, 2, 3])
    >>> LabelClusters(clusters=2, least=2).clusters_of(scores, labels, 4, alpha=0.5, rng=0)
    array([1, 1, 2, 0])
    """

    share: float | None = level(None)
    clusters: int | None = count(None)
    least: int | None = count(None)

    def __post_init__(self) -> None:
        check_params(self)

    def rows(self, n: int, n_classes: int, rng: Rng) -> NDArray[np.intp]:
        """The rows that cluster, in order: a random share, without a look at the labels.

        Parameters
        ----------
        n
            Number of calibration rows.
        n_classes
            Number of classes.
        rng
            Draws the rows.

        Returns
        -------
        integer array
            Row numbers.
        """
        share = n_classes / (75 + n_classes) if self.share is None else self.share
        return np.sort(as_rng(rng).permutation(n)[: min(n - 1, math.ceil(share * n))])

    def clusters_of(
        self,
        scores: NDArray[np.float64],
        labels: NDArray[np.intp],
        n_classes: int,
        *,
        alpha: float,
        rng: Rng,
    ) -> NDArray[np.intp]:
        """The cluster of each class, shape (C,): 0 is the pooled one, the others by rising scores.

        Parameters
        ----------
        scores
            Nonconformity of the true labels, shape (n,).
        labels
            The true labels, shape (n,).
        n_classes
            Number of classes C.
        alpha
            Allowed error of the sets, which says how many rows a class needs.
        rng
            Draws the start of k-means.

        Returns
        -------
        integer array of shape (C,)
            The clusters.
        """
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning

        counts = np.bincount(labels, minlength=n_classes)
        common = np.flatnonzero(counts >= (_least(alpha) if self.least is None else self.least))
        cluster_of = np.zeros(n_classes, dtype=np.intp)
        if not common.size:
            return cluster_of
        clusters = max(1, int(counts[common].min()) // 2) if self.clusters is None else self.clusters
        levels = sorted({*_LEVELS, 1 - float(alpha)})
        places = np.array([np.quantile(scores[labels == label], levels) for label in common])
        model = KMeans(min(clusters, common.size), n_init=10, random_state=int(as_rng(rng).integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct classes than clusters: some stay empty
            number = model.fit(places, sample_weight=np.sqrt(counts[common])).labels_
        order = np.argsort(np.argsort(model.cluster_centers_.sum(axis=1), kind="stable"))
        cluster_of[common] = 1 + order[number]
        return cluster_of


def _least(alpha: float) -> int:
    return math.ceil(1 / exact_level(min(alpha, 0.1), "alpha")) - 1
