"""Class-dependent OOD scores of paper appendix C, for those that the catalogue does not give by class.

Each has ``fit(train)`` and ``class_scores(outputs) -> (n, C)``; the larger, the stranger as a member of that class.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from caveat import Outputs

Floats = NDArray[np.float64]


class ReActByClass:
    """Minus the logits of the head on features cut at a percentile of all training activations."""

    def __init__(self, percentile: float = 90) -> None:
        self.percentile = percentile

    def fit(self, train: Outputs) -> Self:
        self.cut = float(np.percentile(train.features.astype(np.float64), self.percentile))
        return self

    def class_scores(self, outputs: Outputs) -> Floats:
        features = np.minimum(outputs.features.astype(np.float64), self.cut)
        return np.asarray(-outputs.head.logits(features), dtype=np.float64)


class KNNByClass:
    """Distance to the k-th nearest training feature that the model predicts as the class, rows of length one."""

    def __init__(self, k: int = 1) -> None:
        self.k = k

    def fit(self, train: Outputs) -> Self:
        rows, predicted = _unit(train.features), train.predictions
        self.banks = [rows[predicted == c] for c in range(int(train.n_classes or 0))]
        return self

    def class_scores(self, outputs: Outputs) -> Floats:
        rows = _unit(outputs.features)
        found = np.empty((outputs.n, len(self.banks)))
        for c, bank in enumerate(self.banks):
            close = np.partition(rows @ bank.T, bank.shape[0] - self.k, axis=1)[:, bank.shape[0] - self.k]
            found[:, c] = np.sqrt(np.maximum(2 - 2 * close, 0))
        return found


class MahalanobisByClass:
    """Distance to the class mean by the covariance of the class, shrunk towards a multiple of the identity."""

    def fit(self, train: Outputs) -> Self:
        from sklearn.covariance import ledoit_wolf

        features, labels = train.features.astype(np.float64), train.labels
        self.means, self.whiteners = [], []
        for c in range(int(train.n_classes or 0)):
            rows = features[labels == c]
            covariance, _ = ledoit_wolf(rows)
            values, vectors = np.linalg.eigh(covariance)
            self.means.append(rows.mean(axis=0))
            self.whiteners.append(vectors / np.sqrt(values))
        return self

    def class_scores(self, outputs: Outputs) -> Floats:
        features = outputs.features.astype(np.float64)
        parts = [np.linalg.norm((features - m) @ w, axis=1) for m, w in zip(self.means, self.whiteners, strict=True)]
        return np.column_stack(parts)


def _unit(features: NDArray[np.generic]) -> Floats:
    rows = features.astype(np.float64)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
