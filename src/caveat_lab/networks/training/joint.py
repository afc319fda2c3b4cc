r"""A classifier gated by a detector with a guarantee.

$$ p(y|x) = \sigma(g(x))\, p_{in}(y|x) + (1 - \sigma(g(x))) / K $$

The guarantee needs bounds of the detector g alone, so the classifier may be any network and keeps its accuracy.

$$ \tfrac1N \sum_i \log(1 + e^{-g(x_i)}) + \tfrac{\kappa}{M} \sum_j \log(1 + e^{\overline g(x_j; \epsilon)}) $$

trains the detector, with an interval bound of g over the ball; cross-entropy and, on outliers, cross-entropy to the
uniform distribution train the classifier. Meinke, Bitterwolf and Hein, "Provably Adversarially Robust Detection of
Out-of-Distribution Data", NeurIPS 2022, arXiv:2106.04260. Unlike theirs, the detector's last layer is free: with
negative weights, which buy low confidence far away along every ray, short training at a large radius does not succeed.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.params import number
from caveat.errors import InputError
from caveat_lab.bounds import Box, gated_log_confidence, input_box, joint_log_probabilities, propagate, register_rule
from caveat_lab.bounds.arithmetic import REAL, Arithmetic
from caveat_lab.bounds.roundoff import output_errors
from caveat_lab.bounds.rules import linear
from caveat_lab.networks.training.exposure import uniform_cross_entropy
from caveat_lab.networks.training.good import interval_init_
from caveat_lab.networks.training.paradigm import Batch, Loss, Paradigm, Phase
from caveat_lab.networks.training.schedule import Share

__all__ = ["GatedModel", "GatedParadigm", "Joint", "JointModel", "NegativeLinear", "with_head"]

Clip = tuple[float, float] | None


class NegativeLinear(nn.Module):
    """A linear layer with one output whose weights are all negative: w = -exp(v).

    g falls along every ray on which a unit stays active, so the confidence goes to 1/K far away from everything.
    """

    def __init__(self, in_features: int) -> None:
        super().__init__()
        self.log_weight = nn.Parameter(torch.randn(1, in_features) * 0.1 - 3)
        self.bias = nn.Parameter(torch.full((1,), 3.0))

    @property
    def weight(self) -> Tensor:
        return -self.log_weight.exp()

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


@register_rule(NegativeLinear, affine=True)
def _negative_linear(module: NegativeLinear, box: Box, slack: Arithmetic | None) -> Box:
    if slack is not None:  # the exponential is rounded, which changes a product as if its other factor were
        size = box.center.abs() + box.radius
        box = Box(box.center, box.radius + slack.lost(8) * size + slack.tiny)
    return linear(box, module.weight, module.bias, slack)


def with_head(model: nn.Module, head: type[nn.Module] | None = None) -> nn.Module:
    """A copy of a network whose last linear layer is replaced by one with a single output.

    Examples
    --------
    >>> with_head(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10)))[2]
    Linear(in_features=3, out_features=1, bias=True)
    """
    detector = copy.deepcopy(model)
    layers = {name: module for name, module in detector.named_modules() if isinstance(module, nn.Linear)}
    if not layers or "" in layers:
        raise InputError("the model must contain a linear layer to make a detector from it, got none inside it.")
    last, layer = layers.popitem()
    parent, _, name = last.rpartition(".")
    new = nn.Linear(layer.in_features, 1) if head is None else head(layer.in_features)
    setattr(detector.get_submodule(parent), name, new)
    return detector


class GatedModel(nn.Module, ABC):
    """Log-probabilities (n, K) of a classifier whose confidence a gate g limits; they serve as logits."""

    def __init__(self, classifier: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.classifier, self.n_classes = classifier, n_classes

    @abstractmethod
    def gate(self, x: Tensor) -> Tensor:
        """g (n,): the larger, the more like training data."""

    @abstractmethod
    def gate_upper(
        self, x: Tensor, epsilon: float | Tensor, clip: Clip = (0.0, 1.0), slack: Arithmetic = REAL
    ) -> Tensor:
        """Upper bounds (n,) of the gate over the ball, with its rounding in an arithmetic."""

    def forward(self, x: Tensor) -> Tensor:
        return joint_log_probabilities(self.classifier(x.clone()), self.gate(x))  # either may write into its input

    def log_confidence_bounds(
        self, x: Tensor, epsilon: float | Tensor, clip: Clip = (0.0, 1.0), slack: Arithmetic = REAL
    ) -> tuple[Tensor, Tensor]:
        """Bounds (n,) of the log-confidence over the ball, from bounds of the gate alone.

        The lower bound is that of 1/K: a better one would need bounds of the classifier. ``slack``: the arithmetic
        whose rounding they hold. The last steps, from gate and logits to log-probabilities, are off by a few units
        each, for no term grows faster than its share falls: |t| e^t < 1.
        """
        upper = self.gate_upper(x, epsilon, clip, slack)
        lowest = gated_log_confidence(torch.full_like(upper, -torch.inf), self.n_classes)
        room = slack.lost(self.n_classes + 32)
        return lowest - room * (1 - lowest), gated_log_confidence(upper, self.n_classes) + room * (1 - lowest)


class GatedParadigm(Paradigm):
    """A paradigm whose network is a ``GatedModel``."""

    needs_outliers: ClassVar[bool] = True

    def classifier(self, net: nn.Module) -> nn.Module:
        return net.classifier if isinstance(net, GatedModel) else net

    def confidence(self, net: nn.Module, inputs: Tensor) -> Any:
        """The confidence of the gated classifier (n,).

        Parameters
        ----------
        net
            The result of :meth:`build`.
        inputs
            Shape (n, ...).

        Returns
        -------
        Tensor of shape (n,)
            The confidence.
        """
        return net(inputs).amax(dim=1).exp()


@final
class JointModel(GatedModel):
    """A classifier that a detector gates.

    The detector gives g (n, 1) and is made of layers that have interval bounds. ``shift`` is added to g: more restores
    the confidence of inliers, and loosens the bounds of outliers.
    """

    shift: Tensor

    def __init__(self, classifier: nn.Module, detector: nn.Module, n_classes: int, *, shift: float = 0.0) -> None:
        super().__init__(classifier, n_classes)
        self.detector = detector
        self.register_buffer("shift", torch.tensor(float(shift)))

    def gate(self, x: Tensor) -> Tensor:
        return self.detector(x).squeeze(1) + self.shift  # type: ignore[no-any-return]

    def gate_upper(
        self, x: Tensor, epsilon: float | Tensor, clip: Clip = (0.0, 1.0), slack: Arithmetic = REAL
    ) -> Tensor:
        box = input_box(x, epsilon, clip)
        upper = propagate(self.detector, box, slack=REAL).upper
        if slack is not REAL:
            wide, errors = propagate(self.detector, box, slack=slack).upper, output_errors(self.detector, box, slack)
            upper = wide if errors is None else torch.fmin(wide, upper + errors)
            upper = upper + slack.lost(1) * (upper.abs() + self.shift.abs())  # of the sum with the shift
        return upper.squeeze(1) + self.shift


@final
@dataclass(frozen=True)
class Joint(GatedParadigm):
    """A classifier and a certified detector of the same shape, trained side by side.

    Parameters
    ----------
    epsilon
        Radius of the ball in the largest entry; inputs lie in [0, 1].
    kappa
        Weight of the outliers in the loss of the detector.
    outlier_weight
        Weight of the outliers in the loss of the classifier.
    kappa_ramp, epsilon_ramp
        When they start to rise and when they arrive, in shares of all steps.
    interval_init
        Draw the detector's hidden layers so that bounds keep their size.
    negative_last_layer
        The published form, with its guarantee far away from all data.
    bias_shift
        Added to g after training.
    classifier_share
        Share of the epochs, the last ones, that train the classifier alone. It gains from more training than the
        detector does, and its steps cost a third. Each part has the learning rates of a whole run.

    Examples
    --------
    >>> net = Joint().build(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 10)), 10)
    >>> [round(total, 4) for total in net(torch.rand(2, 1, 2, 2)).exp().sum(dim=1).tolist()]
    [1.0, 1.0]
    """

    epsilon: float = 0.3
    kappa: float = 0.3
    outlier_weight: float = number(0.3, least=0)
    kappa_ramp: Share = (0.0, 0.5)
    epsilon_ramp: Share = (0.0, 0.5)
    interval_init: bool = True
    negative_last_layer: bool = False
    bias_shift: float = number(0.0)
    classifier_share: float = number(0.0, least=0, most=0.95)

    name: ClassVar[str] = "joint"
    ramps: ClassVar[dict[str, str]] = {"kappa": "kappa_ramp", "epsilon": "epsilon_ramp"}

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        detector = with_head(model, NegativeLinear if self.negative_last_layer else None)
        for module in detector.modules():  # a start of its own, not a copy of the classifier's
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                module.reset_parameters()
        if self.interval_init:
            interval_init_(detector, last=self.negative_last_layer)
        return JointModel(model, detector, n_classes, shift=self.bias_shift)

    def phases(self) -> tuple[Phase, ...]:
        """Both parts together; then, if asked for, the classifier alone."""
        if not self.classifier_share:
            return (Phase(),)
        alone = Phase("classifier", self.classifier_share, self._classifier_loss, frozen=lambda net: [net.detector])
        return Phase("both", 1 - self.classifier_share), alone

    def _classifier_loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert isinstance(net, JointModel)
        inlier, outlier = batch.both(net.classifier)
        inside, uniform = F.cross_entropy(inlier, batch.labels), uniform_cross_entropy(outlier).mean()
        return inside + self.outlier_weight * uniform, {"in": inside.item(), "out": uniform.item()}

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        assert batch.outliers is not None
        assert isinstance(net, JointModel)
        kappa, epsilon = self.ramped(batch.progress)
        classified, parts = self._classifier_loss(net, batch)
        accepted = F.softplus(-net.detector(batch.inputs)).mean()
        rejected = F.softplus(propagate(net.detector, input_box(batch.outliers, epsilon)).upper).mean()
        parts |= {"known": accepted.item(), "strange": rejected.item()}
        return classified + accepted + kappa * rejected, parts
