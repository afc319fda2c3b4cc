r"""Plain training: the negative log-probability of the true class.

$$ L = -\frac1n \sum_i \log p_{y_i}(x_i) $$
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import nn
from torch.nn import functional as F

from caveat.nn.training.batch import Batch
from caveat.nn.training.paradigm import Loss, Paradigm

__all__ = ["CrossEntropy"]


@final
@dataclass(frozen=True)
class CrossEntropy(Paradigm):
    """Cross-entropy and nothing else.

    Examples
    --------
    >>> import torch
    >>> loss, parts = CrossEntropy().loss(nn.Identity(), Batch(torch.zeros(2, 4), torch.tensor([0, 3])))
    >>> round(float(loss), 4), parts  # log 4
    (1.3863, {})
    """

    name: ClassVar[str] = "cross_entropy"

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        return F.cross_entropy(net(batch.inputs), batch.labels), {}
