"""What a study found, ordered for a report: numbers, curves, histograms, failures. Read once, never recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat.errors import InputError
from caveat.results import Estimate
from caveat.study.expansion import variant_name

__all__ = ["Block", "CellFacts", "Curve", "FailureFacts", "Histogram", "Method", "Row", "StudyFacts", "gather"]

Floats = NDArray[np.float64]
REGIMES = ("near", "mid", "far")


@final
@dataclass(frozen=True)
class Method:
    """What is compared: a score under a projection with its parameters."""

    label: str
    score: str
    projection: str
    family: str  # what the score reads


@final
@dataclass(frozen=True, order=True)
class Block:
    """Numbers of different methods within a block were measured on the same samples. Outlier "": the model's errors."""

    source: str
    seed: int
    outlier: str


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """One curve, the mean over the seeds; ``lower`` and ``upper`` are NaN where there is no band."""

    x: Floats
    value: Floats
    lower: Floats
    upper: Floats
    seeds: int


@final
@dataclass(frozen=True, eq=False)
class Histogram:
    """Shares per bin of several samples over common edges, of the first seed."""

    edges: Floats
    shares: Mapping[str, Floats]  # of the inliers under "", and of each outlier set
    seed: int = 0


@final
@dataclass(frozen=True)
class Row:
    """One number of the parts of a study that are not scores: the model, sets, collapse, certificates, data."""

    kind: str
    source: str
    seed: int
    name: str
    projection: str
    outlier: str
    metric: str
    x: float
    estimate: Estimate
    regime: str = ""


@final
@dataclass(frozen=True)
class CellFacts:
    """One cell of the study: its key, what it held, how long it took, with what it was made."""

    key: str
    what: str
    source: str
    seconds: float
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0


@final
@dataclass(frozen=True)
class FailureFacts:
    """One cell that ended with an error."""

    key: str
    what: str
    error: str


@final
@dataclass(frozen=True, eq=False)
class StudyFacts:
    """Everything that a report of a study prints."""

    title: str
    alpha: float
    delta: float
    methods: tuple[Method, ...]
    blocks: tuple[Block, ...]
    metrics: tuple[str, ...]
    numbers: Mapping[tuple[Block, str, str], Estimate]  # block, method, metric
    regimes: Mapping[Block, str]  # near, mid, far or ""
    curves: Mapping[tuple[str, str, str, str], Curve]  # kind, source, outlier, method
    histograms: Mapping[tuple[str, str], Histogram]  # source, method
    rows: tuple[Row, ...]
    cells: tuple[CellFacts, ...] = ()
    failures: tuple[FailureFacts, ...] = ()
    missing: int = 0  # cells that were not computed yet
    notes: tuple[str, ...] = ()  # what the plan left out
    about: str = ""
    plan: str = ""

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*(block.source for block in self.blocks), *(row.source for row in self.rows)]))

    @cached_property
    def seeds(self) -> tuple[int, ...]:
        return tuple(sorted({block.seed for block in self.blocks} or {row.seed for row in self.rows}))

    @cached_property
    def sets(self) -> tuple[tuple[str, str], ...]:
        """(Source, outlier set), by source, then from near to far."""
        order = {name: i for i, name in enumerate((*REGIMES, ""))}
        sources = {name: i for i, name in enumerate(self.sources)}
        found = dict.fromkeys((block.source, block.outlier) for block in self.blocks if block.outlier)
        return tuple(sorted(found, key=lambda pair: (sources[pair[0]], order[self.regime(*pair)])))

    @cached_property
    def regime_names(self) -> tuple[str, ...]:
        """The regimes that the study has, from near to far."""
        present = set(self.regimes.values())
        return tuple(name for name in REGIMES if name in present)

    def regime(self, source: str, outlier: str) -> str:
        """The regime of an outlier set: that of its first seed, since distances may put seeds into different ones."""
        return next((self.regimes[b] for b in self.blocks_of(source, outlier) if b in self.regimes), "")

    def blocks_of(self, source: str, outlier: str) -> tuple[Block, ...]:
        """One block per seed. A seed that repeats another number for number is no replicate and is left out."""
        return self._blocks_of.get((source, outlier), ())

    @cached_property
    def _blocks_of(self) -> dict[tuple[str, str], tuple[Block, ...]]:
        values: dict[Block, dict[tuple[str, str], float]] = {}
        for (block, method, metric), number in self.numbers.items():
            values.setdefault(block, {})[method, metric] = number.value
        found: dict[tuple[str, str], tuple[Block, ...]] = {}
        for block in self.blocks:
            others = found.get((block.source, block.outlier), ())
            if not any(values[other] == values[block] for other in others):
                found[block.source, block.outlier] = (*others, block)
        return found

    def of_kind(self, *kinds: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.kind in kinds)

    def method(self, label: str) -> Method:
        return self._by_label[label]

    @cached_property
    def _by_label(self) -> dict[str, Method]:
        return {method.label: method for method in self.methods}


