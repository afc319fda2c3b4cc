r"""Learned confidence by hints.

A branch beside the head gives a confidence $c = \sigma(w^\top h + b)$. While learning, the network may mix the answer
into its prediction, $p' = c\,p + (1 - c)\,y$, and pays for it:

$$ L = -\frac1n \sum_i \log p'_{y_i}(x_i) - \frac{\lambda}{n} \sum_i \log c(x_i) $$

DeVries and Taylor, "Learning Confidence for Out-of-Distribution Detection in Neural Networks", 2018, arXiv:1802.04865,
section 2; Claros-Olivares and Brockmeier, appendix A.2.2, who write the branch as a softmax of one number, which is
always 1: it is a sigmoid. Lambda follows a budget: it falls while the price paid is below the budget and rises while it
is above. Hints are given to a random half of each batch only, so that the network does not unlearn hard samples. No
hints are given afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.checks import as_positive
from caveat._internal.params import number, positive
from caveat.nn.extract import extract
from caveat.nn.training.batch import Batch
from caveat.nn.training.own_confidence import with_confidence
from caveat.nn.training.paradigm import Loss, Paradigm
from caveat.nn.training.tap import head_of, tap
from caveat.outputs import Outputs

__all__ = ["ConfidenceBranch", "DeVries"]

_FALL, _RISE = 1 / 1.01, 1 / 0.99  # of lambda, per step


@final
class ConfidenceBranch(nn.Module):
    """A classifier with a confidence branch beside its head. The forward pass gives class logits."""

    price: Tensor

    def __init__(self, model: nn.Module, n_classes: int, price: float) -> None:
        super().__init__()
        self.model, self.head = model, head_of(model, n_classes)
        head = model.get_submodule(self.head)
        assert isinstance(head, nn.Linear)
        self.branch = nn.Linear(head.in_features, 1)
        self.register_buffer("price", torch.tensor(price, dtype=torch.float64))  # lambda: part of the state of a run

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.model(inputs)
        return logits

    def both(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Class logits (n, K), and the logit of the confidence (n,)."""
        logits, features = tap(self.model, self.head, inputs)
        return logits, self.branch(features).squeeze(1)


@final
@dataclass(frozen=True)
class DeVries(Paradigm):
    """DeVries and Taylor: the network says how sure it is, and pays when it asks for the answer.

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
        return ConfidenceBranch(model, n_classes, self.price)

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert isinstance(net, ConfidenceBranch)
        logits, sure = net.both(batch.inputs)
        hinted = torch.rand(len(batch.labels), generator=batch.generator).to(logits.device) < self.hinted
        task = hinted_loss(logits, sure, batch.labels, hinted)
        paid = -F.logsigmoid(sure).mean()
        loss = task + float(net.price) * paid
        parts = {"task": task.item(), "paid": paid.item(), "lambda": float(net.price)}
        if self.budget is not None:
            net.price.mul_(_FALL if parts["paid"] < self.budget else _RISE)
        return loss, parts

    def look(self, net: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        assert isinstance(net, ConfidenceBranch)
        logits, features = tap(net.model, net.head, inputs)
        return logits, features, net.branch(features).squeeze(1).double().sigmoid()

    def confidence(self, net: nn.Module, inputs: Tensor) -> Tensor | None:
        return self.look(net, inputs)[2]

    def classifier(self, net: nn.Module) -> nn.Module:
        assert isinstance(net, ConfidenceBranch)
        return net.model

    def outputs(self, net: nn.Module, loader: Iterable[Any], **how: Any) -> Outputs:
        assert isinstance(net, ConfidenceBranch)
        said = extract(net.model, loader, **{"head": net.head, **how})
        with torch.inference_mode():  # the features are there already: no second pass
            sure = F.linear(torch.tensor(said.features).double(), net.branch.weight.double().cpu(),
                            net.branch.bias.double().cpu()).squeeze(1)  # fmt: skip
        return with_confidence(said, sure.sigmoid())


def hinted_loss(logits: Tensor, sure: Tensor, labels: Tensor, hinted: Tensor) -> Tensor:
    """Mean of -log(c p_y + 1 - c) where ``hinted``, of -log p_y elsewhere; ``sure`` is the logit of c.

    Everything stays in logarithms: log(c p_y + 1 - c) is a logaddexp of sums of log-sigmoids.
    """
    own = F.log_softmax(logits, dim=1).gather(1, labels[:, None]).squeeze(1)
    mixed = torch.logaddexp(F.logsigmoid(sure) + own, F.logsigmoid(-sure))
    return -torch.where(hinted, mixed, own).mean()
