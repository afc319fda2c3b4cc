"""What a way of training must say: which network it trains, in which phases, and by which loss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from caveat._internal.params import check_params
from caveat.nn._modes import at_rest
from caveat.nn._walk import place_of
from caveat.nn.extract import extract
from caveat.nn.training.batch import Batch
from caveat.nn.training.own_confidence import Watched, with_confidence
from caveat.nn.training.rows import Draw, Rows
from caveat.nn.training.tap import head_of, tap
from caveat.outputs import Outputs

__all__ = ["Loss", "Paradigm", "Phase"]

Loss = tuple[Tensor, dict[str, float]]  # what is minimised, and its named parts for the display and the history


def _nothing(net: nn.Module) -> Iterable[nn.Module]:
    return ()


@final
@dataclass(frozen=True)
class Phase:
    """One stretch of training with its own loss, optimiser and trained parameters.

    Parameters
    ----------
    name
        Shown in the progress display and in the history.
    share
        Of the epochs, relative to the other phases. Every phase has at least one epoch.
    loss
        As :meth:`Paradigm.loss`; None: that one.
    frozen
        Gives the modules that are not trained. They are in eval mode and get no gradient.
    at_rest
        Gives further modules that are in eval mode although they are trained (no dropout, fixed batch statistics).
    begin
        Called once, before the first step of the phase and never again when a stopped run goes on.
    rate
        The learning rate of this phase is ``learning_rate * rate``.
    monitor
        What early stopping looks at in this phase; None: what the caller asked for.
    """

    name: str = "training"
    share: float = 1.0
    loss: Callable[[nn.Module, Batch], Loss] | None = None
    frozen: Callable[[nn.Module], Iterable[nn.Module]] = _nothing
    at_rest: Callable[[nn.Module], Iterable[nn.Module]] = _nothing
    begin: Callable[[nn.Module], None] | None = None
    rate: float = 1.0
    monitor: str | None = None


class Paradigm(ABC):
    """A way to train a classifier. A subclass is a dataclass of its parameters, each with its check, and a loss.

    Losses are means over the batch, never sums: published rates for summed losses are to be converted.
    """

    name: ClassVar[str]
    needs_outliers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_params(self)

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        """The network that is trained. Its forward pass gives class logits (n, K), whatever else it has.

        The default is the model itself. A paradigm that needs a branch more wraps it. New weights are drawn from
        torch's global generator, which the trainer has seeded.
        """
        return model

    def prepare(self, net: nn.Module, rows: Rows, draw: Draw | None, generator: torch.Generator) -> None:
        """Learn from the training data what is not learned by steps, such as a density. Default: nothing.

        Called once, before the first step, and not when a stopped run goes on: what is learned belongs into buffers.

        Parameters
        ----------
        net
            What :meth:`build` gave.
        rows
            The training data.
        draw
            Gives outliers where ``needs_outliers``, else None.
        generator
            The source of chance.
        """
        return

    def phases(self) -> tuple[Phase, ...]:
        """The phases in their order."""
        return (Phase(),)

    @abstractmethod
    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        """Loss of one batch, on the scale of a mean, and its parts.

        Parameters
        ----------
        net
            What :meth:`build` gave, in train mode.
        batch
            Its rows, outliers where ``needs_outliers``, the progress for ramps, and the generator.
        """

    def confidence(self, net: nn.Module, inputs: Tensor) -> Tensor | None:
        """The network's own confidence (n,), larger is surer; None where the paradigm has none."""
        return None

    def classifier(self, net: nn.Module) -> nn.Module:
        """The part of the network whose last linear layer is the head: what features are extracted from."""
        return net

    def look(self, net: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits (n, K), features (n, D) and confidence (n,) of one pass, in whatever mode the network is."""
        model = self.classifier(net)
        logits, features = tap(model, head_of(model), inputs)
        return logits, features, self.confidence(net, inputs)

    def outputs(self, net: nn.Module, loader: Iterable[Any], **how: Any) -> Outputs:
        """What the trained network said about everything the loader gives, its own confidence included.

        ``how`` goes to ``nn.extract``. The default asks the network for its confidence batch by batch.
        """
        if type(self).confidence is Paradigm.confidence:
            return extract(self.classifier(net), loader, **how)
        watched = Watched(loader, lambda inputs: self.confidence(net, inputs), place_of(net, None))
        with at_rest(net):
            said = extract(self.classifier(net), watched, **how)
        return with_confidence(said, torch.cat(watched.seen))
