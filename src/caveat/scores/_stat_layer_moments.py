"""Class moments of every inner layer, each channel averaged over its positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self, final

from caveat.outputs import Outputs
from caveat.scores._layers import channel_means
from caveat.scores._statistics import ClassMoments, Statistic

__all__ = ["LayerMoments"]


@final
@dataclass
class LayerMoments(Statistic):
    """:class:`ClassMoments` of the channel means, by name of the layer."""

    reads: ClassVar[tuple[str, ...]] = ("layers", "labels")

    def begin(self, train: Outputs) -> None:
        assert train.n_classes is not None
        self.of = {name: ClassMoments() for name in train.layers}
        for name, moments in self.of.items():
            moments.make_room(train.n_classes, train.layers[name].shape[1])

    def update(self, block: Outputs) -> None:
        for name, moments in self.of.items():
            moments.add_rows(channel_means(block.layers[name]), block.labels)

    def __add__(self, other: Self) -> Self:
        both = replace(self)
        both.of = {name: moments + other.of[name] for name, moments in self.of.items()}
        return both
