"""Classes by name: labels as a data set writes them become class numbers 0..C-1 and a tuple of class names.

============================  =====================================================================================
labels                        what they mean
============================  =====================================================================================
text                          names; their order is that of ``class_names``, which must be given where an array or the
                              head has one column per class, and is alphabetical where none has
booleans                      two classes, ``False`` and ``True``
whole numbers                 class numbers 0..C-1; or names, where ``class_names`` holds numbers
whole numbers 1..C            counted from 1, if C is classes, C occurs and 0 does not; the names are ``"1"`` .. ``"C"``
============================  =====================================================================================

Labels from 1 to C - 1 could be either, so they are class numbers. Give ``class_names=range(1, C + 1)`` where they are
not.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_array, as_labels, as_list, check_each, check_shape
from caveat.errors import InputError

__all__ = ["ClassNames", "agreed_names", "as_class_names", "in_order", "listed", "read_classes", "unordered"]

Array = NDArray[Any]
_LISTED = 5  # names in a sentence


@final
@dataclass(frozen=True)
class ClassNames:
    """Class names in the order of the class numbers, and the values that labels use for them.

    Parameters
    ----------
    names
        One text for each class.
    values
        The numbers that were given as names; None where names are text. Labels that are numbers are looked up among
        them, and are class numbers otherwise.
    """

    names: tuple[str, ...]
    values: tuple[float, ...] | None = None

    def numbers(self, labels: Array, name: str) -> NDArray[np.intp]:
        """Class numbers (n,) of labels that are names; an unknown one is an InputError with its row."""
        keys = self.names if self.values is None or labels.dtype.kind == "U" else self.values
        places = {key: i for i, key in enumerate(keys)}
        distinct, which = np.unique(labels, return_inverse=True)
        classes = np.array([places.get(value, -1) for value in distinct.tolist()], dtype=np.intp)[which.ravel()]
        check_each(labels, classes >= 0, name, f"be one of the class names {listed(self.names)}")
        return classes


def as_class_names(value: Iterable[Any], name: str = "class_names") -> ClassNames:
    """At least one name, each of them once: text, numbers or booleans.

    Examples
    --------
    >>> as_class_names(["cat", "dog"]).names, as_class_names([1, 2]).names, as_class_names([False, True]).names
    (('cat', 'dog'), ('1', '2'), ('False', 'True'))
    """
    items = [value] if isinstance(value, str) else as_list(value, name)
    items = [item.item() if isinstance(item, np.generic) else item for item in items]
    for item in items:
        if not isinstance(item, (str, numbers.Real)) or item == "" or _is_nan(item):
            raise InputError(f"{name} must be texts or numbers, got {item!r}.")
    whole = [int(item) if isinstance(item, float) and item.is_integer() else item for item in items]
    names = tuple(map(str, whole))
    if len(set(names)) < len(names):
        twice = next(text for i, text in enumerate(names) if text in names[:i])
        raise InputError(f"{name} must hold each class once, got '{twice}' twice.")
    counted = all(isinstance(item, numbers.Real) and not isinstance(item, bool) for item in whole)
    return ClassNames(names, tuple(map(float, whole)) if counted else None)


def read_classes(
    columns: Mapping[str, ArrayLike],
    class_names: Iterable[Any] | None,
    n_classes: int | None,
    *,
    check: bool = True,
) -> tuple[dict[str, NDArray[np.intp]], tuple[str, ...] | None]:
    """Class numbers of each column of labels, and the class names or None.

    Parameters
    ----------
    columns
        Name -> labels (n,) as they came; all of them use the same classes.
    class_names
        Names in the order of the classes; None: read from the labels, where those are names and nothing has columns.
    n_classes
        C, where other arrays say it: they have one column per class.
    check
        Whether values are checked. Without, whole numbers are class numbers and are never shifted.

    Examples
    --------
    >>> read_classes({"labels": ["dog", "cat", "dog"]}, ["dog", "cat"], 2)
    ({'labels': array([0, 1, 0])}, ('dog', 'cat'))
    >>> read_classes({"labels": [3, 1, 2]}, None, 3)
    ({'labels': array([2, 0, 1])}, ('1', '2', '3'))
    """
    if not columns and class_names is None:  # as with each request to a service
        return {}, None
    arrays = {name: _plain_labels(value, name) for name, value in columns.items()}
    classes = None if class_names is None else as_class_names(class_names)
    if classes is None:
        classes = _names_in(arrays, n_classes)
    if classes is not None and n_classes not in (None, len(classes.names)):
        raise InputError(f"there must be one class name for each of {n_classes} classes, got {len(classes.names)} "
                         f"({listed(classes.names)}). Pass class_names in the order of the columns.")  # fmt: skip
    most = n_classes if classes is None else len(classes.names)
    shift = 1 if check and (classes is None or classes.values is None) and _from_one(arrays, most) else 0
    numbered = {}
    for name, array in arrays.items():
        if array.dtype.kind == "U" or (classes is not None and classes.values is not None and array.dtype.kind != "b"):
            assert classes is not None
            numbered[name] = classes.numbers(array, name)
        elif array.dtype.kind == "b":
            if most not in (None, 2):
                raise InputError(f"{name} are True and False, which are two classes, and there are {most} classes. "
                                 "Pass class numbers or names.")  # fmt: skip
            numbered[name] = array.astype(np.intp)
        else:
            numbered[name] = as_labels(array - shift if shift else array, name, n_classes=most, check=check)
    if shift and classes is None:
        classes = ClassNames(tuple(map(str, range(1, (most or 0) + 1))))
    return numbered, None if classes is None else classes.names


def agreed_names(sets: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The class names of several sets of one model, in one order; None where no set has names.

    Sets with one column per class must have the same names. Sets without, such as files of labels or of predictions,
    may hold some of them. An InputError names the difference.

    Parameters
    ----------
    sets
        Name of the set -> outputs.
    """
    named = {role: outputs for role, outputs in sets.items() if getattr(outputs, "class_names", None) is not None}
    if not named:
        return None
    wide = {role: outputs for role, outputs in named.items() if outputs.has_class_columns}
    first = next(iter(wide or named))
    names: tuple[str, ...] = named[first].class_names
    every = set(names) if wide else set().union(*(outputs.class_names for outputs in named.values()))
    for role, outputs in named.items():
        if surplus := set(outputs.class_names) - every:
            raise _other_classes(first, role, sorted(surplus))
        if role in wide and (lacking := every - set(outputs.class_names)):
            raise _other_classes(role, first, sorted(lacking))
    if every != set(names):
        names = tuple(sorted(every))
    for role, outputs in sets.items():
        _check_numbered(outputs, role, names, first, unordered=not wide)
    return names


