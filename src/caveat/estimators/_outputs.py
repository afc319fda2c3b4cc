"""Outputs of a fitted scikit-learn classifier that may have seen fewer classes than there are, and features of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.pipeline import Pipeline

from caveat.outputs import Outputs
from caveat.outputs.estimator import bare_estimator, class_columns, class_names_of

__all__ = ["class_outputs", "features_of"]


def class_outputs(
    estimator: Any, x: Any, classes: NDArray[Any], labels: NDArray[np.intp] | None = None, features: Any = None
) -> Outputs:
    """Outputs with one column for each of ``classes``; one that the estimator has not seen has probability 0."""
    own = np.asarray(estimator.classes_)
    columns, are_probs = class_columns(estimator, x, own.size)
    if own.size < classes.size:
        probs = np.zeros((len(columns), classes.size))
        probs[:, np.searchsorted(classes, own)] = columns if are_probs else softmax(columns, axis=1)
        columns, are_probs = probs, True
    fields: dict[str, Any] = {"probs" if are_probs else "logits": columns}
    return Outputs(**fields, labels=labels, features=features, class_names=class_names_of(classes))


def features_of(estimator: Any, x: Any, features: Callable[[Any], ArrayLike] | None) -> Any:
    """Features of rows: by the callable, else what the last step of a pipeline reads, else X; None if not numbers."""
    if features is not None:
        return features(x)
    bare = bare_estimator(estimator)
    rows = bare[:-1].transform(x) if isinstance(bare, Pipeline) and len(bare) > 1 else x
    if issparse(rows):
        return None
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):  # names of categories
        return None
    return matrix if matrix.ndim == 2 and np.isfinite(matrix).all() else None
