"""The objective that outlier exposure and CEDA share: cross-entropy inside, a weighted loss of the logits outside."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.training.paradigm import Loss

__all__ = ["exposed_loss"]


def exposed_loss(
    net: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    outliers: Tensor | None,
    *,
    kappa: float,
    outside: Callable[[Tensor], Tensor],
) -> Loss:
    """Cross-entropy of the inliers plus kappa times ``outside`` of the outliers' logits, in one pass for both."""
    assert outliers is not None
    known, strange = net(torch.cat([inputs, outliers])).tensor_split([len(inputs)])
    inside, strangers = F.cross_entropy(known, labels), outside(strange)
    return inside + kappa * strangers, {"in": inside.item(), "out": strangers.item(), "kappa": kappa}
