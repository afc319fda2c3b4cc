"""One column for two classes: P(positive) or one logit becomes a column per class, the positive class second."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_real_array, check_each

__all__ = ["PROBABILITIES", "two_columns"]

PROBABILITIES = ("probs", "ease_probs")


def two_columns(value: ArrayLike, name: str, axes: int, *, check: bool = True) -> NDArray[Any]:
    """An array with one column per class; of a binary problem also the column of the positive class alone.

    A probability p becomes 1 - p and p, a logit z becomes 0 and z. Arrays with more columns stay as they are.

    Parameters
    ----------
    value
        With ``axes`` axes, the last of which counts classes and may have length 1; a vector counts as one column.
    name
        Field of ``Outputs``; ``probs`` and ``ease_probs`` hold probabilities.
    axes
        2 for (n, C), 3 for (T, n, C).
    check
        Whether probabilities must lie between 0 and 1.

    Examples
    --------
    >>> two_columns([0.25, 1.0], "probs", 2)
    array([[0.75, 0.25],
           [0.  , 1.  ]])
    >>> two_columns([[2.0]], "logits", 2)
    array([[0., 2.]])
    """
    array = as_real_array(value, name)
    if array.ndim == 1 and axes == 2:
        array = array[:, None]
    if array.ndim != axes or array.shape[-1] != 1:
        return array
    if name in PROBABILITIES:
        if check:
            wrong = (array < 0) | (array > 1)  # NaN has a message of its own
            check_each(array, ~wrong, name, "lie between 0 and 1 where there is one column, P(positive)",
                       hint="Pass unnormalized values as logits.")  # fmt: skip
        return np.concatenate([1 - array, array], axis=-1)
    return np.concatenate([np.zeros_like(array), array], axis=-1)
