r"""A confidence that the model itself gives.

$$ s(x) = -c(x) $$

Read from ``outputs.confidence``: the output of ConfidNet (Corbiere et al., NeurIPS 2019, arXiv:1910.04851), the
confidence branch of DeVries and Taylor (2018, arXiv:1802.04865), or minus the abstention mass of Deep Gamblers (Liu et
al., NeurIPS 2019, arXiv:1907.00208).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat.outputs import Outputs
from caveat.scores._base import Score

__all__ = ["Confidence"]


@final
@dataclass(eq=False)
class Confidence(Score):
    """Minus the confidence column of the outputs. The larger, the stranger.

    Examples
    --------
    >>> Confidence().score(Outputs(confidence=[0.9, 0.2]))
    array([-0.9, -0.2])
    """

    name: ClassVar[str] = "confidence"
    needs: ClassVar[tuple[str, ...]] = ("confidence",)
    cost: ClassVar[str] = "1"
    paper: ClassVar[str] = "DeVries & Taylor 2018; Corbiere et al. 2019; Liu et al. 2019"

    def _score(self, block: Outputs) -> NDArray[Any]:
        return np.asarray(-block.confidence)
