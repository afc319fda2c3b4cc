r"""Maximum softmax probability: the baseline that every other score must beat.

$$ s(x) = -\max_k p_k(x) $$

Hendrycks and Gimpel, "A Baseline for Detecting Misclassified and Out-of-Distribution Examples in Neural Networks",
ICLR 2017, arXiv:1610.02136.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import positive
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_probabilities

__all__ = ["MSP"]


@final
@dataclass(eq=False)
class MSP(Score):
    """Minus the largest softmax probability. The larger, the stranger.

    Where the largest logit leads by more than about 37, p is 1 to the last digit and all such rows tie at -1; the
    scores ``entropy``, ``gen`` and ``collision`` still tell them apart, and so do the class scores here.

    Parameters
    ----------
    temperature
        Divides the logits first; 1 leaves them alone. With given ``probs`` it acts on their logarithm.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> MSP().score(Outputs(logits=[sure, unsure])).round(3)
    array([-1. , -0.5])
    """

    temperature: float = positive(1.0)

    name: ClassVar[str] = "msp"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    cost: ClassVar[str] = "C"
    paper: ClassVar[str] = "Hendrycks & Gimpel 2017"

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(-np.exp(np.max(log_probabilities(block, self.temperature), axis=1)))

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the log-probability of each class, so that softmax(-s) gives the probabilities back."""
        return -log_probabilities(block, self.temperature)
