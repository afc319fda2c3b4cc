"""What one step of training sees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor, nn

__all__ = ["Batch"]


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of training data, outliers where they are learned from, the place in the run, and a source of chance.

    Parameters
    ----------
    inputs, labels
        (n, ...) and (n,).
    outliers
        (m, ...) where the paradigm ``needs_outliers``, else None.
    progress
        From 0 at the first step to 1 at the last one of all phases: for ramps.
    generator
        The only source of chance for the loss itself; on the CPU, seeded and saved by the trainer.

    Examples
    --------
    >>> batch = Batch(torch.zeros(3, 2), torch.tensor([0, 1, 0]), torch.ones(4, 2))
    >>> known, strange = batch.both(nn.Identity())
    >>> known.shape, strange.shape
    (torch.Size([3, 2]), torch.Size([4, 2]))
    """

    inputs: Tensor
    labels: Tensor
    outliers: Tensor | None = None
    progress: float = 1.0
    generator: torch.Generator = field(default_factory=torch.Generator)

    def both(self, net: nn.Module) -> tuple[Tensor, Tensor]:
        """What a network gives for inliers and for outliers, by one pass: batch statistics are of both together."""
        assert self.outliers is not None
        known, strange = net(torch.cat([self.inputs, self.outliers])).tensor_split([len(self.inputs)])
        return known, strange
