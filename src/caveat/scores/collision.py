r"""Collision entropy: how unlikely two draws from the predicted probabilities name the same class.

$$ s(x) = -\log \sum_k p_k(x)^2 $$

The Renyi entropy of order 2. Granese, Romanelli, Gorla, Palamidessi and Piantanida, "DOCTOR: A Simple Method for
Detecting Misclassification Errors", NeurIPS 2021, arXiv:2106.02395.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_probabilities, with_complement

__all__ = ["Collision"]


@final
@dataclass(eq=False)
class Collision(Score):
    """Collision entropy of the softmax: from 0 to log C. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Collision().score(Outputs(logits=[sure, unsure])).round(4)
    array([2.000e-04, 6.931e-01])
    """

    name: ClassVar[str] = "collision"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    cost: ClassVar[str] = "C"
    paper: ClassVar[str] = "Granese et al. 2021"

    def _score(self, block: Outputs) -> NDArray[Any]:
        p, rest = with_complement(log_probabilities(block))
        return np.asarray(
            -np.log1p(-np.einsum("ij,ij->i", p, rest))
        )  # sum p^2 = 1 - sum p (1 - p), without cancellation
