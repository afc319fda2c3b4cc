r"""Activation shaping: the energy after most of the feature is thrown away.

Let t be the k largest activations of the row, k = (100 - p) % of D, s_1 the sum of the row and s_2 the sum of t.

$$ \text{p: } h' = t, \qquad \text{b: } h' = \tfrac{s_1}{k}\,1\{t\}, \qquad \text{s: } h' = t\,e^{s_1 / s_2},
   \qquad s(x) = -\log \sum_c e^{(W h' + b)_c} $$

Djurisic, Bozanic, Ashok and Liu, "Extremely Simple Activation Shaping for Out-of-Distribution Detection", ICLR 2023,
algorithms 1 to 3, arXiv:2209.09858.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import choice, percent
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._head import head_logits, log_sum_exp
from caveat.scores._pruning import how_many, kept_shares, sum_ratio

__all__ = ["ASH"]

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
    >>> said = Outputs(features=[[3.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]],
    ...                head=Head([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]))
    >>> {v: ASH(v, percentile=50).score(said).round(2).tolist() for v in ("p", "b", "s")}
    {'p': [-3.13, -1.81], 'b': [-2.69, -3.13], 's': [-8.16, -11.08]}
    """

    variant: str = choice("s", _PERCENTILES, "variant of ash")
    percentile: float | None = percent(None)

    name: ClassVar[str] = "ash"
    needs: ClassVar[tuple[str, ...]] = ("features", "head")
    cost: ClassVar[str] = "CD"
    paper: ClassVar[str] = "Djurisic et al. 2023, alg. 1-3"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"percentile": (None, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0)}

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features
        k = how_many(rows.shape[1], _PERCENTILES[self.variant] if self.percentile is None else self.percentile)
        shares = kept_shares(rows, k)
        weight, none = block.head.weight, np.zeros(1)  # a factor on the row is one on its logits, less the bias
        if self.variant == "b":
            level = rows.sum(axis=1) / k
            logits = head_logits(shares, weight, none).astype(np.float64)
            logits *= level[:, None]
        else:
            pruned = shares * rows
            logits = head_logits(pruned, weight, none).astype(np.float64)
            if self.variant == "s":
                logits *= np.exp(sum_ratio(rows, pruned, k))[:, None]
        return -log_sum_exp(logits + block.head.bias)
