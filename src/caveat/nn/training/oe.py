r"""Outlier exposure: outliers shall get the uniform distribution.

$$ L = -\frac1N \sum_i \log p_{y_i}(x_i) - \frac{\kappa}{M} \sum_j \frac1K \sum_k \log p_k(x^{out}_j) $$

Hendrycks, Mazeika and Dietterich, "Deep Anomaly Detection with Outlier Exposure", ICLR 2019, arXiv:1812.04606, in the
form of Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor, nn
from torch.nn import functional as F

from caveat.nn.training._exposure import exposed_loss
from caveat.nn.training.batch import Batch
from caveat.nn.training.paradigm import Loss, Paradigm
from caveat.nn.training.ramps import Ramp

__all__ = ["OutlierExposure", "uniform_cross_entropy"]


@final
@dataclass(frozen=True)
class OutlierExposure(Paradigm):
    """Cross-entropy, and cross-entropy to the uniform distribution on outliers.

    Parameters
    ----------
    kappa
        Weight of the outliers: 0.3 on MNIST and 1 on CIFAR-10 in the GOOD paper.
    ramp
        When kappa starts to rise and when it arrives, in shares of all steps.

    Examples
    --------
    >>> import torch
    >>> batch = Batch(torch.ones(3, 2), torch.tensor([0, 1, 2]), torch.ones(5, 2))
    >>> loss, parts = OutlierExposure().loss(nn.Linear(2, 4), batch)
    >>> sorted(parts)
    ['in', 'kappa', 'out']
    """

    kappa: float = 1.0
    ramp: tuple[float, float] = (0.0, 0.0)

    name: ClassVar[str] = "oe"
    needs_outliers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Ramp(self.kappa, *self.ramp)

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        return exposed_loss(net, batch, kappa=Ramp(self.kappa, *self.ramp), outside=uniform_cross_entropy)


def uniform_cross_entropy(logits: Tensor) -> Tensor:
    """Mean of -(1/K) sum_k log p_k; log K where the network is undecided, more elsewhere.

    Examples
    --------
    >>> import torch
    >>> round(float(uniform_cross_entropy(torch.zeros(2, 4))), 4)  # log 4
    1.3863
    """
    return -F.log_softmax(logits, dim=1).mean()
