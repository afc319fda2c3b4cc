r"""Outlier exposure: a classifier that also learns from outliers, which shall get a low confidence.

$$ L = -\frac1N \sum_i \log p_{y_i}(x_i) + \frac{\kappa}{M} \sum_j L_{out}(x^{out}_j) $$

Three paradigms differ in the loss of an outlier, in the form of Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix:

- outlier exposure, cross-entropy to the uniform distribution, $-\frac1K \sum_k \log p_k$: Hendrycks, Mazeika and
  Dietterich, "Deep Anomaly Detection with Outlier Exposure", ICLR 2019, arXiv:1812.04606;
- CEDA, confidence-enhancing data augmentation, $\max_k \log p_k$: Hein, Andriushchenko and Bitterwolf, "Why ReLU
  Networks Yield High-Confidence Predictions Far Away From the Training Data", CVPR 2019, arXiv:1812.05720;
- ACET, from the same paper, one of these at the worst point that an attack finds within epsilon of the outlier,
  appendix eq. (11): projected gradient ascent with 40 steps of 2 epsilon / 41 from the outlier itself. The iterate with
  the highest confidence is trained on. It gives no guarantee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.params import choice, count
from caveat.nn._modes import at_rest
from caveat_lab.bounds.box import check_range
from caveat_lab.networks.training.paradigm import Batch, Loss, Paradigm
from caveat_lab.networks.training.schedule import Share

__all__ = ["ACET", "CEDA", "OutlierExposure", "log_confidence", "uniform_cross_entropy", "worst_in_ball"]

Objective = Callable[[Tensor], Tensor]  # logits (n, K) -> loss of each outlier (n,)


def uniform_cross_entropy(logits: Tensor) -> Tensor:
    """-(1/K) sum_k log p_k of each row; log K where the network is undecided, more elsewhere.

    >>> uniform_cross_entropy(torch.zeros(2, 4))  # log 4
    tensor([1.3863, 1.3863])
    """
    return -F.log_softmax(logits, dim=1).mean(dim=1)


def log_confidence(logits: Tensor) -> Tensor:
    """max_k log p_k of each row; -log K where the network is undecided, 0 where it is sure.

    >>> log_confidence(torch.zeros(2, 4))  # -log 4
    tensor([-1.3863, -1.3863])
    """
    return F.log_softmax(logits, dim=1).amax(dim=1)


_OBJECTIVES: dict[str, Objective] = {"uniform": uniform_cross_entropy, "confidence": log_confidence}


def _exposed_loss(net: nn.Module, batch: Batch, objective: Objective, kappa: float) -> Loss:
    inlier, outlier = batch.both(net)
    inside, outside = F.cross_entropy(inlier, batch.labels), objective(outlier).mean()
    return inside + kappa * outside, {"in": inside.item(), "out": outside.item(), "kappa": kappa}


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
    >>> batch = Batch(torch.ones(3, 2), torch.tensor([0, 1, 2]), torch.ones(5, 2))
    >>> loss, parts = OutlierExposure().loss(nn.Linear(2, 4), batch)
    >>> sorted(parts)
    ['in', 'kappa', 'out']
    """

    kappa: float = 1.0
    ramp: Share = (0.0, 0.0)

    name: ClassVar[str] = "oe"
    needs_outliers: ClassVar[bool] = True
    ramps: ClassVar[dict[str, str]] = {"kappa": "ramp"}

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        return _exposed_loss(net, batch, uniform_cross_entropy, *self.ramped(batch.progress))


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
    >>> batch = Batch(torch.zeros(3, 4), torch.tensor([0, 1, 2]), torch.zeros(5, 4))
    >>> CEDA(kappa=0.5).loss(nn.Identity(), batch)[0].round(decimals=4)  # log 4 - 0.5 log 4
    tensor(0.6931)
    """

    kappa: float = 1.0
    ramp: Share = (0.0, 0.0)

    name: ClassVar[str] = "ceda"
    needs_outliers: ClassVar[bool] = True
    ramps: ClassVar[dict[str, str]] = {"kappa": "ramp"}

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        return _exposed_loss(net, batch, log_confidence, *self.ramped(batch.progress))


@final
@dataclass(frozen=True)
class ACET(Paradigm):
    """Cross-entropy on inliers, low confidence on attacked outliers.

    Parameters
    ----------
    epsilon
        Radius of the attack in the largest entry; inputs lie in [0, 1].
    kappa
        Weight of the outliers.
    objective
        What is attacked and trained: ``"uniform"``, cross-entropy to the uniform distribution, as GOOD's authors
        found better; ``"confidence"``, the log-confidence of the original.
    steps
        Number of gradient steps of the attack. A training step costs about that many times as much as a plain one.
    start, attack_from
        Shares of all steps: outliers count from ``start``, their attack begins at ``attack_from``.

    Examples
    --------
    >>> ACET().kappa, ACET().steps
    (1.0, 40)
    """

    epsilon: float = 0.3
    kappa: float = 1.0
    objective: str = choice("uniform", _OBJECTIVES)
    steps: int = count(40)
    start: float = 0.05
    attack_from: float = 0.15

    name: ClassVar[str] = "acet"
    needs_outliers: ClassVar[bool] = True
    ramps: ClassVar[dict[str, str]] = {"kappa": "start", "epsilon": "attack_from"}

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert batch.outliers is not None
        (kappa, epsilon), objective = self.ramped(batch.progress), _OBJECTIVES[self.objective]
        if not kappa:
            inside = F.cross_entropy(net(batch.inputs), batch.labels)
            return inside, {"in": inside.item(), "out": 0.0, "kappa": 0.0}
        if epsilon:
            worst = worst_in_ball(net, batch.outliers, epsilon, objective, steps=self.steps)
            batch = replace(batch, outliers=worst)
        return _exposed_loss(net, batch, objective, kappa)


def worst_in_ball(net: nn.Module, x: Tensor, epsilon: float, objective: Objective, *, steps: int = 40) -> Tensor:
    """The iterate of the highest confidence of a sign-gradient ascent from x, within epsilon of it and [0, 1].

    The quick attack of training: fixed steps of 2 epsilon / (steps + 1), no restarts. To measure, see ``nn.attacks``.

    >>> net = nn.Linear(1, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0], [0.0]]))  # the confidence rises with x
    >>> worst_in_ball(net, torch.tensor([[0.5], [0.9]]), 0.2, log_confidence)
    tensor([[0.7000],
            [1.0000]])
    """
    check_range(x, (0.0, 1.0))
    low, high, size = (x - epsilon).clamp_min(0), (x + epsilon).clamp_max(1), 2 * epsilon / (steps + 1)
    point, best, highest = x, x, torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device)
    with at_rest(net):
        for step in range(steps + 1):
            point = point.detach().requires_grad_(step < steps)
            with torch.set_grad_enabled(step < steps):
                logits = net(point.clone())  # the model may write into its input
                value = objective(logits)
            confidence = log_confidence(logits.detach())
            better = confidence > highest
            highest = torch.where(better, confidence, highest)
            best = torch.where(better.view(-1, *[1] * (x.ndim - 1)), point.detach(), best)
            if step < steps:
                (slope,) = torch.autograd.grad(value.sum(), point)
                point = torch.clamp(point.detach() + size * slope.sign(), low, high)
    return best
