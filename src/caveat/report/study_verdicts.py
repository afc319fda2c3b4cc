"""Who is ahead in a study, and who cannot be told from whom: per metric, source and regime.

Blocks of at least two are compared by ranks (``caveat.stats.compare``). One block has no replicate to judge a
difference by: then the intervals of the numbers themselves decide, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat.report.study_facts import Block, StudyFacts
from caveat.results import Comparison, Estimate
from caveat.stats import compare

__all__ = [
    "ERRORS",
    "METRICS",
    "Metric",
    "Verdict",
    "compared_metrics",
    "guaranteed",
    "judge",
    "mean_over",
    "metric_of",
]

By = Literal["ranks", "bands", "nothing"]
ERRORS = "errors"  # the regime without outliers: does strangeness warn of wrong answers?


@final
@dataclass(frozen=True)
class Metric:
    """How a metric is called, printed and read."""

    name: str
    style: str  # of words.STYLES
    higher_is_better: bool | None  # None: printed, never compared
    meaning: str = ""


METRICS: Mapping[str, Metric] = {
    "auroc": Metric("AUROC", "number", True, "chance that an outlier is stranger than an inlier"),
    "conformal_auroc": Metric("Guaranteed AUROC", "number", None),
    "fpr95_outlier_positive": Metric("Inliers rejected", "percent", False, "at 95 % of outliers caught"),
    "fpr95_inlier_positive": Metric("Outliers accepted", "percent", False, "at 95 % of inliers kept"),
    "aupr": Metric("AUPR", "number", True, "average precision, outlier positive"),
    "augrc": Metric("AUGRC × 1000", "scaled", False, "area under generalised risk"),
    "aurc": Metric("AURC × 1000", "scaled", False, "area under selective risk"),
    "accuracy": Metric("Accuracy", "percent", None),
    "ece": Metric("ECE", "percent", None),
}
_FIRST = ("auroc", "augrc", "aurc", "fpr95_outlier_positive", "fpr95_inlier_positive", "aupr")


def metric_of(name: str) -> Metric:
    return METRICS.get(name, Metric(name.replace("_", " "), "plain", None))


def compared_metrics(facts: StudyFacts) -> tuple[str, ...]:
    """The metrics that can be compared, the leading one first."""
    known = [name for name in facts.metrics if metric_of(name).higher_is_better is not None]
    return tuple(sorted(known, key=_FIRST.index))


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """The comparison of all methods by one metric over the blocks of one regime."""

    metric: str
    source: str  # "": all of them
    regime: str  # "all", near, mid, far, or errors
    by: By
    order: tuple[str, ...]  # methods from best to worst
    layers: tuple[tuple[str, ...], ...]  # each method in one group; those that cannot be told from its first share it
    blocks: tuple[Block, ...]
    comparison: Comparison | None
    left_out: Mapping[str, int]  # method -> how many blocks it lacks
    dropped: int  # blocks that lack a method
    repeated: int  # blocks that repeat another seed number for number: no replicates

    @property
    def best(self) -> str:
        return self.order[0]

    @property
    def top(self) -> tuple[str, ...]:
        """The best and those that cannot be told from it."""
        return self.layers[0]

    @property
    def alone(self) -> bool:
        """Whether the best stands out beyond chance. Only then may it be set in bold."""
        return self.by != "nothing" and len(self.top) == 1 and len(self.order) > 1

    @property
    def tells(self) -> bool:
        """Whether any method can be told from the best."""
        return self.by != "nothing" and len(self.top) < len(self.order)

    @property
    def rests_on_little(self) -> bool:
        """Whether few blocks make it hard to tell anything apart."""
        return self.by == "ranks" and len(self.blocks) < 6


def judge(facts: StudyFacts, metric: str, *, regime: str = "all", source: str = "") -> Verdict | None:
    """The verdict of one metric in one regime; None where nothing was measured."""
    higher = metric_of(metric).higher_is_better
    assert higher is not None, f"{metric} has no better end"
    blocks = [
        block for block in facts.blocks
        if (not source or block.source == source) and _belongs(facts, block, regime)
    ]  # fmt: skip
    labels = [method.label for method in facts.methods]
    values = np.array([[_value(facts, block, label, metric) for label in labels] for block in blocks])
    values = values.reshape(len(blocks), len(labels))
    rows, columns = np.isfinite(values).any(axis=1), np.isfinite(values).any(axis=0)
    blocks, values = [block for block, kept in zip(blocks, rows, strict=True) if kept], values[rows][:, columns]
    labels = [label for label, kept in zip(labels, columns, strict=True) if kept]
    if not blocks:
        return None
    kept_rows, kept_columns = complete_part(values)
    left_out = {
        label: int(np.isnan(values[:, i]).sum()) for i, label in enumerate(labels) if i not in set(kept_columns)
    }
    dropped = len(blocks) - len(kept_rows)
    values, labels = values[kept_rows][:, kept_columns], [labels[i] for i in kept_columns]
    blocks = [blocks[i] for i in kept_rows]
    distinct = _without_repeats(blocks, values)
    repeated = len(blocks) - len(distinct)
    values, blocks = values[distinct], [blocks[i] for i in distinct]

    def verdict(
        by: By, layers: Sequence[Sequence[str]], order: Sequence[str], found: Comparison | None = None
    ) -> Verdict:
        groups = tuple(tuple(layer) for layer in layers)
        return Verdict(
            metric, source, regime, by, tuple(order), groups, tuple(blocks), found, left_out, dropped, repeated
        )

    if len(blocks) > 1 and len(labels) > 1:
        found = compare(values, facts.delta, not higher, methods=labels)
        return verdict("ranks", found.layers, found.methods, found)
    means = values.mean(axis=0)
    order = [labels[i] for i in np.argsort(-means if higher else means, kind="stable")]
    bands = {label: _band(facts, blocks, label, metric) for label in order}
    if len(labels) < 2 or bands[order[0]] is None:
        return verdict("nothing", [order], order)
    return verdict("bands", _overlapping(bands), order)


def _overlapping(bands: Mapping[str, Estimate | None]) -> list[list[str]]:
    """From the best on: a method and all later ones whose band overlaps its own, or who have none, form a group."""
    left, groups = dict(bands), []
    while left:
        first = next(iter(left.values()))
        group = [label for label, band in left.items() if band is None or first is None or first.overlaps(band)]
        groups.append(group)
        left = {label: band for label, band in left.items() if label not in group}
    return groups


def mean_over(facts: StudyFacts, blocks: Sequence[Block], label: str, metric: str) -> Estimate | None:
    """Mean of a metric over blocks with the range of its values; the interval itself where there is one block."""
    found = [facts.numbers[key] for block in blocks if (key := (block, label, metric)) in facts.numbers]
    if not found:
        return None
    if len(found) == 1:
        return found[0]
    values = [number.value for number in found]
    return Estimate(
        float(np.mean(values)),
        min(values),
        max(values),
        level=1.0,
        n=len(found),
        method=f"range over {len(found)} blocks",
    )


def guaranteed(facts: StudyFacts, blocks: Sequence[Block], label: str) -> Estimate | None:
    """Guaranteed band of the mean AUROC over blocks.

    A band holds for all outlier sets of one source and seed at once, since only the inliers are random in it. Bands of
    several sources and seeds hold together with at least 1 minus the sum of what each may fail (union bound).
    """
    found = [facts.numbers[key] for block in blocks if (key := (block, label, "conformal_auroc")) in facts.numbers]
    if not found or len(found) < len(blocks):
        return None
    draws: dict[tuple[str, int], float] = {}  # what the band of each draw of inliers may fail
    for block, number in zip(blocks, found, strict=True):
        # A seed that repeats another one of these, number for number, is not another draw.
        replicates = facts.blocks_of(block.source, block.outlier)
        if block in replicates or not any(other in blocks for other in replicates):
            draw = (block.source, block.seed)
            draws[draw] = max(draws.get(draw, 0.0), 1 - number.level)
    level = 1 - sum(draws.values())
    if not level > 0.5:
        return None
    value, lower, upper = (
        float(np.mean([getattr(number, name) for number in found])) for name in ("value", "lower", "upper")
    )
    return Estimate(value, lower, upper, level=level, n=min(number.n for number in found), method=found[0].method)


def complete_part(values: NDArray[np.float64]) -> tuple[list[int], list[int]]:
    """Rows and columns of a table without holes: the row or column with the largest share of holes goes first.

    >>> complete_part(np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]]))
    ([1, 2], [0, 1])
    """
    rows, columns = list(range(values.shape[0])), list(range(values.shape[1]))
    holes = np.isnan(values)
    while (part := holes[np.ix_(rows, columns)]).any():
        by_row, by_column = part.mean(axis=1), part.mean(axis=0)
        if by_column.max() >= by_row.max():
            columns.pop(int(by_column.argmax()))
        else:
            rows.pop(int(by_row.argmax()))
    return rows, columns


def _belongs(facts: StudyFacts, block: Block, regime: str) -> bool:
    if regime == ERRORS or not block.outlier:
        return regime == ERRORS and not block.outlier
    return regime == "all" or facts.regimes[block] == regime


def _value(facts: StudyFacts, block: Block, label: str, metric: str) -> float:
    found = facts.numbers.get((block, label, metric))
    return np.nan if found is None else found.value


def _without_repeats(blocks: Sequence[Block], values: NDArray[np.float64]) -> list[int]:
    """Blocks that are not the copy of another seed: where a seed changes nothing, it is no replicate."""
    seen: set[tuple[str, str, bytes]] = set()
    kept = []
    for i, block in enumerate(blocks):
        key = (block.source, block.outlier, values[i].tobytes())
        if key not in seen:
            seen.add(key)
            kept.append(i)
    return kept


def _band(facts: StudyFacts, blocks: Sequence[Block], label: str, metric: str) -> Estimate | None:
    """What may decide where ranks cannot: the guaranteed band of AUROC, else the interval of the number."""
    if metric == "auroc" and (band := guaranteed(facts, blocks, label)) is not None:
        return band
    own = mean_over(facts, blocks, label, metric)
    return own if own is not None and len(blocks) == 1 and np.isfinite([own.lower, own.upper]).all() else None
