r"""Generalised entropy of the largest probabilities: sensitive to how sure a sure prediction is.

$$ s(x) = \sum_{k=1}^{M} p_{(k)}^{\gamma} (1 - p_{(k)})^{\gamma}, \qquad p_{(1)} \ge p_{(2)} \ge \dots $$

Liu, Lochman and Zach, "GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection", CVPR 2023.
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
from caveat.scores._probabilities import log_probabilities, with_complement

__all__ = ["GEN", "largest"]


@final
@dataclass(eq=False)
class GEN(Score):
    """Generalised entropy, summed (not averaged) over the M largest probabilities. The larger, the stranger.

    Parameters
    ----------
    gamma
        Exponent, strictly between 0 and 1. The smaller, the more a trace of doubt counts.
    top
        M: how many of the largest probabilities enter; all of them where there are fewer classes.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> GEN().score(Outputs(logits=[sure, unsure])).round(3)
    array([0.813, 1.741])
    """

    gamma: float = level(0.1)
    top: int = count(100)

    name: ClassVar[str] = "gen"
    needs: ClassVar[tuple[str, ...]] = ("probs",)
    cost: ClassVar[str] = "C"
    paper: ClassVar[str] = "Liu et al. 2023"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "gamma": (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9),
        "top": (10, 50, 100, 500),
    }

    def _score(self, block: Outputs) -> NDArray[Any]:
        log_p = largest(log_probabilities(block, least=0.0), self.top)
        _, rest = with_complement(log_p)
        with np.errstate(divide="ignore"):  # 1 - p is 0 if every other p is, or has underflowed: its share is 0
            exponent = np.log(rest, out=rest)
        exponent += log_p
        exponent *= self.gamma
        return np.asarray(np.exp(exponent, out=exponent).sum(axis=1))


def largest(values: NDArray[np.float64], top: int) -> NDArray[np.float64]:
    """The ``top`` largest values of each row, in no order; all of them where there are fewer."""
    classes = values.shape[1]
    return values if top >= classes else np.partition(values, classes - top, axis=1)[:, classes - top :]
