"""What a way of training defines: the network it trains, its phases and its loss. The plain one is cross-entropy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.params import check_params
from caveat.nn._heads import head_of, tap
from caveat.nn._modes import at_rest
from caveat.nn._walk import inputs_of, place_of
from caveat.nn.extract import extract
from caveat.outputs import Outputs
from caveat_lab.networks.training.rows import Draw, Rows
from caveat_lab.networks.training.schedule import Ramp

__all__ = ["Batch", "CrossEntropy", "Loss", "Paradigm", "Phase", "with_confidence"]

Loss = tuple[Tensor, dict[str, float]]  # what is minimized, and its named parts for the display and the history


def _nothing(net: nn.Module) -> Iterable[nn.Module]:
    return ()


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of training data, outliers if the paradigm learns from them, the progress of the run, and a generator.

    Parameters
    ----------
    inputs, labels
        (n, ...) and (n,).
    outliers
        (m, ...) where the paradigm ``needs_outliers``, else None.
    progress
        From 0 at the first step to 1 at the last one of all phases: for ramps.
    generator
        The only source of randomness for the loss itself; on the CPU, seeded and saved by the trainer.

    Examples
    --------
    >>> batch = Batch(torch.zeros(3, 2), torch.tensor([0, 1, 0]), torch.ones(4, 2))
    >>> inlier, outlier = batch.both(nn.Identity())
    >>> inlier.shape, outlier.shape
    (torch.Size([3, 2]), torch.Size([4, 2]))
    """

    inputs: Tensor
    labels: Tensor
    outliers: Tensor | None = None
    progress: float = 1.0
    generator: torch.Generator = field(default_factory=torch.Generator)

    def both(self, net: nn.Module) -> tuple[Tensor, Tensor]:
        """What a network gives for inliers and for outliers, by one pass: batch statistics are of both together.

        Parameters
        ----------
        net
            The network.

        Returns
        -------
        tuple of two Tensor
            Its outputs for the inliers and for the outliers.
        """
        assert self.outliers is not None
        inlier, outlier = net(torch.cat([self.inputs, self.outliers])).tensor_split([len(self.inputs)])
        return inlier, outlier


@final
@dataclass(frozen=True)
class Phase:
    """One stretch of training with its own loss, optimizer and trained parameters.

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
        Called once, before the first step of the phase; not called again when a stopped run is resumed.
    rate
        The learning rate of this phase is ``learning_rate * rate``.
    monitor
        What early stopping looks at in this phase; None: the caller's choice.

    Examples
    --------
    >>> warm_up = Phase("warm-up", share=0.1, rate=0.5)
    >>> warm_up.share, warm_up.rate
    (0.1, 0.5)
    """

    name: str = "training"
    share: float = 1.0
    loss: Callable[[nn.Module, Batch], Loss] | None = None
    frozen: Callable[[Any], Iterable[nn.Module]] = _nothing
    at_rest: Callable[[Any], Iterable[nn.Module]] = _nothing
    begin: Callable[[Any], Any] | None = None
    rate: float = 1.0
    monitor: str | None = None


