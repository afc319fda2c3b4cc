"""Outputs of a fitted scikit-learn classifier: one column per class, in the order of ``classes_``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_able, as_array, check_each
from caveat._internal.classes import as_class_names
from caveat.errors import InputError
from caveat.outputs.outputs import Outputs

__all__ = ["bare_estimator", "class_columns", "class_names_of", "class_numbers", "one_column", "outputs_of_estimator"]


def outputs_of_estimator(estimator: Any, x: Any, y: ArrayLike | None = None) -> Outputs:
    """Probabilities, or decision values as logits, with labels and class names: :meth:`Outputs.from_sklearn`."""
    classes = getattr(as_able(estimator, ("predict",), "estimator"), "classes_", None)
    if classes is None:
        raise InputError(f"estimator must be a fitted classifier with classes_, got {type(estimator).__name__}.")
    if isinstance(classes, list):
        raise InputError(f"estimator must have one output, got {len(classes)}. Take the outputs of each by itself.")
    classes = np.asarray(classes)
    columns, are_probs = class_columns(estimator, x, classes.size)
    labels = None if y is None else class_numbers(y, classes)
    fields: dict[str, Any] = {"probs" if are_probs else "logits": columns}
    return Outputs(**fields, labels=labels, class_names=class_names_of(classes))


def class_columns(estimator: Any, x: Any, n_classes: int) -> tuple[NDArray[Any], bool]:
    """Probabilities, or margins as logits, shape (n, C), and whether they are probabilities."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(x)), True
    if not hasattr(estimator, "decision_function"):
        raise InputError(
            f"{type(estimator).__name__} has neither predict_proba nor decision_function, so that labels cannot be "
            "ranked. Calibrate it with sklearn.calibration.CalibratedClassifierCV."
        )
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


def class_names_of(classes: NDArray[Any]) -> tuple[str, ...] | None:
    """The names of ``classes_`` as text; None where classes are the numbers 0..C-1.

    Examples
    --------
    >>> class_names_of(np.array([1, 2])), class_names_of(np.array([0, 1]))
    (('1', '2'), None)
    """
    numbered = classes.dtype.kind in "iuf" and np.array_equal(classes, np.arange(classes.size))
    return None if numbered else as_class_names(classes.tolist(), "classes_").names


def class_numbers(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.intp]:
    """The place (n,) of each class name among ``classes``; an unknown one is an InputError with its row."""
    numbers = {name: i for i, name in enumerate(classes.tolist())}
    column = one_column(y, "y")
    try:
        labels = np.array([numbers.get(name, -1) for name in column.tolist()], dtype=np.intp)
    except TypeError:  # a list or a dict in the place of a class
        raise InputError("y must hold one class per row, got a container. Pass class names or numbers.") from None
    check_each(column, labels >= 0, "y", "hold classes the estimator knows")
    return labels


def one_column(values: ArrayLike, name: str) -> NDArray[Any]:
    """A vector; scikit-learn also gives and takes shape (n, 1)."""
    column = as_array(values, name)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise InputError(f"{name} must have one value per row, got shape {column.shape}. Wrap one estimator for each "
                         "output.")  # fmt: skip
    return column


def bare_estimator(estimator: Any) -> Any:
    """The estimator inside a search or a frozen one."""
    if type(estimator).__name__ == "FrozenEstimator":
        return bare_estimator(estimator.estimator)
    return bare_estimator(estimator.best_estimator_) if hasattr(estimator, "best_estimator_") else estimator


def _last_step(estimator: Any) -> Any:
    bare = bare_estimator(estimator)
    return _last_step(bare.steps[-1][1]) if hasattr(bare, "steps") else bare
