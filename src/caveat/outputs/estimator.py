"""Outputs of a fitted scikit-learn classifier: one column per class, in the order of ``classes_``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_able, as_array, check_each
from caveat._internal.classes import as_class_names
from caveat.errors import InputError
from caveat.outputs.outputs import Outputs

__all__ = ["class_names_of", "class_numbers", "gives_pairs", "one_column", "outputs_of_estimator"]


def outputs_of_estimator(estimator: Any, x: Any, y: ArrayLike | None = None) -> Outputs:
    """Probabilities, or decision values as logits, with labels and class names: :meth:`Outputs.from_sklearn`."""
    classes = getattr(as_able(estimator, ("predict",), "estimator"), "classes_", None)
    if classes is None:
        raise InputError(f"estimator must be a fitted classifier with classes_, got {type(estimator).__name__}.")
    if isinstance(classes, list):
        raise InputError(f"estimator must have one output, got {len(classes)}. Take the outputs of each by itself.")
    classes = np.asarray(classes)
    labels = None if y is None else class_numbers(classes, y)
    answer: dict[str, Any] = {"labels": labels, "class_names": class_names_of(classes)}
    if hasattr(estimator, "predict_proba"):
        return Outputs(probs=estimator.predict_proba(x), **answer)
    if not hasattr(estimator, "decision_function"):
        raise InputError(
            f"{type(estimator).__name__} has neither predict_proba nor decision_function, so that labels cannot be "
            "ranked. Calibrate it with sklearn.calibration.CalibratedClassifierCV."
        )
    margins = np.asarray(estimator.decision_function(x), dtype=np.float64)
    columns, pairs = 2 if margins.ndim == 1 else margins.shape[1], margins.ndim > 1 and gives_pairs(estimator)
    if pairs or columns != classes.size:
        what = f"one per pair ({columns})" if pairs else f"{columns}"
        raise InputError(
            f"decision_function must give one column per class ({classes.size}), got {what}. For SVC set "
            "decision_function_shape='ovr' (set_params does, without fitting again)."
        )
    return Outputs(logits=margins, **answer)


def class_names_of(classes: NDArray[Any]) -> tuple[str, ...] | None:
    """The names of ``classes_`` as text; None where classes are the numbers 0..C-1.

    Examples
    --------
    >>> class_names_of(np.array([1, 2])), class_names_of(np.array([0, 1]))
    (('1', '2'), None)
    """
    numbered = classes.dtype.kind in "iuf" and np.array_equal(classes, np.arange(classes.size))
    return None if numbered else as_class_names(classes.tolist(), "classes_").names


def class_numbers(classes: NDArray[Any], y: ArrayLike) -> NDArray[np.intp]:
    """Class numbers (n,) of labels as the estimator knows them; an unknown class is an InputError with its row."""
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


def gives_pairs(estimator: Any) -> bool:
    """Whether decision_function has one column per pair of classes, also at the end of a pipeline or a search."""
    if hasattr(estimator, "steps"):
        return gives_pairs(estimator.steps[-1][1])
    if type(estimator).__name__ == "FrozenEstimator":
        return gives_pairs(estimator.estimator)
    if hasattr(estimator, "best_estimator_"):
        return gives_pairs(estimator.best_estimator_)
    return bool(getattr(estimator, "decision_function_shape", "ovr") == "ovo")
