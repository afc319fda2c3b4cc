"""Shapes of the fields of ``Outputs``: which axis counts samples, which classes, and that all fields agree on both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_real_array, check_finite, check_same, check_shape
from caveat.errors import InputError
from caveat.outputs.head import Head

__all__ = ["CLASS_COLUMNS", "LAYER", "SAMPLE_AXIS", "agree_on_classes", "agree_on_rows", "as_cube", "as_layer"]

Array = NDArray[Any]

LAYER = "layer."  # prefix of an inner layer's key in a file
CLASS_COLUMNS = ("logits", "probs", "mc_logits", "ease_probs")  # the last axis counts the classes
_BY_ROW = ("logits", "probs", "features", "labels", "predictions", "confidence", "embeddings")
_FEW = 20  # samples: so few rows beside a square say nothing about a transposed array
SAMPLE_AXIS = dict.fromkeys(_BY_ROW, 0)  # field -> axis that counts the samples
SAMPLE_AXIS |= dict.fromkeys(("mc_logits", "ease_probs"), 1)


def as_cube(value: ArrayLike, name: str, *, check: bool) -> Array:
    """Several passes over the samples, shape (passes, samples, classes)."""
    array = as_real_array(value, name)
    check_shape(array, name, 3, "array of shape (passes, samples, classes)")
    if check:
        for step in array:
            check_finite(step, name)
    return array


def as_layer(value: ArrayLike, name: str, *, check: bool) -> Array:
    """An inner layer, samples first."""
    array = as_real_array(value, f"layers[{name!r}]")
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(
            f"layers[{name!r}] must have samples as its first axis and at least one more axis, got {array.shape}."
        )
    if check:
        check_finite(array, f"layers[{name!r}]")
    return array


def agree_on_classes(arrays: Mapping[str, Array], head: Head | None) -> int | None:
    """Number of classes, which all arrays with a column per class must share; None without such an array."""
    columns = {name: int(arrays[name].shape[-1]) for name in CLASS_COLUMNS if name in arrays}
    if head is not None:
        columns["head.weight"] = head.n_classes
    return check_same("number of classes", **columns) if columns else None


def agree_on_rows(arrays: Mapping[str, Array], layers: Mapping[str, Array]) -> int:
    """Number of rows, which all arrays must share."""
    rows = {name: int(array.shape[SAMPLE_AXIS[name]]) for name, array in arrays.items()}
    rows |= {f"layers[{name!r}]": int(array.shape[0]) for name, array in layers.items()}
    if not rows:
        raise InputError("outputs need at least one array, such as logits or features; got none.")
    for name in ("logits", "probs", "features"):
        array, others = arrays.get(name), set(rows.values()) - {rows.get(name, 0)}
        if array is not None and max(_FEW, array.shape[0]) < array.shape[1] and others == {array.shape[1]}:
            raise InputError(f"{name} must have a row per sample, got shape {array.shape} where the other arrays have "
                             f"{array.shape[1]} rows. Store {name}.T.")  # fmt: skip
    return check_same("number of rows", **rows)
