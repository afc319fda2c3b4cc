r"""Classifiers with one more output, a linear branch next to the head, from which the network's own confidence comes.

**Learned confidence by hints.** The branch gives a confidence $c = \sigma(w^\top h + b)$. While learning, the network
may mix the answer into its prediction, $p' = c\,p + (1 - c)\,y$, and pays for it:

$$ L = -\frac1n \sum_i \log p'_{y_i}(x_i) - \frac{\lambda}{n} \sum_i \log c(x_i) $$

DeVries and Taylor, "Learning Confidence for Out-of-Distribution Detection in Neural Networks", 2018, arXiv:1802.04865,
section 2; Claros-Olivares and Brockmeier, appendix A.2.2, who write the branch as a softmax of one number, which is
always 1: it is a sigmoid. Lambda follows a budget: it falls while the price paid is below the budget and rises while it
is above. Hints are given to a random half of each batch only, so that the network does not unlearn hard samples.

**Deep Gamblers.** With a softmax over K + 1 outcomes, where the last one, from the branch, keeps the bet:

$$ L = -\frac1n \sum_i \log\left( o\, p_{y_i}(x_i) + p_{K+1}(x_i) \right) $$

Liu, Wang, Liang, Salakhutdinov, Morency and Ueda, "Deep Gamblers: Learning to Abstain with Portfolio Theory", NeurIPS
2019, arXiv:1907.00208; Claros-Olivares and Brockmeier, appendix A.2.3. With $p_{K+1} = 0$ it is cross-entropy minus
$\log o$. The reward o lies between 1, where keeping is always best, and K, where it never is: an even bet on all
classes already returns o / K.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.checks import as_positive
from caveat._internal.params import number, positive
from caveat.errors import CaveatWarning, InputError
from caveat.nn._heads import head_of, tap
from caveat.nn.extract import extract
from caveat.outputs import Outputs
from caveat_lab.networks.training.paradigm import Batch, Loss, Paradigm, with_confidence

__all__ = ["Branched", "DeVries", "DeepGamblers", "gambler_loss", "hinted_loss"]

_FALL, _RISE = 1 / 1.01, 1 / 0.99  # of lambda, per step


@final
class Branched(nn.Module):
    """A classifier with a linear layer of one output next to its head. The forward pass gives class logits (n, K)."""

    price: Tensor  # lambda of DeVries, a buffer: part of the state of a run

    def __init__(self, model: nn.Module, n_classes: int, name: str = "branch") -> None:
        super().__init__()
        self.model, self.head, self._name = model, head_of(model, n_classes), name
        self.add_module(name, nn.Linear(model.get_submodule(self.head).in_features, 1))  # type: ignore[arg-type]

    @property
    def extra(self) -> Any:
        return self.get_submodule(self._name)

    def forward(self, inputs: Tensor) -> Any:
        return self.model(inputs)

    def both(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits (n, K), and the output (n,) of the branch."""
        logits, features = tap(self.model, self.head, inputs)
        return logits, self.extra(features).squeeze(1)