class Paradigm(ABC):
    """A way to train a classifier. A subclass is a dataclass of its parameters, each with its check, and a loss.

    Losses are means over the batch, never sums: convert published learning rates for summed losses.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Smoothed(Paradigm):
    ...     amount: float = 0.1
    ...     name = "smoothed"
    ...     def loss(self, net, batch):
    ...         return F.cross_entropy(net(batch.inputs), batch.labels, label_smoothing=self.amount), {}
    >>> loss, parts = Smoothed().loss(nn.Identity(), Batch(torch.zeros(2, 4), torch.tensor([0, 3])))
    >>> round(float(loss), 4)
    1.3863
    """

    name: ClassVar[str]
    needs_outliers: ClassVar[bool] = False
    # A parameter that grows during training, and the parameter that holds the start and stop of its ramp.
    ramps: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        check_params(self)
        self.ramped(0.0)

    def ramped(self, progress: float) -> list[float]:
        """The values of the growing parameters after this share of all steps.

        Parameters
        ----------
        progress
            From 0 to 1.

        Returns
        -------
        list of float
            In the order of ``ramps``.
        """
        return [Ramp(getattr(self, name), *_ends(getattr(self, ends)), name=name)(progress)
                for name, ends in self.ramps.items()]  # fmt: skip

    def build(self, model: nn.Module, n_classes: int) -> nn.Module:
        """The network that is trained. Its forward pass gives class logits (n, K), whatever else it has.

        The default is the model itself. A paradigm that needs another branch wraps it. New weights are drawn from
        torch's global generator, which the trainer has seeded.

        Parameters
        ----------
        model
            The caller's network.
        n_classes
            Number of classes K.

        Returns
        -------
        Module
            The network.
        """
        return model

    def prepare(self, net: nn.Module, rows: Rows, draw: Draw | None, generator: torch.Generator) -> None:
        """Learn from the training data what is not learned by steps, such as a density. Default: nothing.

        Called once, before the first step, and not when a stopped run is resumed: store what is learned in buffers.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        rows
            The training data.
        draw
            Gives outliers where ``needs_outliers``, else None.
        generator
            The source of randomness.
        """
        return

    def rates(self, net: nn.Module) -> list[tuple[float, list[nn.Parameter]]]:
        """Parameters with a learning rate of their own, each as a share of the common one. Default: none.

        They have no weight decay.

        Parameters
        ----------
        net
            The result of :meth:`build`, after :meth:`prepare`.

        Returns
        -------
        list of tuple
            A factor and the parameters that it holds for.
        """
        return []

    def phases(self) -> tuple[Phase, ...]:
        """The phases in their order."""
        return (Phase(),)

    @abstractmethod
    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        """Loss of one batch, on the scale of a mean, and its parts.

        Parameters
        ----------
        net
            The result of :meth:`build`, in train mode.
        batch
            Its rows, outliers where ``needs_outliers``, the progress for ramps, and the generator.

        Returns
        -------
        tuple
            The loss, and its named parts.
        """

    def confidence(self, net: nn.Module, inputs: Tensor) -> Tensor | None:
        """The network's own confidence (n,), larger is surer; None where the paradigm has none.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        inputs
            Shape (n, ...).

        Returns
        -------
        Tensor of shape (n,) or None
            The confidence.
        """
        return None

    def classifier(self, net: nn.Module) -> nn.Module:
        """The part of the network whose last linear layer is the head: what features are extracted from.

        Parameters
        ----------
        net
            The result of :meth:`build`.

        Returns
        -------
        Module
            That part.
        """
        return net

    def look(self, net: nn.Module, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Logits (n, K), features (n, D) and confidence (n,) of one pass, in the current mode of the network.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        inputs
            Shape (n, ...).

        Returns
        -------
        tuple of three Tensor
            Logits, features and confidence; the last is None where there is none.
        """
        model = self.classifier(net)
        logits, features = tap(model, head_of(model), inputs)
        return logits, features, self.confidence(net, inputs)

    def outputs(self, net: nn.Module, loader: Iterable[Any], **how: Any) -> Outputs:
        """Outputs of the trained network on all batches of the loader, its own confidence included.

        The default asks the network for its confidence batch by batch.

        Parameters
        ----------
        net
            The result of :meth:`build`.
        loader
            Gives batches, as for ``nn.extract``.
        **how
            Further arguments of ``nn.extract``.

        Returns
        -------
        Outputs
            With ``confidence`` where the paradigm has one.
        """
        if type(self).confidence is Paradigm.confidence:
            return extract(self.classifier(net), loader, **how)
        watched = _Watched(loader, lambda inputs: self.confidence(net, inputs), place_of(net, None))
        with at_rest(net):
            outputs = extract(self.classifier(net), watched, **how)
        return with_confidence(outputs, torch.cat(watched.confidences))


def _ends(ramp: float | tuple[float, float]) -> tuple[float, float]:
    """Start and stop of a ramp; a single number is a step."""
    return ramp if isinstance(ramp, tuple) else (ramp, ramp)


@final
class _Watched:
    """A loader that measures every batch as it passes, so that a shuffled or one-way loader is read only once."""

    def __init__(self, loader: Any, measure: Callable[[Tensor], Tensor | None], device: torch.device) -> None:
        self._loader, self._measure, self._device = loader, measure, device
        self.confidences: list[Tensor] = []

    def __len__(self) -> int:  # for the progress display
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            with torch.inference_mode():
                confidence = self._measure(inputs_of(batch).to(self._device, copy=True))  # the model may change it
            assert confidence is not None
            self.confidences.append(confidence.double().cpu())
            yield batch


def with_confidence(outputs: Outputs, confidence: Tensor) -> Outputs:
    """The same outputs with a column of confidence. In float64: a sigmoid in float32 has only ties above 17."""
    fields = ("logits", "features", "labels", "mc_logits", "embeddings", "ease_probs")
    stored = {name: getattr(outputs, name) for name in fields if outputs.has(name)}
    return Outputs(
        **stored, head=outputs.head, layers=outputs.layers, confidence=confidence.double().cpu().numpy(), check=False
    )


@final
@dataclass(frozen=True)
class CrossEntropy(Paradigm):
    r"""Plain training by the negative log-probability of the true class: $-\frac1n \sum_i \log p_{y_i}(x_i)$.

    Examples
    --------
    >>> loss, parts = CrossEntropy().loss(nn.Identity(), Batch(torch.zeros(2, 4), torch.tensor([0, 3])))
    >>> round(float(loss), 4), parts  # log 4
    (1.3863, {})
    """

    name: ClassVar[str] = "cross_entropy"

    def loss(self, net: nn.Module, batch: Batch) -> Loss:
        return F.cross_entropy(net(batch.inputs), batch.labels), {}