def gather(
    columns: Mapping[str, Sequence[Any] | NDArray[Any]],
    *,
    title: str,
    alpha: float,
    delta: float,
    cells: Iterable[CellFacts] = (),
    failures: Iterable[FailureFacts] = (),
    missing: int = 0,
    notes: Iterable[str] = (),
    about: str = "",
    plan: str = "",
) -> StudyFacts:
    """Facts from the long table of a study (see ``docs/studies.md`` for its columns)."""
    names = (
        "kind", "source", "seed", "score", "projection", "params", "outlier", "regime",
        "metric", "x", "value", "lower", "upper", "level", "n", "method", "caveat",
    )  # fmt: skip
    lacking = [name for name in names if name not in columns]
    if lacking:
        raise InputError(f"a study report needs the column '{lacking[0]}', which this store lacks. "
                         "It reads stores of score studies; compare other tables with caveat compare.")  # fmt: skip
    text = {name: _as_list(columns[name]) for name in names[:9] + names[15:]}
    number = {name: np.asarray(columns[name], dtype=np.float64) for name in names[9:14]}
    counts = _as_list(columns["n"])
    kinds = np.asarray(text["kind"], dtype=object)

    families = _families()
    methods: dict[tuple[str, str, str], Method] = {}

    def method_at(i: int) -> str:
        key = (text["score"][i], text["projection"][i], text["params"][i])
        if key not in methods:
            methods[key] = _method(*key, families)
        return methods[key].label

    numbers: dict[tuple[Block, str, str], Estimate] = {}
    regimes: dict[Block, str] = {}
    rows: list[Row] = []

    def estimate(i: int) -> Estimate:
        value, lower, upper, level = (float(number[name][i]) for name in ("value", "lower", "upper", "level"))
        return Estimate(
            value, lower, upper, level, int(counts[i] or 0), text["method"][i] or "", text["caveat"][i] or ""
        )

    def plain(i: int, kind: str) -> Row:
        return Row(
            kind, text["source"][i], int(text["seed"][i]), variant_name(text["score"][i], text["params"][i], ""),
            text["projection"][i], text["outlier"][i], text["metric"][i], float(number["x"][i]), estimate(i),
            text["regime"][i],
        )  # fmt: skip

    for i in np.flatnonzero(kinds == "metric").tolist():
        if not text["score"][i]:  # a number of the model itself
            rows.append(plain(i, "model"))
            continue
        block = Block(text["source"][i], int(text["seed"][i]), text["outlier"][i])
        if block.outlier:
            regimes[block] = text["regime"][i]
        if np.isfinite(number["value"][i]):
            numbers[block, method_at(i), text["metric"][i]] = estimate(i)
    others = np.isin(kinds, ["sets", "adaptivity", "collapse", "proximity", "certificate", "data"])
    rows += [plain(i, text["kind"][i]) for i in np.flatnonzero(others).tolist()]
    # A histogram without a score is one of confidences and belongs to the certificates.
    scored = np.asarray([bool(score) for score in text["score"]])
    rows += [plain(i, "confidence") for i in np.flatnonzero((kinds == "histogram") & ~scored).tolist()]
    kinds = np.where(scored, kinds, "")
    curves = _curves(kinds, text, number, method_at)
    histograms = _histograms(kinds, text, number, method_at)
    return StudyFacts(
        title=title,
        alpha=alpha,
        delta=delta,
        methods=tuple(methods.values()),
        blocks=tuple(dict.fromkeys(key[0] for key in numbers)),
        metrics=tuple(dict.fromkeys(key[2] for key in numbers)),
        numbers=numbers,
        regimes=regimes,
        curves=curves,
        histograms=histograms,
        rows=tuple(rows),
        cells=tuple(cells),
        failures=tuple(failures),
        missing=missing,
        notes=tuple(notes),
        about=about,
        plan=plan,
    )


