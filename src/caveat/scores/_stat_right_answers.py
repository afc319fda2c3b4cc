"""What the model got right: mean feature of the rightly classified rows of each class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

import numpy as np

from caveat.outputs import Outputs
from caveat.scores._statistics import Statistic, class_sums

__all__ = ["RightAnswers"]


@final
@dataclass
class RightAnswers(Statistic):
    """Count and sum of the features of the rightly classified rows, by class."""

    reads: ClassVar[tuple[str, ...]] = ("features", "labels", "predictions")

    def begin(self, train: Outputs) -> None:
        assert train.n_classes is not None
        self.counts = np.zeros(train.n_classes)
        self.sums = np.zeros((train.n_classes, train.features.shape[1]))

    def update(self, block: Outputs) -> None:
        right = block.predictions == block.labels
        labels = block.labels[right]
        self.counts += np.bincount(labels, minlength=self.counts.size)
        self.sums += class_sums(block.features[right], labels, self.counts.size)

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both.counts, both.sums = self.counts + other.counts, self.sums + other.sums
        return both
