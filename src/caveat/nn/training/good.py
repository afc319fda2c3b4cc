r"""GOOD: low confidence around outliers, with a guarantee.

$$ \tfrac1N \sum_i CE(x_i, y_i) + \tfrac{\kappa}{M} \Big[ \sum_{easy} L_{CUB}(x_j; \epsilon)
   + \sum_{hard} L_{CUB}(x_j; 0) \Big] $$

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
arXiv:2007.08473, eqs. (9) and (10). kappa and epsilon rise from zero: at full strength from the start the network
gives up and answers the uniform distribution to everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from torch import nn
from torch.nn import functional as F

from caveat._internal.params import number
from caveat.nn.bounds import confidence_loss, difference_bounds
from caveat.nn.training.batch import Batch
from caveat.nn.training.ibp_init import interval_init_
from caveat.nn.training.paradigm import Loss, Paradigm
from caveat.nn.training.quantile import point_differences, quantile_loss
from caveat.nn.training.ramps import Ramp, Share

__all__ = ["GOOD"]


@final
@dataclass(frozen=True)
class GOOD(Paradigm):
    """Cross-entropy on inliers, certified low confidence on outliers.

    Parameters
    ----------
    quantile
        Share of each batch of outliers, the easiest first, that gets the certified loss: 1 is GOOD_100, 0.8 GOOD_80;
        0 is GOOD_0, which asks for low confidence at the outliers only and certifies nothing.
    epsilon
        Radius of the ball in the largest entry; inputs lie in [0, 1], and the ball is cut off there.
    kappa
        Weight of the outliers.
    kappa_ramp, epsilon_ramp
        When they start to rise and when they arrive, in shares of all steps.
    interval_init
        True draws the weights of every layer anew, so that bounds keep their size: for a new network, not for one that
        has been trained.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> batch = Batch(torch.rand(3, 2), torch.tensor([0, 1, 0]), torch.rand(4, 2))
    >>> loss, parts = GOOD().loss(nn.Linear(2, 2), batch)
    >>> sorted(parts)
    ['epsilon', 'in', 'kappa', 'out']
    """

    quantile: float = number(1.0, least=0, most=1)
    epsilon: float = 0.3
    kappa: float = 0.3
    kappa_ramp: Share = (0.1, 0.4)
    epsilon_ramp: Share = (0.1, 0.6)
    interval_init: bool = False

    name: ClassVar[str] = "good"
    needs_outliers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        Ramp(self.kappa, *self.kappa_ramp, name="kappa")
        Ramp(self.epsilon, *self.epsilon_ramp, name="epsilon")

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        return interval_init_(model) if self.interval_init else model

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert batch.outliers is not None
        kappa = Ramp(self.kappa, *self.kappa_ramp)(batch.progress)
        epsilon = Ramp(self.epsilon, *self.epsilon_ramp)(batch.progress)
        certified = self.quantile > 0 and epsilon > 0
        if not kappa or (certified and self.quantile == 1):
            inside, outside = F.cross_entropy(net(batch.inputs), batch.labels), batch.inputs.new_zeros(())
            if kappa:
                outside = confidence_loss(difference_bounds(net, batch.outliers, epsilon)).mean()
        else:  # the outliers themselves are needed too: one pass for both
            logits, said = batch.both(net)
            inside = F.cross_entropy(logits, batch.labels)
            if certified:
                outside = quantile_loss(difference_bounds(net, batch.outliers, epsilon), said, self.quantile)
            else:
                outside = confidence_loss(point_differences(said)).mean()
        parts = {"in": inside.item(), "out": outside.item(), "kappa": kappa, "epsilon": epsilon}
        return inside + kappa * outside, parts
