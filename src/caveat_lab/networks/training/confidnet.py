r"""ConfidNet: a second network that learns the probability that the first one gives to the true class.

The true class probability $TCP(x, y) = p_y(x)$ is high for right answers and low for wrong ones, but needs the label.
A regressor $s$ on features of the trained classifier learns to predict it:

$$ L = \frac1n \sum_i \left( s(x_i) - p_{y_i}(x_i) \right)^2 $$

Corbiere, Thome, Bar-Hen, Cord and Perez, "Addressing Failure Prediction by Learning Model Confidence", NeurIPS 2019,
arXiv:1910.04851; Claros-Olivares and Brockmeier, appendix A.2.1. Three phases: the classifier by cross-entropy; the
regressor on its frozen features; a copy of the encoder, fine-tuned with the regressor at a low rate and without
dropout. The classifier itself is not touched after the first.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.params import count, positive
from caveat.errors import InputError
from caveat.nn._heads import head_of, tap
from caveat_lab.networks.training.paradigm import Batch, Loss, Paradigm, Phase

__all__ = ["ConfidNet", "ConfidNetwork", "true_class_probability"]


@final
class ConfidNetwork(nn.Module):
    """A classifier, a copy of it whose features are fine-tuned, and a regressor on those. Gives class logits."""

    def __init__(self, model: nn.Module, n_classes: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.model, self.head = model, head_of(model, n_classes)
        self.encoder = copy.deepcopy(model)
        body: list[nn.Module] = []
        features: Any = model.get_submodule(self.head).in_features
        for _ in range(layers):
            body += [nn.Linear(features, hidden), nn.ReLU()]
            features = hidden
        self.regressor = nn.Sequential(*body, nn.Linear(features, 1))

    def forward(self, inputs: Tensor) -> Any:
        return self.model(inputs)

    def sure(self, inputs: Tensor) -> Any:
        """Logit (n,) of the predicted true class probability."""
        _, features = tap(self.encoder, self.head, inputs)
        return self.regressor(features).squeeze(1)


@final
@dataclass(frozen=True)
class ConfidNet(Paradigm):
    """ConfidNet. Its confidence is the predicted probability of the true class.

    Parameters
    ----------
    hidden, layers
        Width and number of the regressor's hidden layers.
    shares
        Of the epochs: classifier, regressor, fine-tuning.
    fine_tuning_rate
        Learning rate of the last phase, relative to that of the others.

    Examples
    --------
    >>> [(phase.name, phase.share) for phase in ConfidNet().phases()]
    [('classifier', 0.5), ('confidence', 0.3), ('fine-tuning', 0.2)]
    """

    hidden: int = count(400)
    layers: int = count(4, least=0)
    shares: tuple[float, float, float] = (0.5, 0.3, 0.2)
    fine_tuning_rate: float = positive(0.01)

    name: ClassVar[str] = "confidnet"

    def __post_init__(self) -> None:
        super().__post_init__()
        shares = self.shares if isinstance(self.shares, (tuple, list)) else ()
        if len(shares) != 3 or not all(share > 0 for share in shares):
            raise InputError(f"shares must be three positive numbers, got {self.shares!r}.")

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        return ConfidNetwork(model, n_classes, self.hidden, self.layers)

    def phases(self) -> tuple[Phase, ...]:
        first, second, third = self.shares
        return (
            Phase("classifier", first, frozen=lambda net: (net.encoder, net.regressor)),
            Phase("confidence", second, self.regression_loss, frozen=lambda net: (net.model, net.encoder),
                  begin=lambda net: net.encoder.load_state_dict(net.model.state_dict()), monitor="augrc"),
            Phase("fine-tuning", third, self.regression_loss, frozen=lambda net: (net.model,),
                  at_rest=lambda net: (net.encoder,), rate=self.fine_tuning_rate, monitor="augrc"),
        )  # fmt: skip

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        """Cross-entropy of the classifier: the loss of the first phase.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        batch
            Its rows.

        Returns
        -------
        tuple
            The loss, and its named parts.
        """
        return F.cross_entropy(net(batch.inputs), batch.labels), {}

    def regression_loss(self, net: Any, batch: Batch) -> Loss:
        """Mean squared error of the predicted true class probability: the loss of the other phases.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        batch
            Its rows.

        Returns
        -------
        tuple
            The loss, and its named parts.
        """
        with torch.no_grad():
            truth = true_class_probability(net(batch.inputs.clone()), batch.labels)
        return F.mse_loss(net.sure(batch.inputs).sigmoid(), truth), {"tcp": truth.mean().item()}

    def confidence(self, net: Any, inputs: Tensor) -> Any:
        return net.sure(inputs).double().sigmoid()

    def classifier(self, net: Any) -> Any:
        return net.model


def true_class_probability(logits: Tensor, labels: Tensor) -> Tensor:
    """p_y (n,)."""
    return logits.softmax(dim=1).gather(1, labels[:, None]).squeeze(1)