def in_order(outputs: Any, names: tuple[str, ...] | None, *, name: str, of: str) -> Any:
    """Outputs with their classes in the order of ``names``; as they are where either has no names.

    Parameters
    ----------
    outputs
        Outputs of the model.
    names
        Class names in the wanted order, or None.
    name, of
        What a message calls the outputs, and where the wanted names come from.
    """
    own = getattr(outputs, "class_names", None)
    if names is None or own == names:
        return outputs
    if own is None:
        _check_numbered(outputs, name, names, of)
        return outputs
    if surplus := sorted(set(own) - set(names)):
        raise _other_classes(of, name, surplus)
    if outputs.has_class_columns and (lacking := sorted(set(names) - set(own))):
        raise _other_classes(name, of, lacking)
    return outputs.with_class_names(names)


def _check_numbered(outputs: Any, role: str, names: tuple[str, ...], other: str, *, unordered: bool = False) -> None:
    """Raise InputError where class numbers stand next to names of another set, and may not count as its columns do."""
    from_one = names == tuple(map(str, range(1, len(names) + 1)))
    if getattr(outputs, "class_names", None) is not None or not (unordered or from_one):
        return
    if {"labels", "predictions"} & set(getattr(outputs, "stored", dict)()):  # a stream of nn has none
        raise InputError(f"{role} has class numbers, and {other} has class names ({listed(names)}), so that it is "
                         "unclear which number is which class. Pass class_names to both.")  # fmt: skip


