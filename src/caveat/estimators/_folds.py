"""Which fold each row is in: drawn without a look at the rows, or by a splitter of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from caveat._internal.checks import as_count, check_known
from caveat._internal.streams import stream
from caveat.errors import InputError

__all__ = ["check_cv", "fold_numbers"]


def check_cv(cv: Any) -> None:
    """Raise InputError unless ``cv`` is None, a number of folds, ``"jackknife"`` or a splitter."""
    if isinstance(cv, str):
        check_known(cv, ("jackknife",), "value of cv")
    elif cv is not None and not _is_splitter(cv):
        as_count(cv, "cv", least=2)


def fold_numbers(cv: Any, x: Any, y: NDArray[Any], seed: int) -> NDArray[np.intp]:
    """The number of the fold of each row, shape (n,).

    >>> fold_numbers("jackknife", np.zeros((3, 1)), np.zeros(3), 0), fold_numbers(2, np.zeros((5, 1)), np.zeros(5), 0)
    (array([0, 1, 2]), array([0, 0, 0, 1, 1]))
    """
    check_cv(cv)
    n = int(_num_samples(x))
    if isinstance(cv, str):
        if n < 2:
            raise InputError(f"cv='jackknife' needs at least 2 rows, got n_samples = {n}.")
        return np.arange(n)
    if _is_splitter(cv):
        return _of_splitter(cv, x, y, n)
    if n < cv:
        raise InputError(f"cv = {cv} folds need at least {cv} rows, got n_samples = {n}.")
    return np.asarray(stream(seed, "folds").permutation(n) % int(cv))


def _is_splitter(cv: Any) -> bool:
    return hasattr(cv, "split") and hasattr(cv, "get_n_splits")  # bytes have a split of their own


def _of_splitter(cv: Any, x: Any, y: NDArray[Any], n: int) -> NDArray[np.intp]:
    fold, times = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    for k, (_, held) in enumerate(cv.split(x, y)):
        fold[held] = k
        times[held] += 1
    if (times != 1).any():
        row = int(np.flatnonzero(times != 1)[0])
        raise InputError(f"cv must hold out every row once, got row {row} held out {times[row]} times. Use KFold.")
    return np.unique(fold, return_inverse=True)[1]  # a fold may be empty
