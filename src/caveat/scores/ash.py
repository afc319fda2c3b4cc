r"""Activation shaping (ASH) and SCALE: the energy after small activations are dropped, or the rest is scaled up.

Let t be the k largest activations of the row, k = (100 - p) % of D, s_1 the sum of the row and s_2 the sum of t.

$$ \text{ASH-P: } h' = t, \quad \text{ASH-B: } h' = \tfrac{s_1}{k}\,1\{t\}, \quad
   \text{ASH-S: } h' = t\,e^{s_1 / s_2}, \quad \text{SCALE: } h' = h\,e^{s_1 / s_2}, \qquad
   s(x) = -\log \sum_c e^{(W h' + b)_c} $$

Djurisic, Bozanic, Ashok and Liu, "Extremely Simple Activation Shaping for Out-of-Distribution Detection", ICLR 2023,
algorithms 1 to 3, arXiv:2209.09858. Xu, Chen, Franchi and Yao, "Scaling for Training Time and Post-hoc
Out-of-distribution Detection Enhancement", ICLR 2024, arXiv:2310.00227.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import log_sum_exp, row_sums
from caveat._internal.params import choice, percent
from caveat.outputs import Head, Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits

__all__ = ["ASH", "Scale"]


_PERCENTILES: Mapping[str, float] = MappingProxyType({"p": 60.0, "b": 90.0, "s": 65.0})


@final
@dataclass(eq=False)
class ASH(Score):
    """Energy of the head on a shaped feature. The larger, the stranger.

    Meant for activations after a ReLU; with negative values the ratio s_1 / s_2 is held between 1 and D / k.
    Activations that tie for the last of the k places share them equally, zeros too where fewer than k units fire: the
    mean over all ways to break the tie, which does not depend on the order of the columns.

    Parameters
    ----------
    variant
        ``"p"`` only prunes, ``"b"`` sets what is left to one value, ``"s"`` scales it up.
    percentile
        Share of each row that is dropped, in percent; None for 60 (p), 90 (b) or 65 (s).

    Examples
    --------
    >>> from caveat import Head
    >>> outputs = Outputs(features=[[3.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]],
    ...                head=Head([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]))
    >>> {v: ASH(v, percentile=50).score(outputs).round(2).tolist() for v in ("p", "b", "s")}
    {'p': [-3.13, -1.81], 'b': [-2.69, -3.13], 's': [-8.16, -11.08]}
    """

    variant: str = choice("s", _PERCENTILES, "variant of ash")
    percentile: float | None = percent(None)

    name: ClassVar[str] = "ash"
    needs: ClassVar[tuple[str, ...]] = ("features", "head")
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (None, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0)}

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        k = how_many(rows.shape[1], _PERCENTILES[self.variant] if self.percentile is None else self.percentile)
        shares = kept_shares(rows, k)
        if self.variant == "b":
            return _scaled_energy(shares, row_sums(rows) / k, block.head)
        pruned = shares * rows
        factor = np.exp(sum_ratio(rows, pruned, k)) if self.variant == "s" else np.ones(block.n)
        return _scaled_energy(pruned, factor, block.head)


@final
@dataclass(eq=False)
class Scale(Score):
    """Energy of the head on a scaled feature: the scaling of ASH without its pruning. The larger, the stranger.

    Meant for activations after a ReLU; with negative values the ratio s_1 / s_2 is held between 1 and D / k.

    Parameters
    ----------
    percentile
        Share of each row that the sum s_2 leaves out, in percent. The paper uses 85.

    Examples
    --------
    >>> from caveat import Head
    >>> outputs = Outputs(features=[[3.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]],
    ...                head=Head([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]))
    >>> Scale(percentile=50).score(outputs).round(2)
    array([ -8.16, -22.17])
    """

    percentile: float = percent(85.0)

    name: ClassVar[str] = "scale"
    needs: ClassVar[tuple[str, ...]] = ("features", "head")
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (65.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0)}

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        k = how_many(rows.shape[1], self.percentile)
        top = np.partition(rows, rows.shape[1] - k, axis=1)[:, rows.shape[1] - k :]
        return _scaled_energy(rows, np.exp(sum_ratio(rows, top, k)), block.head)


def _scaled_energy(rows: NDArray[Any], factor: NDArray[Any], head: Head) -> NDArray[np.float64]:
    """Energy of ``factor * rows``. A factor on a row is one on its logits, less the bias."""
    logits = head_logits(rows, head.weight, np.zeros(1)).astype(np.float64)
    logits *= factor[:, None]
    return -log_sum_exp(logits + head.bias)


def how_many(width: int, percentile: float) -> int:
    """Number of activations kept of ``width`` when ``percentile`` percent are dropped: at least one.

    >>> how_many(512, 90.0), how_many(3, 90.0)
    (51, 1)
    """
    return max(1, width - round(width * percentile / 100))


def kept_shares(rows: NDArray[Any], k: int) -> NDArray[Any]:
    """Ones at the k largest values of each row, zeros elsewhere; values that tie for the last places share them.

    The shares of a row add up to k, and do not depend on the order of the columns.

    >>> kept_shares(np.array([[3.0, 1.0, 1.0, 0.0]]), 2)
    array([[1. , 0.5, 0.5, 0. ]])
    """
    width = rows.shape[1]
    if k >= width:
        return np.ones_like(rows)
    kth = np.partition(rows, width - k, axis=1)[:, width - k, None]
    shares = (rows >= kth).astype(rows.dtype)
    surplus = np.flatnonzero(np.count_nonzero(shares, axis=1) > k)
    if surplus.size:
        some, border = rows[surplus], kth[surplus]
        above, tied = some > border, some == border
        room = k - np.count_nonzero(above, axis=1, keepdims=True)
        shares[surplus] = np.where(tied, room / np.count_nonzero(tied, axis=1, keepdims=True), above)
    return shares


def sum_ratio(rows: NDArray[Any], kept: NDArray[Any], k: int) -> NDArray[np.float64]:
    """Sum of each row over the sum of its k largest values, shape (n,), given both.

    Activations after a ReLU give a ratio between 1 and D / k. Rows with negative values can give anything, also a
    division by zero, so the ratio is held to that range; a zero row gives 1. It is also held below 500, so that its
    exponential stays finite when almost everything is pruned.
    """
    before, after = row_sums(rows), row_sums(kept)
    ratio = np.divide(before, after, out=np.ones_like(before), where=after != 0)
    return np.asarray(np.clip(ratio, 1.0, min(rows.shape[1] / k, 500.0)))
