r"""Renyi entropy of the largest probabilities.

$$ s(x) = \frac{1}{1 - a} \log \sum_{k=1}^{M} p_{(k)}^{a}, \qquad p_{(1)} \ge p_{(2)} \ge \dots, \quad 0 < a < 1 $$

Renyi, "On Measures of Entropy and Information", Fourth Berkeley Symposium, 1961. With M below the number of classes
the kept probabilities are not renormalised, so the value can be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.params import count, level
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import below_largest, log_probabilities
from caveat.scores.gen import largest

__all__ = ["Renyi"]


@final
@dataclass(eq=False)
class Renyi(Score):
    """Renyi entropy of the M largest probabilities. The larger, the stranger.

    Parameters
    ----------
    order
        a in the formula, strictly between 0 and 1; towards 1 it becomes the Shannon entropy.
    top
        M: how many of the largest probabilities enter; all of them where there are fewer classes.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Renyi(order=0.5).score(Outputs(logits=[sure, unsure])).round(4)
    array([0.022 , 0.6931])
    """

    order: float = level(0.1)
    top: int = count(100)

    name: ClassVar[str] = "renyi"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    cost: ClassVar[str] = "C"
    paper: ClassVar[str] = "Renyi 1961"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "order": (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9),
        "top": (10, 50, 100, 500),
    }

    def _score(self, block: Outputs) -> NDArray[Any]:
        best, _, rest = below_largest(largest(log_probabilities(block, least=0.0), self.top) * self.order)
        return np.asarray((best + np.log1p(rest)) / (1 - self.order))
