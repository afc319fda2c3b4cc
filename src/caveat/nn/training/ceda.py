r"""CEDA, confidence-enhancing data augmentation: outliers shall get a low largest probability.

$$ L = -\frac1N \sum_i \log p_{y_i}(x_i) + \frac{\kappa}{M} \sum_j \max_k \log p_k(x^{out}_j) $$

Hein, Andriushchenko and Bitterwolf, "Why ReLU Networks Yield High-Confidence Predictions Far Away From the Training
Data", CVPR 2019, arXiv:1812.05720, in the form of Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix.
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

__all__ = ["CEDA", "mean_log_confidence"]


@final
@dataclass(frozen=True)
class CEDA(Paradigm):
    """Cross-entropy, and the log-confidence of outliers.

    Parameters
    ----------
    kappa
        Weight of the outliers: 1 in the GOOD paper.
    ramp
        When kappa starts to rise and when it arrives, in shares of all steps.

    Examples
    --------
    >>> import torch
    >>> batch = Batch(torch.zeros(3, 4), torch.tensor([0, 1, 2]), torch.zeros(5, 4))
    >>> CEDA(kappa=0.5).loss(nn.Identity(), batch)[0].round(decimals=4)  # log 4 - 0.5 log 4
    tensor(0.6931)
    """

    kappa: float = 1.0
    ramp: tuple[float, float] = (0.0, 0.0)

    name: ClassVar[str] = "ceda"
    needs_outliers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Ramp(self.kappa, *self.ramp)

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        return exposed_loss(net, batch, kappa=Ramp(self.kappa, *self.ramp), outside=mean_log_confidence)


def mean_log_confidence(logits: Tensor) -> Tensor:
    """Mean of max_k log p_k; -log K where the network is undecided, 0 where it is sure.

    Examples
    --------
    >>> import torch
    >>> round(float(mean_log_confidence(torch.zeros(2, 4))), 4)  # -log 4
    -1.3863
    """
    return F.log_softmax(logits, dim=1).amax(dim=1).mean()
