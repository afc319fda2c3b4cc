r"""Maximum logit: the evidence for the best class, before the softmax hides its size.

$$ s(x) = -\max_k z_k(x) $$

Hendrycks, Basart, Mazeika, Zou, Kwon, Mostajabi, Steinhardt and Song, "Scaling Out-of-Distribution Detection for
Real-World Settings", ICML 2022, arXiv:1911.11132.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._base import Score

__all__ = ["MaxLogit"]


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
    cost: ClassVar[str] = "C"
    paper: ClassVar[str] = "Hendrycks et al. 2022"
    in_threads: ClassVar[bool] = False  # one pass over the memory

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(-np.max(block.logits, axis=1))
