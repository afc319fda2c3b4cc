"""The objective that outlier exposure and CEDA share: cross-entropy inside, a weighted loss of the logits outside."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.training.batch import Batch
from caveat.nn.training.paradigm import Loss
from caveat.nn.training.ramps import Ramp

__all__ = ["exposed_loss"]


def exposed_loss(net: nn.Module, batch: Batch, *, kappa: Ramp, outside: Callable[[Tensor], Tensor]) -> Loss:
    """Cross-entropy of the inliers plus kappa times ``outside`` of the outliers' logits, in one pass for both."""
    known, strange = batch.both(net)
    inside, strangers, weight = F.cross_entropy(known, batch.labels), outside(strange), kappa(batch.progress)
    return inside + weight * strangers, {"in": inside.item(), "out": strangers.item(), "kappa": weight}
