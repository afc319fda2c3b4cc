"""The result of training: the network and its history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch
from torch import nn

from caveat._internal.checks import as_count
from caveat.nn.training.paradigm import Paradigm
from caveat.nn.training.rows import Rows
from caveat.outputs import Outputs

__all__ = ["Epoch", "Trained"]


@final
@dataclass(frozen=True)
class Epoch:
    """One epoch: mean training loss and its parts, the last learning rate, and the validation set where there is one.

    ``validation`` has ``loss`` (cross-entropy), ``accuracy``, ``confidence`` (mean largest probability) and ``augrc``.
    """

    number: int
    phase: str
    loss: float
    parts: Mapping[str, float]
    learning_rate: float
    seconds: float
    validation: Mapping[str, float] = field(default_factory=dict)


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network. ``model`` is in eval mode and gives class logits.

    ``seconds`` counts training only, over all starts of a resumed run.
    """

    model: nn.Module
    paradigm: Paradigm
    n_classes: int
    history: tuple[Epoch, ...]
    seconds: float
    seed: int
    stopped_early: bool
    resumed: bool

    def outputs(self, data: Any, *, batch_size: int = 512, **how: Any) -> Outputs:
        """Outputs of the network on ``data``: logits, features, labels, head, and its confidence where it has one.

        Parameters
        ----------
        data
            As for :func:`fit_classifier`: ``(x, y)``, ``x`` alone, a ``Dataset``; or a ``DataLoader`` or an iterator of
            batches.
        batch_size
            Rows per forward pass, where ``data`` is not a loader.
        how
            Further arguments of ``nn.extract``: ``mc=50`` for dropout passes, ``layers=[...]``.
        """
        if isinstance(data, torch.utils.data.DataLoader) or hasattr(data, "__next__"):
            return self.paradigm.outputs(self.model, data, **how)
        batches = Rows.of(data, "data").loader(as_count(batch_size, "batch_size"))
        return self.paradigm.outputs(self.model, batches, **how)