class _BranchParadigm(Paradigm):
    """A paradigm whose network is ``Branched``; the class logits and the branch give its confidence."""

    @abstractmethod
    def from_branch(self, logits: Tensor, branch: Tensor) -> Tensor:
        """Confidence (n,) from class logits (n, K) and the output (n,) of the branch.

        Parameters
        ----------
        logits
            Class logits, shape (n, K).
        branch
            Output of the branch, shape (n,).

        Returns
        -------
        Tensor of shape (n,)
            The confidence; larger is surer.
        """

    def look(self, net: Any, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        logits, features = tap(net.model, net.head, inputs)
        return logits, features, self.from_branch(logits.double(), net.extra(features).squeeze(1).double())

    def confidence(self, net: nn.Module, inputs: Tensor) -> Tensor | None:
        return self.look(net, inputs)[2]

    def classifier(self, net: Any) -> nn.Module:
        return net.model  # type: ignore[no-any-return]

    def outputs(self, net: Any, loader: Iterable[Any], **how: Any) -> Outputs:
        outputs = extract(net.model, loader, **{"head": net.head, **how})
        logits, features = (torch.tensor(array).double() for array in (outputs.logits, outputs.features))
        with torch.inference_mode():  # the features are there already: no second pass
            weight, bias = (part.double().cpu() for part in (net.extra.weight, net.extra.bias))
            confidence = self.from_branch(logits, F.linear(features, weight, bias).squeeze(1))
        return with_confidence(outputs, confidence)


@final
@dataclass(frozen=True)
class DeVries(_BranchParadigm):
    """DeVries and Taylor: the network states its confidence, and pays when it uses the answer.

    Parameters
    ----------
    price
        Lambda at the start.
    budget
        Mean price $-\\log c$ that lambda steers to; the paper uses 0.3. None: lambda stays.
    hinted
        Share of each batch that gets hints.

    Examples
    --------
    >>> net = DeVries().build(nn.Linear(4, 3), 3)
    >>> [tuple(part.shape) for part in net.both(torch.zeros(5, 4))]
    [(5, 3), (5,)]
    """

    price: float = positive(0.1)
    budget: float | None = 0.3
    hinted: float = number(0.5, least=0, most=1)

    name: ClassVar[str] = "devries"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is not None:
            as_positive(self.budget, "budget")

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        net = Branched(model, n_classes)
        net.register_buffer("price", torch.tensor(self.price, dtype=torch.float64))
        return net

    def loss(self, net: Any, batch: Batch) -> Loss:
        logits, branch = net.both(batch.inputs)
        hinted = torch.rand(len(batch.labels), generator=batch.generator).to(logits.device) < self.hinted
        task, paid = hinted_loss(logits, branch, batch.labels, hinted), -F.logsigmoid(branch).mean()
        loss = task + float(net.price) * paid
        parts = {"task": task.item(), "paid": paid.item(), "lambda": float(net.price)}
        if self.budget is not None:
            net.price.mul_(_FALL if parts["paid"] < self.budget else _RISE)
        return loss, parts

    def from_branch(self, logits: Tensor, branch: Tensor) -> Tensor:
        return branch.sigmoid()


@final
@dataclass(frozen=True)
class DeepGamblers(_BranchParadigm):
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
    >>> [tuple(part.shape) for part in net.both(torch.zeros(5, 4))]
    [(5, 3), (5,)]
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
                "returns at least the stake, so abstaining never pays and its mass carries little information. Lower "
                "reward.",
                CaveatWarning,
                stacklevel=5,
            )
        return Branched(model, n_classes, "abstain")

    def loss(self, net: Any, batch: Batch) -> Loss:
        if batch.progress < self.warm_up:
            return F.cross_entropy(net(batch.inputs), batch.labels), {}
        logits, branch = net.both(batch.inputs)
        abstained = -self.from_branch(logits.detach(), branch.detach()).mean()
        return gambler_loss(_outcomes(logits, branch), batch.labels, self.reward), {"abstained": abstained.item()}

    def from_branch(self, logits: Tensor, branch: Tensor) -> Tensor:
        return -_outcomes(logits, branch).softmax(dim=1)[:, -1]


def _outcomes(logits: Tensor, branch: Tensor) -> Tensor:
    """Logits (n, K + 1): the classes, then abstention."""
    return torch.cat([logits, branch[:, None]], dim=1)


def hinted_loss(logits: Tensor, branch: Tensor, labels: Tensor, hinted: Tensor) -> Tensor:
    """Mean of -log(c p_y + 1 - c) where ``hinted``, of -log p_y elsewhere; ``branch`` is the logit of c.

    Everything stays in logarithms: log(c p_y + 1 - c) is a logaddexp of sums of log-sigmoids.
    """
    own = F.log_softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    mixed = torch.logaddexp(F.logsigmoid(branch) + own, F.logsigmoid(-branch))
    return -torch.where(hinted, mixed, own).mean()


def gambler_loss(logits: Tensor, labels: Tensor, reward: float) -> Tensor:
    """Mean of -log(o p_y + p_{K+1}) of logits (n, K + 1), in logarithms throughout."""
    log_p = F.log_softmax(logits, dim=1)
    right = log_p.gather(1, labels[:, None]).squeeze(1)
    return -torch.logaddexp(right + math.log(reward), log_p[:, -1]).mean()
