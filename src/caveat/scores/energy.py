r"""Energy score and maximum logit: how little evidence the logits carry, before the softmax hides their size.

$$ s(x) = -T \log \sum_k \exp(z_k(x) / T) \qquad\text{or}\qquad s(x) = -\max_k z_k(x) $$

Liu, Wang, Owens and Li, "Energy-based Out-of-distribution Detection", NeurIPS 2020, eq. (4), arXiv:2010.03759.
Hendrycks, Basart, Mazeika, Zou, Kwon, Mostajabi, Steinhardt and Song, "Scaling Out-of-Distribution Detection for
Real-World Settings", ICML 2022, arXiv:1911.11132.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.by_row import log_sum_exp
from caveat._internal.params import positive
from caveat.outputs import Outputs
from caveat.scores._base import Score

__all__ = ["Energy", "MaxLogit"]


@final
@dataclass(eq=False)
class Energy(Score):
    """Free energy of the logits. The larger, the stranger.

    Parameters
    ----------
    temperature
        T in the formula. The paper uses 1; larger values weigh the classes more evenly.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.0, 0.0]
    >>> Energy().score(Outputs(logits=[sure, unsure])).round(3)
    array([-9.   , -0.693])
    """

    temperature: float = positive(1.0)

    name: ClassVar[str] = "energy"
    needs: ClassVar[tuple[str, ...]] = ("logits",)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return -self.temperature * log_sum_exp(block.logits, self.temperature)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        """Minus the logit of each class over T: softmax(-s) is the class softmax at that temperature."""
        return np.asarray(-block.logits.astype(np.float64) / self.temperature)


@final
@dataclass(eq=False)
class MaxLogit(Score):
    """Minus the largest logit. The larger, the stranger.

    Examples
    --------
    >>> MaxLogit().score(Outputs(logits=[[9.0, 0.0], [1.0, 1.0]]))
    array([-9., -1.])
    """

    name: ClassVar[str] = "max_logit"
    needs: ClassVar[tuple[str, ...]] = ("logits",)
    in_threads: ClassVar[bool] = False  # one pass over the memory

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(-np.max(block.logits, axis=1))
