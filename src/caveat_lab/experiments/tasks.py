"""What a cell computes: the built-in tasks of a score study with their parameters, and functions that a plan names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, final

from caveat.errors import InputError
from caveat.evaluation.measure import Settings, cannot, fit, measure_model, measure_score
from caveat.evaluation.parts import Parts
from caveat.evaluation.records import Block, Collapse, Data, Left, Method, Proximity, Record
from caveat.evaluation.tuning import choose_settings
from caveat.scores import Projected, Score, make
from caveat_lab.experiments.cells import Cell
from caveat_lab.experiments.embeddings import Vectors, vectors_of
from caveat_lab.experiments.functions import find_function
from caveat_lab.experiments.networks import NetworkParams, TrainParams, extract_network, train_cell
from caveat_lab.experiments.records_table import Row, as_content
from caveat_lab.experiments.sources import load_source, save_source
from caveat_lab.experiments.store import Store
from caveat_lab.geometry import buckets, neural_collapse, proximities
from caveat_lab.geometry.neural_collapse import Projection

__all__ = ["ModelParams", "OutputsParams", "ProximityParams", "ScoreParams", "SourceParams", "build_score", "compute"]

SetKeys = Mapping[str, Mapping[str, Any]]  # role -> keys and rows that are read of its file


@final
@dataclass(frozen=True)
class SourceParams:
    """Parameters of the cell ``collapse``: the source and how its files are read."""

    source: str
    sets: SetKeys = field(default_factory=dict)


@final
@dataclass(frozen=True)
class ProximityParams:
    """Parameters of the cell ``proximity``: also how the files of embeddings are read, by the name of their set."""

    source: str
    sets: SetKeys = field(default_factory=dict)
    embeddings: SetKeys = field(default_factory=dict)


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
    tune: bool = False


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
    tune: bool = False
    keep: tuple[str, ...] = ()  # parameters that the plan gives, besides ``params``: they are not tuned


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
    if cell.task == "train":
        return train_cell(TrainParams(**cell.params), cell, store)
    if cell.task == "outputs" and cell.needs:
        network = NetworkParams(**cell.params)
        return list(_kept(network.source, extract_network(network, cell, store), cell, store, "made by the network"))
    if cell.task == "outputs":
        return list(_make_outputs(OutputsParams(**cell.params), cell, store))
    if cell.task == "score":
        return list(_score(ScoreParams(**cell.params), load_source(cell, store), cell.seed))
    if cell.task == "model":
        return list(_model(ModelParams(**cell.params), load_source(cell, store), cell.seed))
    if cell.task == "collapse":
        return list(_collapse(load_source(cell, store), Block(SourceParams(**cell.params).source, cell.seed)))
    if cell.task == "proximity":
        block = Block(ProximityParams(**cell.params).source, cell.seed)
        return list(_proximity(vectors_of(load_source(cell, store), cell), block))
    function = find_function(cell.task, cell.paths.get("task", ""))
    return as_content(function(**cell.params), cell.params, cell.task)


def _score(params: ScoreParams, source: Parts, seed: int) -> Iterator[Record]:
    score, block = build_score(params), Block(params.source, seed)
    method = Method.of(params.score, params.params, params.projection)
    parts = _prepared(source, seed, tune=params.tune)
    if reason := cannot(score, parts):
        if params.named:
            raise InputError(f"score '{params.score}' {reason}. Add it to the outputs, or leave the score out.")
        yield Left(block, method, reason)
        return
    score = score.without_class_scores()
    if params.tune:
        score, record = choose_settings(score, method, parts, block, keep=(*params.params, *params.keep))
        yield record
    else:
        fit([score], parts, seed)
    settings = Settings(delta=params.delta, seed=seed, metrics=params.metrics)
    yield from measure_score(score, method, parts, block, settings)


def _model(params: ModelParams, source: Parts, seed: int) -> Iterator[Record]:
    source.check_apart()
    settings = Settings(params.alpha, params.delta, seed, params.metrics, params.methods, params.resamples)
    parts = _prepared(source, seed, tune=params.tune)
    yield from measure_model(parts, Block(params.source, seed), settings)


def _prepared(source: Parts, seed: int, *, tune: bool) -> Parts:
    """The parts with calibration rows, and with tuning rows where settings are chosen."""
    parts = source.with_calibration(seed)
    return parts.with_tuning(seed) if tune else parts


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


def _proximity(vectors: Vectors | None, block: Block) -> Iterator[Record]:
    """Distance of each outlier set from the training data, and which regime that puts it in."""
    if vectors is None:
        reason = "needs features or embeddings of the training outputs and of every outlier set"
        yield Left(block, Method("proximity"), reason)
        return
    distances = proximities(inlier=vectors.inlier, outliers=vectors.outliers, labels=vectors.labels, text=vectors.text)
    try:
        regimes, caveat = buckets(distances, seed=block.seed), ""
    except InputError as error:  # too few sets, or all equally far
        regimes, caveat = {}, f"No regimes: {error}"
    for name, distance in distances.items():
        centroid, text = (float("nan") if x is None else x for x in (distance.centroid, distance.text))
        here = Block(block.model, block.seed, name, regimes.get(name, ""))
        yield Proximity(here, distance.frechet, distance.mmd, centroid, vectors.space, distance.n_outlier, caveat,
                        text)  # fmt: skip


def _make_outputs(params: OutputsParams, cell: Cell, store: Store) -> Iterator[Record]:
    """Call the task of a source and keep what it gives in the store."""
    function = find_function(params.function, cell.paths.get("task", ""))
    yield from _kept(params.source, function(seed=cell.seed, **params.params), cell, store, "made by the task")


def _kept(source: str, returned: Any, cell: Cell, store: Store, how: str) -> Iterator[Record]:
    with store.writing():
        made = save_source(returned, store.outputs(cell.key))
    for key, outputs in made.roles().items():
        role, _, name = key.partition(":")
        yield Data(Block(source, cell.seed, name), role, outputs.n, outputs.n_classes or 0, how)  # type: ignore[arg-type]
