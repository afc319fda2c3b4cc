"""What a cell computes: the built-in tasks of a score study with their parameters, and functions that a plan names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, final

from caveat.errors import InputError
from caveat.evaluation.measure import Settings, cannot, fit, measure_model, measure_score
from caveat.evaluation.parts import Parts
from caveat.evaluation.records import Block, Collapse, Data, Left, Method, Proximity, Record
from caveat.geometry import buckets, neural_collapse, proximities
from caveat.geometry.neural_collapse import Projection
from caveat.outputs import Outputs
from caveat.scores import Projected, Score, make
from caveat.study.cells import Cell
from caveat.study.functions import find_function
from caveat.study.records_table import Row, as_content
from caveat.study.sources import load_source, save_source
from caveat.study.store import Store

__all__ = ["ModelParams", "OutputsParams", "ScoreParams", "SourceParams", "build_score", "compute"]

SetKeys = Mapping[str, Mapping[str, Any]]  # role -> keys and rows that are read of its file


@final
@dataclass(frozen=True)
class SourceParams:
    """Parameters of the cells ``collapse`` and ``proximity``: the source and how its files are read."""

    source: str
    sets: SetKeys = field(default_factory=dict)


@final
@dataclass(frozen=True)
class ModelParams:
    """Parameters of the cell ``model``: accuracy, calibration and prediction sets."""

    source: str
    sets: SetKeys = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    alpha: float = 0.1
    delta: float = 0.05
    resamples: int = 1000


@final
@dataclass(frozen=True)
class ScoreParams:
    """Parameters of a cell ``score``. ``named``: fail, rather than leave it out, where the outputs do not allow it."""

    source: str
    sets: SetKeys = field(default_factory=dict)
    score: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    projection: str = "none"
    variance: float = 0.95
    metrics: tuple[str, ...] = ()
    delta: float = 0.05
    named: bool = True


@final
@dataclass(frozen=True)
class OutputsParams:
    """Parameters of the cell ``outputs``: the function that makes a source, and what it is called with."""

    source: str
    function: str
    params: Mapping[str, Any] = field(default_factory=dict)


def build_score(params: ScoreParams) -> Score:
    """The score that a cell computes."""
    score = make(params.score, **params.params)
    return score if params.projection == "none" else Projected(score, params.projection, variance=params.variance)


def compute(cell: Cell, store: Store) -> list[Record] | list[Row]:
    """The records or rows of a cell."""
    if cell.task == "outputs":
        return list(_make_outputs(OutputsParams(**cell.params), cell, store))
    if cell.task == "score":
        return list(_score(ScoreParams(**cell.params), load_source(cell, store), cell.seed))
    if cell.task == "model":
        return list(_model(ModelParams(**cell.params), load_source(cell, store), cell.seed))
    if cell.task in ("collapse", "proximity"):
        measure = _collapse if cell.task == "collapse" else _proximity
        return list(measure(load_source(cell, store), Block(SourceParams(**cell.params).source, cell.seed)))
    function = find_function(cell.task, cell.paths.get("task", ""))
    return as_content(function(**cell.params), cell.params, cell.task)


def _score(params: ScoreParams, source: Parts, seed: int) -> Iterator[Record]:
    score, block = build_score(params), Block(params.source, seed)
    method = Method.of(params.score, params.params, params.projection)
    parts = source.with_calibration(seed)
    if reason := cannot(score, parts):
        if params.named:
            raise InputError(f"score '{params.score}' {reason}. Add it to the outputs, or leave the score out.")
        yield Left(block, method, reason)
        return
    score = score.without_class_scores()
    fit([score], parts, seed)
    settings = Settings(delta=params.delta, seed=seed, metrics=params.metrics)
    yield from measure_score(score, method, parts, block, settings)


def _model(params: ModelParams, source: Parts, seed: int) -> Iterator[Record]:
    source.check_apart()
    settings = Settings(params.alpha, params.delta, seed, params.metrics, params.methods, params.resamples)
    yield from measure_model(source.with_calibration(seed), Block(params.source, seed), settings)


def _collapse(parts: Parts, block: Block) -> Iterator[Record]:
    """Neural collapse of the training features, plain and projected."""
    train = parts.train
    if train is None or not (train.has("features") and train.has("labels")):
        yield Left(block, Method("collapse"), "needs features and labels of the training outputs")
        return
    projections: tuple[Projection, ...] = ("none", "global", "class_pred")
    for projection in projections:
        if projection == "class_pred" and not train.has("predictions"):
            continue
        quantities = asdict(neural_collapse(train, projection=projection))
        n, caveat = quantities.pop("n"), quantities.pop("caveat")
        del quantities["n_classes"], quantities["projection"]
        for name, value in quantities.items():
            if value is not None:
                yield Collapse(block, projection, name, float(value), n, caveat)


def _proximity(parts: Parts, block: Block) -> Iterator[Record]:
    """Distance of each outlier set from the training data, and which regime that puts it in."""
    train = parts.train
    sides = [] if train is None else [train, *parts.outliers.values()]
    space = next((name for name in ("embeddings", "features") if sides and all(s.has(name) for s in sides)), None)
    if train is None or space is None or not parts.outliers:
        reason = "needs features or embeddings of the training outputs and of every outlier set"
        yield Left(block, Method("proximity"), reason)
        return
    # The same space for all: one set may have embeddings that the others lack.
    vectors = [Outputs(features=getattr(side, space), check=False) for side in sides]
    outliers = dict(zip(parts.outliers, vectors[1:], strict=True))
    distances = proximities(inlier=vectors[0], outliers=outliers, labels=train.labels)
    try:
        regimes, caveat = buckets(distances, seed=block.seed), ""
    except InputError as error:  # too few sets, or all equally far
        regimes, caveat = {}, f"No regimes: {error}"
    for name, distance in distances.items():
        centroid = float("nan") if distance.centroid is None else distance.centroid
        here = Block(block.model, block.seed, name, regimes.get(name, ""))
        yield Proximity(here, distance.frechet, distance.mmd, centroid, space, distance.n_outlier, caveat)


def _make_outputs(params: OutputsParams, cell: Cell, store: Store) -> Iterator[Record]:
    """Call the task of a source and keep what it gives in the store."""
    function = find_function(params.function, cell.paths.get("task", ""))
    returned = function(seed=cell.seed, **params.params)
    with store.writing():
        made = save_source(returned, store.outputs(cell.key))
    for key, outputs in made.roles().items():
        role, _, name = key.partition(":")
        block = Block(params.source, cell.seed, name)
        yield Data(block, role, outputs.n, outputs.n_classes or 0, "made by the task")  # type: ignore[arg-type]
