r"""Guessing entropy: how many guesses the true class takes on average, best guess first.

$$ s(x) = \sum_k k\, p_{(k)}(x), \qquad p_{(1)} \ge p_{(2)} \ge \dots $$

Massey, "Guessing and Entropy", IEEE International Symposium on Information Theory, 1994.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_probabilities

__all__ = ["Guessing"]


@final
@dataclass(eq=False)
class Guessing(Score):
    """Expected number of guesses in order of falling probability: from 1 to (C + 1) / 2. The larger, the stranger.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Guessing().score(Outputs(logits=[sure, unsure])).round(4)
    array([1.0001, 1.5   ])
    """

    name: ClassVar[str] = "guessing"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    cost: ClassVar[str] = "C log C"
    paper: ClassVar[str] = "Massey 1994"

    def _score(self, block: Outputs) -> NDArray[Any]:
        rising = np.sort(np.exp(log_probabilities(block)), axis=1)
        return np.asarray(np.einsum("ij,j->i", rising, np.arange(rising.shape[1], 0.0, -1.0)))
