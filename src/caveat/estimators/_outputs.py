"""What a fitted scikit-learn estimator says about rows, as arrays: probabilities or margins, features, one column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.pipeline import Pipeline

from caveat._internal.checks import as_array, check_each
from caveat.errors import InputError
from caveat.outputs import Outputs

__all__ = ["class_numbers", "class_outputs", "features_of", "one_column"]


def one_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """A vector; scikit-learn also gives and takes shape (n, 1)."""
    column = as_array(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(f"{name} must have one value per row, got shape {column.shape}. Wrap one estimator for each "
                         "output.")  # fmt: skip
    return column


def class_numbers(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.intp]:
    """The place of each class name among ``classes``."""
    numbers = {name: i for i, name in enumerate(classes.tolist())}
    column = one_column(y, "y")
    try:
        labels = np.array([numbers.get(name, -1) for name in column.tolist()], dtype=np.intp)
    except TypeError:  # a list or a dict in the place of a class
        raise InputError("y must hold one class per row, got a container. Pass class names or numbers.") from None
    check_each(column, labels >= 0, "y", "hold classes the estimator knows")
    return labels


def class_outputs(
    estimator: Any, x: Any, classes: NDArray[Any], labels: NDArray[np.intp] | None = None, features: Any = None
) -> Outputs:
    """Outputs with one column for each of ``classes``; one that the estimator has not seen has probability 0."""
    own = np.asarray(estimator.classes_)
    columns, are_probs = _class_columns(estimator, x, own.size)
    if own.size < classes.size:
        probs = np.zeros((len(columns), classes.size))
        probs[:, np.searchsorted(classes, own)] = columns if are_probs else softmax(columns, axis=1)
        columns, are_probs = probs, True
    if are_probs:
        return Outputs(probs=columns, labels=labels, features=features)
    return Outputs(logits=columns, labels=labels, features=features)


def _class_columns(estimator: Any, x: Any, n_classes: int) -> tuple[NDArray[Any], bool]:
    """Probabilities, or margins as logits, shape (n, C), and whether they are probabilities."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(x)), True
    margins = np.asarray(estimator.decision_function(x), dtype=np.float64)
    logits = np.column_stack([np.zeros_like(margins), margins]) if margins.ndim == 1 else margins
    pairs = margins.ndim > 1 and getattr(_last_step(estimator), "decision_function_shape", "ovr") == "ovo"
    if pairs or logits.shape[1] != n_classes:
        what = f"one per pair ({logits.shape[1]})" if pairs else f"{logits.shape[1]}"
        raise InputError(
            f"decision_function must give one column per class ({n_classes}), got {what}. For SVC set "
            "decision_function_shape='ovr' (set_params does, without fitting again)."
        )
    return logits, False


def features_of(estimator: Any, x: Any, features: Callable[[Any], ArrayLike] | None) -> Any:
    """Features of rows: by the callable, else what the last step of a pipeline reads, else X; None if not numbers."""
    if features is not None:
        return features(x)
    bare = _bare(estimator)
    rows = bare[:-1].transform(x) if isinstance(bare, Pipeline) and len(bare) > 1 else x
    if issparse(rows):
        return None
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):  # names of categories
        return None
    return matrix if matrix.ndim == 2 and np.isfinite(matrix).all() else None


def _bare(estimator: Any) -> Any:
    """The estimator inside a search or a frozen one."""
    if type(estimator).__name__ == "FrozenEstimator":
        return _bare(estimator.estimator)
    return _bare(estimator.best_estimator_) if hasattr(estimator, "best_estimator_") else estimator


def _last_step(estimator: Any) -> Any:
    bare = _bare(estimator)
    return _last_step(bare.steps[-1][1]) if hasattr(bare, "steps") else bare