def _curves(
    kinds: NDArray[Any], text: Mapping[str, list[Any]], number: Mapping[str, Floats], method_at: Any
) -> dict[tuple[str, str, str, str], Curve]:
    """ROC and risk curves, averaged over the seeds on the grid of the first."""
    places: dict[tuple[str, str, str, str], dict[int, list[int]]] = {}
    for i in np.flatnonzero(np.isin(kinds, ["roc", "risk"])).tolist():
        key = (text["kind"][i], text["source"][i], text["outlier"][i], method_at(i))
        places.setdefault(key, {}).setdefault(int(text["seed"][i]), []).append(i)
    found = {}
    for key, by_seed in places.items():
        grid: Floats | None = None
        parts = []
        for rows in by_seed.values():
            at = np.asarray(rows)[np.argsort(number["x"][rows], kind="stable")]
            x = number["x"][at]
            grid = x if grid is None else grid
            same = grid.shape == x.shape and bool((grid == x).all())
            columns = [number[name][at] for name in ("value", "lower", "upper")]
            parts.append(columns if same else [np.interp(grid, x, column) for column in columns])
        assert grid is not None
        value, lower, upper = np.mean(np.asarray(parts), axis=0)
        found[key] = Curve(grid, value, lower, upper, seeds=len(by_seed))
    return found


def _histograms(
    kinds: NDArray[Any], text: Mapping[str, list[Any]], number: Mapping[str, Floats], method_at: Any
) -> dict[tuple[str, str], Histogram]:
    places: dict[tuple[str, str], dict[int, dict[str, list[int]]]] = {}
    for i in np.flatnonzero(kinds == "histogram").tolist():
        samples = places.setdefault((text["source"][i], method_at(i)), {}).setdefault(int(text["seed"][i]), {})
        samples.setdefault(text["outlier"][i], []).append(i)
    found = {}
    for pair, by_seed in places.items():
        first = min(by_seed)
        samples = by_seed[first]
        edges, shares = None, {}
        for name, rows in samples.items():
            at = np.asarray(rows)[np.argsort(number["x"][rows], kind="stable")]
            edges = number["x"][at]  # the last row is the right edge and has no share
            shares[name] = number["value"][at][:-1]
        if edges is not None and all(share.size == edges.size - 1 for share in shares.values()):
            found[pair] = Histogram(edges, shares, first)
    return found


def _as_list(column: Sequence[Any] | NDArray[Any]) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _method(score: str, projection: str, params: str, families: Mapping[str, str]) -> Method:
    label = variant_name(score, params, projection)
    return Method(label, score, projection or "none", families.get(score, "other"))


def _families() -> dict[str, str]:
    """Score -> what it reads, from the catalogue."""
    from caveat.scores import catalogue

    found = {}
    for entry in catalogue():
        reads = {*entry.needs, *entry.fits_on}
        if "mc_logits" in reads:
            family = "dropout passes"
        elif "layers" in reads:
            family = "layers"
        elif "features" in reads:
            family = "features and head" if reads & {"head", "logits", "probs"} else "features"
        else:
            family = "logits"
        found[entry.name] = family
    return found
