r"""Largest logit over the length of the logits: a confidence that overconfident rows cannot inflate.

$$ s(x) = -\max_k \frac{z_k - \bar z}{\lVert z - \bar z \rVert_p} $$

p is chosen among 0, 1, ..., 10 on labeled held-out inliers; p = 0 leaves the centered logits as they are. Where no p
warns of errors better than the softmax does, the score has the order of the maximum softmax probability.

Cattelan and Silva, "How to Fix a Broken Confidence Estimator: Evaluating Post-hoc Methods for Selective Classification
with Deep Neural Networks", UAI 2024, arXiv:2305.15508. The paper chooses p by AURC; here AUGRC
decides, as in ``tune``.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal import ranking
from caveat._internal.params import number
from caveat.errors import CaveatWarning
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_complement
from caveat.scores._statistics import Gathered

__all__ = ["MaxLogitPNorm"]

_EXPONENTS = tuple(float(p) for p in range(11))


@final
@dataclass(eq=False)
class MaxLogitPNorm(Score):
    """Minus the largest centered logit over the p-norm of all. The larger, the stranger.

    Fit it on ID validation outputs, as a temperature: on the data a network was trained on it has too few errors.
    ``p_`` is the chosen exponent, None where the softmax was as good; the score then is log(1 - max p), which has the
    order of ``msp`` without its ties. Scaling all logits changes nothing unless p is 0 or the softmax was chosen.

    Parameters
    ----------
    p
        The exponent, at least 0. None: chosen by ``fit``.

    Examples
    --------
    >>> validation = Outputs(logits=[[10.0, 0.0, -20.0], [3.0, 0.0, 0.0], [2.0, 0.0, 0.0]], labels=[1, 0, 0])
    >>> score = MaxLogitPNorm().fit(validation)  # the surest row is wrong, and its logits are long
    >>> score.p_, score.score(validation).round(2)
    (1.0, array([-0.4, -0.5, -0.5]))
    """

    p: float | None = number(None, least=0)

    name: ClassVar[str] = "max_logit_pnorm"
    needs: ClassVar[tuple[str, ...]] = ("logits",)
    fits_on: ClassVar[tuple[str, ...]] = ("logits", "labels")
    held_out: ClassVar[bool] = True
    walks_alone: ClassVar[str] = "compares exponents"

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.p_ = _best_exponent(train) if self.p is None else self.p

    def _score(self, block: Outputs) -> NDArray[Any]:
        return _score_with(np.array(block.logits, dtype=np.float64), self.p_)


def _score_with(logits: NDArray[np.float64], p: float | None) -> NDArray[np.float64]:
    """The score at one exponent; None: that of the softmax. Overwrites ``logits``."""
    if p is None:
        return log_complement(logits)
    logits -= logits.mean(axis=1, keepdims=True)
    largest = logits.max(axis=1)
    if p == 0:
        return np.asarray(-largest)
    # Powers of shares of the largest length stay between 0 and 1.
    sizes = np.abs(logits, out=logits)
    top = sizes.max(axis=1)
    sizes /= np.where(top > 0, top, 1.0)[:, None]
    norm = top * np.power(np.power(sizes, p, out=sizes).sum(axis=1), 1 / p)
    return np.asarray(-np.divide(largest, norm, out=np.zeros_like(largest), where=norm > 0))


def _best_exponent(validation: Outputs) -> float | None:
    """The exponent with the smallest AUGRC of errors; None where none is better than the softmax."""
    candidates = (None, *_EXPONENTS)
    parts: dict[float | None, list[NDArray[np.float64]]] = {p: [] for p in candidates}
    correct = []
    for block in validation.blocks(("logits", "labels")):
        correct.append(np.asarray(block.correct))
        for p in candidates:
            parts[p].append(_score_with(np.array(block.logits, dtype=np.float64), p))
    right = np.concatenate(correct)
    if right.all() or not right.any():
        kind = "right" if right.all() else "wrong"
        warnings.warn(f"every prediction is {kind}, so no exponent can be chosen and the softmax is used. Fit "
                      "max_logit_pnorm on held-out data with some errors.", CaveatWarning, stacklevel=5)  # fmt: skip
        return None
    areas = {p: ranking.augrc(np.concatenate(values), right) for p, values in parts.items()}
    return min(candidates, key=lambda p: areas[p])  # the first of equals: the softmax, then the smaller exponent
