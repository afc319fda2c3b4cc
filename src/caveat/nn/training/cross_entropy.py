r"""Plain training: the negative log-probability of the true class.

$$ L = -\frac1n \sum_i \log p_{y_i}(x_i) $$
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.training.paradigm import Loss, Paradigm

__all__ = ["CrossEntropy"]


@final
@dataclass(frozen=True)
class CrossEntropy(Paradigm):
    """Cross-entropy and nothing else.

    Examples
    --------
    >>> loss, parts = CrossEntropy().loss(nn.Identity(), torch.zeros(2, 4), torch.tensor([0, 3]), None,
    ...                                   progress=0.0, generator=torch.Generator())
    >>> round(float(loss), 4), parts  # log 4
    (1.3863, {})
    """

    name: ClassVar[str] = "cross_entropy"

    def loss(
        self,
        net: nn.Module,
        inputs: Tensor,
        labels: Tensor,
        outliers: Tensor | None,
        *,
        progress: float,
        generator: torch.Generator,
    ) -> Loss:
        return F.cross_entropy(net(inputs), labels), {}
