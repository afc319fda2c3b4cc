r"""GOOD: low confidence around outliers, with a guarantee.

$$ \tfrac1N \sum_i CE(x_i, y_i) + \tfrac{\kappa}{M} \Big[ \sum_{easy} L_{CUB}(x_j; \epsilon)
   + \sum_{hard} L_{CUB}(x_j; 0) \Big] $$

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
arXiv:2007.08473, eqs. (9) and (10). The easy outliers are the floor(q M) of a batch with the smallest bounds at
epsilon: a guarantee for an outlier that looks like an inlier would lower the confidence of inliers. kappa and epsilon
rise from zero: at full strength from the start the network answers the uniform distribution to everything.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrize import is_parametrized

from caveat._internal.params import number
from caveat.errors import InputError
from caveat_lab.bounds import largest_difference_bound, spread_loss
from caveat_lab.networks.training.paradigm import Batch, Loss, Paradigm
from caveat_lab.networks.training.schedule import Share

__all__ = ["GOOD", "certified_count", "interval_init_", "quantile_loss"]


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
    ramps: ClassVar[dict[str, str]] = {"kappa": "kappa_ramp", "epsilon": "epsilon_ramp"}

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        return interval_init_(model) if self.interval_init else model

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert batch.outliers is not None
        kappa, epsilon = self.ramped(batch.progress)
        certified = self.quantile > 0 and epsilon > 0
        if not kappa or (certified and self.quantile == 1):
            inside, outside = F.cross_entropy(net(batch.inputs), batch.labels), batch.inputs.new_zeros(())
            if kappa:
                outside = spread_loss(largest_difference_bound(net, batch.outliers, epsilon)).mean()
        else:  # the logits of the outliers are needed too: one pass for both
            inlier, outlier = batch.both(net)
            inside = F.cross_entropy(inlier, batch.labels)
            if certified:
                outside = quantile_loss(largest_difference_bound(net, batch.outliers, epsilon), outlier, self.quantile)
            else:
                outside = spread_loss(_spread(outlier)).mean()
        parts = {"in": inside.item(), "out": outside.item(), "kappa": kappa, "epsilon": epsilon}
        return inside + kappa * outside, parts


def certified_count(n: int, quantile: float) -> int:
    """How many of n outliers get the certified loss: floor(q n), exactly.

    >>> certified_count(128, 0.6), certified_count(100, 0.29)  # 0.29 * 100 is 28.999999999999996 in floats
    (76, 29)
    """
    return math.floor(round(quantile * n, 9))


def quantile_loss(largest: Tensor, logits: Tensor, quantile: float) -> Tensor:
    """Eq. (10) without kappa: the mean over a batch of outliers. Lower is better; 0 is uniform everywhere.

    ``largest`` (M,) are the largest difference bounds over the ball, ``logits`` (M, K) are of the outliers themselves.

    >>> quantile_loss(torch.tensor([4.0, 2.0]), torch.zeros(2, 2), 0.5)  # 2.0 is the easier one: (log 3 + log 1) / 2
    tensor(0.5493)
    """
    order = largest.detach().argsort(stable=True)
    easy, hard = order.tensor_split([certified_count(len(order), quantile)])
    return (spread_loss(largest[easy]).sum() + spread_loss(_spread(logits[hard])).sum()) / len(order)


def _spread(logits: Tensor) -> Tensor:
    """Largest minus smallest logit (n,): the largest difference bound at epsilon 0, for one plain forward pass."""
    return logits.amax(dim=1) - logits.amin(dim=1)


def interval_init_(model: nn.Module, *, last: bool = True, generator: torch.Generator | None = None) -> nn.Module:
    r"""Draw the weights of every linear and convolutional layer anew, biases zero, so that bounds keep their size.

    $$ W_{ij} \sim N(0, \sigma^2), \qquad \sigma = \sqrt{2 \pi} / n_{in} $$

    For a layer whose inputs have radius r, the radius of the output is |W| r with |W| on average $\sigma \sqrt{2/\pi}$:
    $n_{in} \sigma \sqrt{2 / \pi} = 2$, and ReLU keeps half of it, so that all layers have the same radius. With the
    usual starts it grows like the square root of the width. Shi, Wang, Zhang, Yi and Hsieh, "Fast Certified
    Robust Training with Short Warmup", NeurIPS 2021, section 4.1.

    ``last=False`` leaves the last such layer as it is. The default generator is torch's own.

    >>> layer = interval_init_(nn.Sequential(nn.Linear(400, 300)), generator=torch.Generator().manual_seed(0))[0]
    >>> round(layer.weight.std().item() * 400 / math.sqrt(2 * math.pi), 2)
    1.0
    """
    layers = [module for module in model.modules() if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d))]
    if not layers:
        raise InputError("the model must have a linear or convolutional layer, got none.")
    with torch.no_grad():
        for layer in layers if last else layers[:-1]:
            fan_in = layer.weight[0].numel()
            weight = torch.empty_like(layer.weight).normal_(0, math.sqrt(2 * math.pi) / fan_in, generator=generator)
            if is_parametrized(layer, "weight"):
                layer.weight = weight  # what the parametrization makes of it
            else:
                layer.weight.copy_(weight)
            if layer.bias is not None:
                layer.bias.zero_()
    return model
