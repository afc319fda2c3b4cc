r"""Deep Gamblers: one outcome more, on which the network may keep its money.

With a softmax over K + 1 outcomes, the last one "I keep my bet":

$$ L = -\frac1n \sum_i \log\left( o\, p_{y_i}(x_i) + p_{K+1}(x_i) \right) $$

Liu, Wang, Liang, Salakhutdinov, Morency and Ueda, "Deep Gamblers: Learning to Abstain with Portfolio Theory", NeurIPS
2019, arXiv:1907.00208; Claros-Olivares and Brockmeier, appendix A.2.3. With $p_{K+1} = 0$ it is cross-entropy minus
$\log o$. The reward o lies between 1, where keeping is always best, and K, where it never is: an even bet on all
classes already returns o / K.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.params import number
from caveat.errors import CaveatWarning, InputError
from caveat.nn.extract import extract
from caveat.nn.training.batch import Batch
from caveat.nn.training.own_confidence import with_confidence
from caveat.nn.training.paradigm import Loss, Paradigm
from caveat.nn.training.tap import head_of, tap
from caveat.outputs import Outputs

__all__ = ["DeepGamblers", "Gambler", "gambler_loss"]


@final
class Gambler(nn.Module):
    """A classifier with an abstention logit beside its head: together a linear head with K + 1 outputs.

    The forward pass gives the K class logits.
    """

    def __init__(self, model: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.model, self.head = model, head_of(model, n_classes)
        head = model.get_submodule(self.head)
        assert isinstance(head, nn.Linear)
        self.abstain = nn.Linear(head.in_features, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.model(inputs)
        return logits

    def all_logits(self, inputs: Tensor) -> Tensor:
        """Shape (n, K + 1): the classes, then abstention."""
        logits, features = tap(self.model, self.head, inputs)
        return torch.cat([logits, self.abstain(features)], dim=1)


@final
@dataclass(frozen=True)
class DeepGamblers(Paradigm):
    """Deep Gamblers. Its confidence is minus the abstention mass: larger is surer.

    Parameters
    ----------
    reward
        o: what a right bet returns. Larger discourages abstention. The paper tunes it on validation data.
    warm_up
        Share of the steps with cross-entropy over the classes alone: abstaining is the easy way out at first, and a
        network that takes it stops learning the classes.

    Examples
    --------
    >>> net = DeepGamblers(reward=2.2).build(nn.Linear(4, 3), 3)
    >>> net.all_logits(torch.zeros(5, 4)).shape
    torch.Size([5, 4])
    """

    reward: float = number(2.2)
    warm_up: float = number(0.3, least=0, most=1)

    name: ClassVar[str] = "deep_gamblers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.reward > 1:
            raise InputError(f"reward must be above 1, got {self.reward!r}: a right bet must beat keeping the money.")

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        if self.reward >= n_classes:
            warnings.warn(
                f"reward {self.reward:g} is not below the number of classes ({n_classes}): an even bet on all classes "
                "returns at least the stake, so abstaining never pays and its mass says little. Lower reward.",
                CaveatWarning,
                stacklevel=4,
            )
        return Gambler(model, n_classes)

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert isinstance(net, Gambler)
        if batch.progress < self.warm_up:
            return F.cross_entropy(net(batch.inputs), batch.labels), {}
        logits = net.all_logits(batch.inputs)
        kept = logits.detach().softmax(dim=1)[:, -1].mean()
        return gambler_loss(logits, batch.labels, self.reward), {"abstained": kept.item()}

    def look(self, net: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        assert isinstance(net, Gambler)
        logits, features = tap(net.model, net.head, inputs)
        every = torch.cat([logits, net.abstain(features)], dim=1)
        return logits, features, -every.double().softmax(dim=1)[:, -1]

    def confidence(self, net: nn.Module, inputs: Tensor) -> Tensor | None:
        return self.look(net, inputs)[2]

    def classifier(self, net: nn.Module) -> nn.Module:
        assert isinstance(net, Gambler)
        return net.model

    def outputs(self, net: nn.Module, loader: Iterable[Any], **how: Any) -> Outputs:
        assert isinstance(net, Gambler)
        said = extract(net.model, loader, **{"head": net.head, **how})
        with torch.inference_mode():  # the features are there already: no second pass
            kept = F.linear(torch.tensor(said.features).double(), net.abstain.weight.double().cpu(),
                            net.abstain.bias.double().cpu())  # fmt: skip
            mass = torch.cat([torch.tensor(said.logits).double(), kept], dim=1).softmax(dim=1)[:, -1]
        return with_confidence(said, -mass)


def gambler_loss(logits: Tensor, labels: Tensor, reward: float) -> Tensor:
    """Mean of -log(o p_y + p_{K+1}) of logits (n, K + 1), in logarithms throughout."""
    log_p = F.log_softmax(logits, dim=1)
    right = log_p.gather(1, labels[:, None]).squeeze(1)
    return -torch.logaddexp(right + math.log(reward), log_p[:, -1]).mean()
