r"""Gram matrices: channel correlations of inner layers outside the range seen in training for the predicted class.

$$ s(x) = \sum_l \frac{\delta_l(x, \hat y)}{\bar\delta_l}, \qquad
   \delta_l(x, c) = \sum_{p, i} \frac{\max(0, \min_{c} - G_{pi}(x))}{|\min_{c}|}
                  + \frac{\max(0, G_{pi}(x) - \max_{c})}{|\max_{c}|} $$

over the orders p and channels i of layer l. $G_{pi}$ is the sum over channels j of the p-th order correlation of i and
j (the released code of the authors sums the rows of the Gram matrix so; the paper keeps every entry).
$\bar\delta_l$ is the expected deviation of a new training-like sample. The authors measure it on held-out data; here it
is the mean deviation of each training row from the range of the other rows of its class, which the two smallest and
two largest values of each class give exactly. The released code divides every deviation by the largest softmax
probability of the sample, which the paper does not say: ``by_confidence``.

Sastry and Oore, "Detecting Out-of-Distribution Examples with Gram Matrices", ICML 2020, arXiv:1912.12510. Class scores:
"Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction with Illustrations of Its Benefits",
appendix C.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.params import count, flag
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import log_probabilities
from caveat.scores._statistics import Gathered, Merge, Statistic, total

__all__ = ["ClassRanges", "Gram", "correlations"]

_SMALLEST_BOUND = 1e-6  # as a share of the layer's largest: a bound of zero has no relative deviation


def _lower(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest and the second smallest value of each column of both; infinity where there is none."""
    rows = np.concatenate([one, other])
    first = np.argmin(rows, axis=0)[None]
    smallest = np.take_along_axis(rows, first, axis=0)
    others = rows.copy()
    np.put_along_axis(others, first, np.inf, axis=0)
    return np.concatenate([smallest, others.min(axis=0, keepdims=True)])


@final
@dataclass
class ClassRanges(Statistic):
    """The two smallest and two largest correlations of each class: its range, and its range without any one row."""

    orders: int

    reads: ClassVar[tuple[str, ...]] = ("layers", "predictions")
    merge: ClassVar[Merge] = {"counts": total, "low": _lower, "high": lambda one, other: -_lower(-one, -other)}

    def begin(self, train: Outputs) -> None:
        assert train.n_classes is not None
        self.names = list(train.layers)
        self.channels = np.array([train.layers[name].shape[1] for name in self.names], dtype=np.intp)
        size = int(self.channels.sum()) * self.orders
        self.counts = np.zeros(train.n_classes)
        self.low = np.full((2, train.n_classes, size), np.inf)  # smallest, second smallest
        self.high = np.full((2, train.n_classes, size), -np.inf)  # largest, second largest

    def update(self, block: Outputs) -> None:
        predicted = block.predictions
        self.counts += np.bincount(predicted, minlength=self.counts.size)
        for part in row_blocks(block.n, row_bytes=8 * self.low.shape[2]):
            values = np.hstack([correlations(block.layers[name][part], self.orders) for name in self.names])
            for c in np.unique(predicted[part]):
                rows = values[predicted[part] == c]
                self.low[:, c] = _lower(self.low[:, c], rows)
                self.high[:, c] = -_lower(-self.high[:, c], -rows)


