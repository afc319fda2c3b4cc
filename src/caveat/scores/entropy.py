r"""Shannon entropy of the predicted probabilities.

$$ s(x) = -\sum_k p_k(x) \log p_k(x) $$

Shannon, "A Mathematical Theory of Communication", 1948; as an uncertainty under shift: Ovadia et al., "Can You Trust
Your Model's Uncertainty?", NeurIPS 2019, arXiv:1906.02530.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import below_largest, logits_of

__all__ = ["Entropy", "entropy_of"]

_NO_WEIGHT = -1000.0  # its exponential is 0


@final
@dataclass(eq=False)
class Entropy(Score):
    """Entropy of the softmax, in nats: from 0 to log C. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Entropy().score(Outputs(logits=[sure, unsure])).round(4)
    array([0.0012, 0.6931])
    """

    name: ClassVar[str] = "entropy"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    cost: ClassVar[str] = "C"
    paper: ClassVar[str] = "Shannon 1948; Ovadia et al. 2019"

    def _score(self, block: Outputs) -> NDArray[Any]:
        return entropy_of(logits_of(block))


def entropy_of(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entropy of the softmax over the last axis; ``logits`` (or log probabilities) are overwritten."""
    _, weights, rest = below_largest(logits)
    np.maximum(logits, _NO_WEIGHT, out=logits)  # of a class that is ruled out: 0 log 0 is 0, also at -inf
    return np.asarray(np.log1p(rest) - np.einsum("...k,...k->...", weights, logits) / (1 + rest))
