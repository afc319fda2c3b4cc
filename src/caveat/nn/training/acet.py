r"""ACET: low confidence at the worst points an attack finds around outliers. No guarantee.

$$ \tfrac1N \sum_i CE(x_i, y_i) + \tfrac{\kappa}{M} \sum_j \max_{\|z - x_j\|_\infty \le \epsilon} L_{out}(z) $$

Hein, Andriushchenko and Bitterwolf, "Why ReLU Networks Yield High-Confidence Predictions Far Away From the Training
Data", CVPR 2019; Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix eq. (11): cross-entropy to the uniform
distribution as L_out, and projected gradient ascent with 40 steps of 2 epsilon / 41 from the outlier itself; of its
iterates the one of the highest confidence is trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.checks import as_count
from caveat._internal.params import choice, count
from caveat.nn._modes import at_rest
from caveat.nn.bounds.box import check_range
from caveat.nn.training.batch import Batch
from caveat.nn.training.paradigm import Loss, Paradigm
from caveat.nn.training.ramps import Ramp

__all__ = ["ACET", "worst_in_ball"]

Objective = Callable[[Tensor], Tensor]  # logits (n, K) -> what is maximised (n,)


def _uniform_loss(logits: Tensor) -> Tensor:
    return -F.log_softmax(logits, dim=1).mean(dim=1)


def _log_confidence(logits: Tensor) -> Tensor:
    return F.log_softmax(logits, dim=1).amax(dim=1)


_OBJECTIVES: dict[str, Objective] = {"uniform": _uniform_loss, "confidence": _log_confidence}


def worst_in_ball(net: nn.Module, x: Tensor, epsilon: float, objective: Objective, *, steps: int = 40) -> Tensor:
    """The iterate of the highest confidence of a sign-gradient ascent from x, start and last one included.

    The quick attack of training: fixed steps of 2 epsilon / (steps + 1), no restarts. To measure, see ``nn.attacks``.

    Parameters
    ----------
    net
        Gives logits; used at rest and left in its modes.
    x
        Inputs in [0, 1], (n, ...). Every iterate stays within epsilon of them and within [0, 1].
    epsilon
        Radius in the largest entry.
    objective
        What is climbed, from logits (n, K) to (n,).
    steps
        Gradient steps.

    Examples
    --------
    >>> net = nn.Linear(1, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0], [0.0]]))  # the confidence rises with x
    >>> worst_in_ball(net, torch.tensor([[0.5], [0.9]]), 0.2, lambda f: f.log_softmax(1).amax(1))
    tensor([[0.7000],
            [1.0000]])
    """
    check_range(x, (0.0, 1.0))
    low, high = (x - epsilon).clamp_min(0), (x + epsilon).clamp_max(1)
    size = 2 * epsilon / (as_count(steps, "steps") + 1)
    here, best, highest = x, x, torch.full((len(x),), -torch.inf, dtype=x.dtype, device=x.device)
    with at_rest(net):
        for step in range(steps + 1):
            here = here.detach().requires_grad_(step < steps)
            with torch.set_grad_enabled(step < steps):
                logits = net(here.clone())  # the model may write into what it is given
                value = objective(logits)
            sure = _log_confidence(logits.detach())
            better = sure > highest
            highest = torch.where(better, sure, highest)
            best = torch.where(better.view(-1, *[1] * (x.ndim - 1)), here.detach(), best)
            if step < steps:
                (slope,) = torch.autograd.grad(value.sum(), here)
                here = torch.clamp(here.detach() + size * slope.sign(), low, high)
    return best


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
        Of the attack. A training step costs about that many times as much as a plain one.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._ramps()

    def _ramps(self) -> tuple[Ramp, Ramp]:
        return (
            Ramp(self.kappa, self.start, self.start, name="kappa"),
            Ramp(self.epsilon, self.attack_from, self.attack_from, name="epsilon"),
        )

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert batch.outliers is not None
        kappa, epsilon = (ramp(batch.progress) for ramp in self._ramps())
        if not kappa:
            inside = F.cross_entropy(net(batch.inputs), batch.labels)
            return inside, {"in": inside.item(), "out": 0.0}
        objective = _OBJECTIVES[self.objective]
        if epsilon:
            worst = worst_in_ball(net, batch.outliers, epsilon, objective, steps=self.steps)
            batch = replace(batch, outliers=worst)
        logits, said = batch.both(net)
        inside, outside = F.cross_entropy(logits, batch.labels), objective(said).mean()
        return inside + kappa * outside, {"in": inside.item(), "out": outside.item()}
