"""Scores as ONNX nodes, in float64 from the first operation on.

A score is written here once more, in the operators of ONNX: the formula is that of its module in ``caveat.scores``,
where the paper and the reasons stand. ``export_onnx`` compares the two before it writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import PROBS_SLACK
from caveat._internal.rounding import NOTHING, SPREAD_24, Rounding
from caveat.errors import InputError
from caveat.guard.onnx_graph import DOUBLE, FLOAT, Graph, Tensor, log1p, rank
from caveat.guard.statistic import Statistic
from caveat.outputs import Head
from caveat.scores import Score
from caveat.scores.ash import _PERCENTILES, how_many

_TINY = float(np.finfo(np.float64).tiny)
_LOG_OF_ZERO = -708.0  # older versions of ONNX Runtime take -708.4 for the logarithm of 0
_NO_WEIGHT = -1000.0  # its exponential is 0


@final
@dataclass(frozen=True)
class Fields:
    """The fields of ``Outputs`` that the graph reads, and logits from features and head where the head is known."""

    graph: Graph
    inputs: Mapping[str, Tensor]
    head: Head | None
    narrow: bool  # features are in float32, to which logits from them are rounded

    @cached_property
    def features(self) -> Tensor:
        return self.inputs["features"].cast(DOUBLE)

    @cached_property
    def logits(self) -> Tensor:
        if "logits" in self.inputs:
            return self.inputs["logits"].cast(DOUBLE)
        assert self.head is not None
        logits = through(self.features, self.head.weight) + self.head.bias
        return self.as_features(logits) if self.head.weight.dtype != np.float64 else logits

    def as_features(self, logits: Tensor) -> Tensor:
        """Logits rounded to the float type of the features."""
        return logits.cast(FLOAT).cast(DOUBLE) if self.narrow else logits

    @cached_property
    def probs(self) -> Tensor:
        return self.inputs["probs"].cast(DOUBLE)

    @property
    def classes(self) -> Tensor:
        """What the prediction is the largest column of."""
        return self.probs if "probs" in self.inputs else self.logits

    def log_classes(self, least: float = _TINY) -> Tensor:
        """Logits, or the logarithm of given probabilities, with ``least`` in place of 0."""
        if "probs" not in self.inputs:
            return self.logits
        return self.graph.op("Max", self.probs, least).log()

    def not_finite(self) -> Tensor:
        """0 for each row, and NaN where an input is NaN or infinite, shape (n,)."""
        parts = [(tensor.cast(DOUBLE) * 0.0).sum() for tensor in self.inputs.values()]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total.flat()

    def not_probabilities(self) -> Tensor | None:
        """Which rows do not sum to 1 or have a negative value, shape (n,); None where no probabilities are read."""
        if "probs" not in self.inputs:
            return None
        op = self.graph.op
        gap = op("Abs", self.probs.sum().flat() - 1.0)
        return op("Or", op("Not", gap < PROBS_SLACK), self.graph.constant(0.0) < (-self.probs).max().flat())


# -- parts of formulas ------------------------------------------------------------------------------------------------


def through(rows: Tensor, weight: NDArray[Any]) -> Tensor:
    return rows @ np.ascontiguousarray(weight.T, dtype=np.float64)


@final
@dataclass(frozen=True)
class Largest:
    """A row of logits less its largest: exp of what is left, and the sum of all but the largest, which is 1."""

    logits: Tensor

    @cached_property
    def top(self) -> Tensor:
        return self.logits.max()

    @cached_property
    def shifted(self) -> Tensor:
        return self.logits - self.top

    @cached_property
    def is_top(self) -> Tensor:
        graph = self.logits.graph
        first = graph.op("ArgMax", self.logits, axis=1, keepdims=1)
        scalar = graph.integers(np.zeros(0))  # the shape of a number
        width = graph.op("Reshape", self.logits.width(), scalar)
        return graph.op("Range", graph.integers(0), width, graph.integers(1)).equals(first)

    @cached_property
    def others(self) -> Tensor:
        return self.is_top.where(0.0, self.shifted.exp())

    @cached_property
    def rest(self) -> Tensor:
        return self.others.sum()

    @property
    def log_sum_exp(self) -> Tensor:
        return self.top + log1p(self.rest)

    @property
    def log_softmax(self) -> Tensor:
        return self.shifted - log1p(self.rest)


def energy_of(logits: Tensor) -> Tensor:
    return -Largest(logits).log_sum_exp


def nearest_mean(rows: Tensor, means: NDArray[np.float64]) -> Tensor:
    beyond = rows @ (-2 * means).T + np.einsum("ij,ij->i", means, means)
    gap = rows.graph.constant(means).at(rows.graph.op("ArgMin", beyond, axis=1, keepdims=0)) - rows
    return (gap * gap).sum()


def residual(features: Tensor, origin: NDArray[np.float64], outside: NDArray[np.float64]) -> Tensor:
    along = (features - origin) @ outside
    return (along * along).sum().sqrt()


# -- scores: column (n, 1), the larger, the stranger ------------------------------------------------------------------


def _msp(score: Any, fields: Fields) -> Tensor:
    temperature = score.temperature_ if hasattr(score, "temperature_") else score.temperature
    return -(-log1p(Largest(fields.log_classes() / temperature).rest)).exp()


def _max_logit(score: Any, fields: Fields) -> Tensor:
    return -fields.logits.max()


def _energy(score: Any, fields: Fields) -> Tensor:
    return energy_of(fields.logits / score.temperature) * float(score.temperature)


def _entropy(score: Any, fields: Fields) -> Tensor:
    row = Largest(fields.log_classes())
    floor = fields.graph.op("Max", row.shifted, _NO_WEIGHT)
    return log1p(row.rest) - (row.others * floor).sum() / (row.rest + 1.0)


def _complement(row: Largest) -> Tensor:
    """1 - p of each class."""
    one = row.logits.graph.constant(1.0)
    return row.is_top.where(row.rest / (row.rest + 1.0), one - row.log_softmax.exp())


def _collision(score: Any, fields: Fields) -> Tensor:
    row = Largest(fields.log_classes())
    inner = (row.log_softmax.exp() * _complement(row)).sum()
    # -log(1 - x) = log1p(x / (1 - x))
    return log1p(inner / (fields.graph.constant(1.0) - inner))


def _renyi(score: Any, fields: Fields) -> Tensor:
    log_p, _ = Largest(fields.log_classes(0.0)).log_softmax.largest(score.top)
    return Largest(log_p * score.order).log_sum_exp / float(1 - score.order)


def _gen(score: Any, fields: Fields) -> Tensor:
    row = Largest(fields.log_classes(0.0))
    log_p, which = row.log_softmax.largest(score.top)
    rest = fields.graph.op("GatherElements", _complement(row), which, axis=1)
    exponent = rest.log() + log_p
    share = (exponent * float(score.gamma)).exp()
    return (exponent < _LOG_OF_ZERO).where(0.0, share).sum()


def _react(score: Any, fields: Fields) -> Tensor:
    clipped = fields.graph.op("Min", fields.features, score.threshold_)
    row = Largest(fields.as_features(through(clipped, score.head_weight_) + score.head_bias_))
    return -row.log_sum_exp if score.base == "energy" else -(-log1p(row.rest)).exp()


def _dice(score: Any, fields: Fields) -> Tensor:
    return energy_of(fields.as_features(through(fields.features, score.head_weight_) + score.head_bias_))


def _sum_ratio(rows: Tensor, kept: Tensor, most: float) -> Tensor:
    before, after = rows.sum(), kept.sum()
    ratio = after.equals(0.0).where(1.0, before / after)
    return rows.graph.op("Min", rows.graph.op("Max", ratio, 1.0), most)


def _ash(score: Any, fields: Fields) -> Tensor:
    rows, head, graph = fields.features, fields.head, fields.graph
    assert head is not None
    percentile = _PERCENTILES[score.variant] if score.percentile is None else score.percentile
    k, width = how_many(head.n_features, percentile), head.n_features
    kth = rows.largest(k)[0].at(graph.integers([k - 1]), axis=1)
    above, tied = kth < rows, rows.equals(kth)
    room = graph.constant(float(k)) - above.cast(DOUBLE).sum()
    shares = above.where(1.0, tied.where(room / tied.cast(DOUBLE).sum(), 0.0))
    if score.variant == "b":
        return energy_of(fields.as_features(through(shares, head.weight)) * (rows.sum() / float(k)) + head.bias)
    pruned = shares * rows
    logits = fields.as_features(through(pruned, head.weight))
    if score.variant == "s":
        logits = logits * _sum_ratio(rows, pruned, min(width / k, 500.0)).exp()
    return energy_of(logits + head.bias)


def _scale(score: Any, fields: Fields) -> Tensor:
    rows, head = fields.features, fields.head
    assert head is not None
    k = how_many(head.n_features, score.percentile)
    factor = _sum_ratio(rows, rows.largest(k)[0], min(head.n_features / k, 500.0)).exp()
    return energy_of(fields.as_features(through(rows, head.weight)) * factor + head.bias)


def _residual(score: Any, fields: Fields) -> Tensor:
    return residual(fields.features, score.origin_, score.outside_)


def _vim(score: Any, fields: Fields) -> Tensor:
    return residual(fields.features, score.origin_, score.outside_) * float(score.alpha_) + energy_of(fields.logits)


def _mahalanobis(score: Any, fields: Fields) -> Tensor:
    rows = fields.features.unit() if score.normalize else fields.features
    return nearest_mean((rows - score.centre_) @ score.whitener_, score.means_)


def _relative_mahalanobis(score: Any, fields: Fields) -> Tensor:
    rows = fields.features - score.centre_
    background: Tensor = rows @ score.background_
    return nearest_mean(rows @ score.whitener_, score.means_) - (background * background).sum()


def _knn(score: Any, fields: Fields) -> Tensor:
    if score.index != "exact":
        raise InputError(f'an ONNX file searches all neighbors, and KNN(index="{score.index}") does not, so that its '
                         "thresholds would not fit. Calibrate a guard with the exact index.")  # fmt: skip
    queries, graph = fields.features.unit(), fields.graph
    bank = graph.constant(score.bank_, None).cast(DOUBLE).unit()
    closeness = queries @ graph.op("Transpose", bank, perm=[1, 0])
    neighbor = closeness.largest(score.k)[1].at(graph.integers(score.k - 1), axis=1)
    gap = queries - bank.at(neighbor)
    return (gap * gap).sum().sqrt()


FORMULAS: Mapping[str, Callable[[Any, Fields], Tensor]] = {
    "msp": _msp, "tempscale": _msp, "max_logit": _max_logit, "energy": _energy, "entropy": _entropy,
    "collision": _collision, "renyi": _renyi, "gen": _gen, "react": _react, "dice": _dice, "ash": _ash,
    "scale": _scale, "residual": _residual, "vim": _vim, "mahalanobis": _mahalanobis,
    "relative_mahalanobis": _relative_mahalanobis, "knn": _knn,
}  # fmt: skip


# -- the statistic ---------------------------------------------------------------------------------------------------


def column_of(score: Score, fields: Fields) -> Tensor:
    """A score as a column (n, 1), rounded as ``Score.rounded`` does it."""
    return rounded(FORMULAS[score.name](score, fields), score.rounding)


def rounded(column: Tensor, rounding: Rounding) -> Tensor:
    graph, distance = column.graph, column - rounding.origin
    spread = distance * SPREAD_24
    result = spread - (spread - distance)
    result = graph.op("IsNaN", result).where(distance, result)
    result = (graph.op("Abs", distance) < NOTHING).where(0.0, result)
    if rounding.unit:
        steps = graph.op("Round", distance / rounding.step) * rounding.step
        result = (graph.op("Abs", distance) < rounding.unit).where(steps, result)
    return result + rounding.origin


def combined(statistic: Statistic, columns: Sequence[Tensor]) -> Tensor:
    """The one score (n,) that the guard calibrates."""
    if not statistic.references:
        return columns[0].flat()
    logs = []
    for reference, column in zip(statistic.references, columns, strict=True):
        # Logarithms come from numpy: T has few values, and one unit in the last place would break their ties.
        n = reference.size
        table = column.graph.constant(np.log(np.arange(n + 1, 0, -1) / (n + 1)))
        logs.append(table.at(rank(reference, column.flat())))
    if statistic.combine == "min":
        return rounded(-columns[0].graph.op("Min", *logs), Rounding())
    total = logs[0]
    for each in logs[1:]:
        total = total + each
    return rounded(-(total / float(len(logs))), Rounding())
