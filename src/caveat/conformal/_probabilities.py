r"""Probabilities of all labels, in row blocks small enough to stay in cache.

From a model: as given, or the softmax of the logits. From class scores s(x, y) of any OOD score:

$$ \hat s(x, y) = \frac{e^{-s(x, y)}}{\sum_{y'} e^{-s(x, y')}} $$

Novello, Dalmau and Andeol, "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction with
Illustrations of Its Benefits", section 5; the sign here is that of a distance: near is probable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.by_row import softmax_rows
from caveat._internal.checks import as_able
from caveat._internal.rounding import to_digits
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand

Array = NDArray[Any]

_CACHE_BYTES = 2**19


class ClassScores(Protocol):
    """A fitted score with one value per class: how strange a sample is as a member of it."""

    def class_scores(self, outputs: Outputs) -> NDArray[np.float64]: ...


def probability_blocks(outputs: Outputs, source: ClassScores | None = None) -> Iterator[tuple[slice, Array]]:
    """Rows and their probabilities (rows, C), block by block; rounded until equal rows tie on every machine."""
    if source is not None:
        as_able(source, ("class_scores",), "source")
    demand(outputs, *(["probs"] if source is None else []), who="a prediction set")
    start = 0
    for outer in outputs.blocks(("probs",) if source is None else None):
        if source is not None:
            values = -np.asarray(source.class_scores(outer), dtype=np.float64)
            if np.isnan(values).any():
                row = start + int(np.argwhere(np.isnan(values))[0][0])
                raise InputError(f"class scores have NaN, first at row {row}. Drop or impute it before calibrating.")
        else:
            values = outer.probs if outer.gives_probs else outer.logits
        normalized = source is None and outer.gives_probs
        for rows in row_blocks(outer.n, row_bytes=values.shape[1] * values.itemsize, block_bytes=_CACHE_BYTES):
            part = np.ascontiguousarray(values[rows])  # sums run in one order, whatever the layout of the array
            block = part if normalized else softmax_rows(part)
            yield slice(start + rows.start, start + rows.stop), to_digits(block)
        start += outer.n