@final
@dataclass(eq=False)
class Gram(Score):
    """Deviation of the layers' channel correlations from their training range. The larger, the stranger.

    A class that was never predicted in training has no range: a sample scores in it as in the class that fits it worst.

    Parameters
    ----------
    orders
        Largest order p of the correlations; the paper uses 10.
    by_confidence
        Divide by the largest softmax probability of the sample, as the code of the authors does: an unsure sample is
        stranger. Needs logits or probabilities. The weights of the layers stay those of the plain deviations.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> outputs = Outputs(layers={"conv": rng.random((60, 3, 4))}, logits=rng.normal(size=(60, 2)))
    >>> odd = Outputs(layers={"conv": 2 * rng.random((1, 3, 4))}, logits=[[1.0, 0.0]])
    >>> bool(Gram().fit(outputs).score(odd)[0] > 0), Gram().fit(outputs).score(outputs).max()
    (True, np.float64(0.0))
    """

    orders: int = count(10, most=100)
    by_confidence: bool = flag(False)

    name: ClassVar[str] = "gram"
    needs: ClassVar[tuple[str, ...]] = ("layers", "predictions")
    fits_on: ClassVar[tuple[str, ...]] = ("layers", "predictions")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.by_confidence:
            self.needs = ("layers", "predictions", "probs")  # type: ignore[misc]  # this one reads more than its class does

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassRanges(self.orders),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        ranges = gathered[ClassRanges(self.orders)]
        self.layers_, self.channels_ = np.array(ranges.names), ranges.channels
        self.seen_ = np.flatnonzero(ranges.counts)
        self.lowest_, self.highest_ = ranges.low[0, self.seen_], ranges.high[0, self.seen_]
        scale = np.maximum(np.abs(self.lowest_), np.abs(self.highest_)).max(axis=0)
        of_layer = np.repeat(np.arange(self.channels_.size), self.channels_ * self.orders)
        largest = np.array([scale[of_layer == layer].max() for layer in range(self.channels_.size)])
        self.floor_ = _SMALLEST_BOUND * np.where(largest > 0, largest, 1)[of_layer]
        # Leave one out: only the row that holds a bound deviates, by the step to the second value.
        several = ranges.counts[self.seen_] > 1
        low, high = ranges.low[:, self.seen_][:, several], ranges.high[:, self.seen_][:, several]
        step = (low[1] - low[0]) / np.maximum(np.abs(low[1]), self.floor_)
        step += (high[0] - high[1]) / np.maximum(np.abs(high[1]), self.floor_)
        expected = np.bincount(of_layer, step.sum(axis=0), minlength=self.channels_.size) / ranges.counts.sum()
        self.weights_ = (1 / np.where(expected > 0, expected, 1))[of_layer]

    def _score(self, block: Outputs) -> NDArray[Any]:
        scores = np.empty(block.n)
        predicted = block.predictions
        for part, values in self._values(block):
            classes = predicted[part]
            row = np.minimum(np.searchsorted(self.seen_, classes), self.seen_.size - 1)
            trained = self.seen_[row] == classes
            result = np.empty(classes.size)
            result[trained] = self._deviation(values[trained], row[trained])
            if not trained.all():
                result[~trained] = self._every_class(values[~trained]).max(axis=1)
            scores[part] = result
        return self._over_confidence(scores, block)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        assert self.n_classes_ is not None
        scores = np.empty((block.n, self.n_classes_))
        for part, values in self._values(block):
            seen = self._every_class(values)
            scores[part] = seen.max(axis=1, keepdims=True)
            scores[part, self.seen_] = seen
        return self._over_confidence(scores.T, block).T

    def _over_confidence(self, scores: NDArray[np.float64], block: Outputs) -> NDArray[np.float64]:
        """Scores (..., n), divided by the largest probability of each sample where that is asked for."""
        return scores / np.exp(log_probabilities(block).max(axis=1)) if self.by_confidence else scores

    def _values(self, block: Outputs) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """(rows, their correlations) in blocks that leave room for the comparison."""
        for part in row_blocks(block.n, row_bytes=32 * self.floor_.size):
            layers = {name: layer[part] for name, layer in block.layers.items()}
            in_order = known_layers(layers, self.layers_, self.channels_)
            yield part, np.hstack([correlations(layer, self.orders) for layer in in_order])

    def _every_class(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Deviation from each class that was seen, shape (n, seen)."""
        return np.stack([self._deviation(values, row) for row in range(self.seen_.size)], axis=1)

    def _deviation(self, values: NDArray[np.float64], row: NDArray[np.intp] | int) -> NDArray[np.float64]:
        low, high = self.lowest_[row], self.highest_[row]
        below = np.maximum(low - values, 0) / np.maximum(np.abs(low), self.floor_)
        above = np.maximum(values - high, 0) / np.maximum(np.abs(high), self.floor_)
        return np.asarray(np.vecdot(below + above, self.weights_))


def correlations(layer: NDArray[Any], orders: int) -> NDArray[np.float64]:
    r"""Row sums of the Gram matrices of orders 1 to p, shape (n, orders x channels), order by order.

    With channel i at position s as $F_{is}$, the value of order p is $\big(\sum_j \sum_s F_{is}^p F_{js}^p\big)^{1/p}$;
    the root keeps the sign. Summing over j first needs no channels x channels matrix.

    >>> correlations(np.array([[[1.0, 2.0], [3.0, 0.0]]]), 1)  # F F^T = [[5, 3], [3, 9]]
    array([[ 8., 12.]])
    """
    channels = layer.reshape(*layer.shape[:2], -1).astype(np.float64)
    # Scaled to a largest value of one, no power overflows; the root makes the scale come out squared at every order.
    peak = np.abs(channels).max(axis=(1, 2), keepdims=True)
    channels /= np.where(peak > 0, peak, 1)
    by_order = []
    power = np.ones_like(channels)
    for order in range(1, orders + 1):
        power *= channels
        sums = np.matmul(power, power.sum(axis=1)[:, :, None])[:, :, 0]
        by_order.append(np.sign(sums) * np.abs(sums) ** (1 / order))
    return np.asarray(np.hstack(by_order) * np.square(peak[:, 0]))


def known_layers(
    layers: Mapping[str, NDArray[Any]], names: NDArray[np.str_], channels: NDArray[np.intp]
) -> Iterator[NDArray[Any]]:
    """The layers seen in training, in that order. One that is missing or has other channels is an error."""
    for name, width in zip(names.tolist(), channels.tolist(), strict=True):
        if name not in layers:
            raise InputError(f"outputs must have layers[{name!r}] as in training, got {', '.join(sorted(layers))}.")
        if (got := layers[name].shape[1]) != width:
            raise InputError(f"layers[{name!r}] must have {width} channels as in training, got {got}.")
        yield layers[name]