def _other_classes(role: str, other: str, names: list[str]) -> InputError:
    return InputError(f"{role} and {other} must have the same classes, but {listed(names)} is only in {other}. Pass "
                      "the same class_names to both.")  # fmt: skip


def listed(names: Iterable[str]) -> str:
    """The first few names, for a sentence."""
    texts = list(names)
    return ", ".join(texts[:_LISTED]) + (", ..." if len(texts) > _LISTED else "")


def _plain_labels(value: ArrayLike, name: str) -> Array:
    """A vector of text, booleans or numbers; tables give objects, and a column of a matrix."""
    array = as_array(value, name)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 2 and array.dtype.kind in "biuf" and array.size and _is_one_hot(array):
        raise InputError(f"{name} must hold one class per row, got one-hot rows of shape {array.shape}. Store "
                         f"{name}.argmax(axis=1).")  # fmt: skip
    check_shape(array, name, 1, "vector of classes")
    if array.dtype.kind == "S":
        return np.char.decode(array, "utf-8", "replace")
    if array.dtype.kind == "T":
        return np.array(array.tolist())  # numpy casts it to a given length only
    if array.dtype.kind != "O":
        return array
    items = array.tolist()
    for kinds in ((str,), (bool, np.bool_), (numbers.Real,)):
        if all(isinstance(item, kinds) and not _is_nan(item) for item in items):
            return np.array(items)
    kind = str if isinstance(items[0], str) else numbers.Real
    row = next((i for i, item in enumerate(items) if not isinstance(item, kind) or _is_nan(item)), 0)
    raise InputError(f"{name} must be class numbers, or class names that are all text, got {items[row]!r} at row "
                     f"{row}.")  # fmt: skip


def _is_one_hot(array: Array) -> bool:
    return len(array) > 1 and bool(((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all())


def _is_nan(item: Any) -> bool:
    return isinstance(item, float) and math.isnan(item)


def _names_in(arrays: Mapping[str, Array], n_classes: int | None) -> ClassNames | None:
    """The names that labels hold themselves, in order; None where they are numbers."""
    kinds = {name: array.dtype.kind if array.dtype.kind in "Ub" else "i" for name, array in arrays.items()}
    if len(set(kinds.values())) > 1:
        raise InputError(f"{' and '.join(kinds)} must both be class names or both be class numbers. Pass class_names.")
    if set(kinds.values()) == {"b"}:
        return ClassNames(("False", "True"))
    if "U" not in kinds.values():
        return None
    names = tuple(np.unique(np.concatenate(list(arrays.values()))).tolist())
    if n_classes is not None:
        raise unordered(names, n_classes, " and ".join(arrays))
    return as_class_names(names)


def unordered(names: Iterable[str], n_classes: int, what: str = "labels") -> InputError:
    """What to say where labels are names and nothing says which column is which class.

    An order that is guessed makes every right answer wrong, and nothing else shows it.
    """
    names = list(names)
    return InputError(
        f"{what} are {len(names)} class names ({listed(names)}), and nothing says which of the {n_classes} columns is "
        "which class. Pass class_names in the order of the columns (scikit-learn's is classes_), --class-names a,b,c, "
        "or store it in the file as class_names."
    )


def _from_one(arrays: Mapping[str, Array], n_classes: int | None) -> bool:
    """Whether whole numbers count classes from 1: C occurs, 0 does not, and there is more than one class."""
    counts = [array for array in arrays.values() if array.dtype.kind in "iuf"]
    if n_classes is None or not counts:
        return False
    low, high = min(array.min() for array in counts), max(array.max() for array in counts)
    return bool(1 <= low < high == n_classes)
