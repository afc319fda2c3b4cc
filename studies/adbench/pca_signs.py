"""PyOD's PCA with the signs of components that scikit-learn took from U, as when the published tables were made.

PyOD sums the distances of a row to the components, taken as points, so their signs matter, which a decomposition leaves
open. scikit-learn made the largest entry of each column of U positive; newer versions do so with each row of V.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyod.models.pca import PCA


class PCASignsOfU(PCA):  # type: ignore[misc]
    """PyOD's PCA; a component points to the side of the training row that lies farthest along it."""

    def fit(self, X: Any, y: Any = None) -> PCASignsOfU:
        super().fit(X)
        along = self.detector_.transform(self.scaler_.transform(X))  # U times the singular values
        signs = signs_of_columns(along)
        self.components_ = self.components_ * signs[:, None]
        self.selected_components_ = self.components_[-self.n_selected_components_ :]
        self.decision_scores_ = self.decision_function(X)
        self._process_decision_scores()
        return self


def signs_of_columns(columns: NDArray[Any]) -> NDArray[np.float64]:
    """Sign of the entry of each column with the largest absolute value.

    >>> signs_of_columns(np.array([[1.0, 0.5], [-3.0, 2.0]]))
    array([-1.,  1.])
    """
    largest = np.abs(columns).argmax(axis=0)
    return np.asarray(np.sign(columns[largest, np.arange(columns.shape[1])]))
