"""From a plan to its cells: what exists, in order, each with everything that its answer depends on."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_list
from caveat.errors import InputError
from caveat.evaluation.measure import MODEL_METRICS, cannot
from caveat.evaluation.parts import Parts
from caveat.evaluation.records import Method
from caveat.outputs.keys import check_fields
from caveat.scores import catalogue, projections_of
from caveat_lab.experiments.cells import Cell, canonical_json
from caveat_lab.experiments.embeddings import TRAIN, file_role
from caveat_lab.experiments.fingerprints import fingerprint
from caveat_lab.experiments.functions import find_function, function_file
from caveat_lab.experiments.loading import naming
from caveat_lab.experiments.matrix import Network
from caveat_lab.experiments.networks import cells_of
from caveat_lab.experiments.plan import Plan, ScoreGrid, SetFile, Source, TaskPlan, locate
from caveat_lab.experiments.sources import parts_of, stand_in
from caveat_lab.experiments.tasks import (
    ModelParams,
    OutputsParams,
    ProximityParams,
    ScoreParams,
    SourceParams,
    build_score,
)

__all__ = ["expand"]


def expand(plan: Plan) -> tuple[tuple[Cell, ...], tuple[str, ...]]:
    """The cells of a plan, and sentences about what it leaves out."""
    if plan.task is not None:
        cells = _task_cells(plan.task, plan.folder)
        notes: list[str] = []
    else:
        cells, notes = _source_cells(plan)
    first: dict[str, Cell] = {}
    for cell in cells:
        if first.setdefault(cell.key, cell) is not cell and cell.task != "train":
            raise InputError(f"the plan has the cell '{cell.label}' twice. Remove one of them.")
    return tuple(first.values()), tuple(dict.fromkeys(notes))


# -- task studies -----------------------------------------------------------------------------------------------------


def _task_cells(task: TaskPlan, folder: Path) -> list[Cell]:
    paths, prints = _function(task.run, folder)
    for name in task.data:
        where = locate(name, folder)
        paths[name], prints[name] = str(where), fingerprint(where)
    if task.grid_function:
        file = function_file(task.grid_function, folder)
        choices = find_function(task.grid_function, str(file or ""))()
    else:
        choices = [dict(zip(task.grid, values, strict=True)) for values in itertools.product(*task.grid.values())]
    cells = []
    for params in as_list(choices, "what task.grid gives"):
        if not isinstance(params, Mapping) or not all(isinstance(key, str) for key in params):
            raise InputError(f"task.grid must give dicts of parameters by name, got {params!r}.")
        try:
            plain = json.loads(canonical_json(dict(params)))
        except (TypeError, ValueError) as error:
            raise InputError(f"the parameters of a task must be plain values ({error}), got {params!r}.") from None
        plain = {key: plain[key] for key in params}  # in the order given
        seed = plain.get("seed", 0)
        label = ", ".join(f"{key}={value}" for key, value in plain.items()) or task.run
        cells.append(Cell(task.run, plain, seed if isinstance(seed, int) else 0, prints, paths, label))
    return cells


def _function(name: str, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Where the file of a function is and what it holds: editing it computes its cells again."""
    file = function_file(name, folder)
    if file is None:
        return {}, {}
    return {"task": str(file)}, {"task": fingerprint(file)}


# -- score studies ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Base:
    """What all cells of one source and seed share."""

    source: str
    seed: int
    label: str
    sets: Mapping[str, Any]
    paths: Mapping[str, str]
    fingerprints: Mapping[str, str]
    needs: str
    embeddings: Mapping[str, Any]

    def reading(self, roles: Iterable[str]) -> dict[str, Any]:
        """How the files of these roles are read."""
        wanted = set(roles)
        return {role: how for role, how in self.sets.items() if role.partition(":")[0] in wanted}

    def cell(self, task: str, name: str, params: SourceParams | ModelParams | ScoreParams | ProximityParams) -> Cell:
        keep = list(params.sets)
        files = [*keep, "head"] if keep else []
        files += [file_role(name) for name in getattr(params, "embeddings", ())]
        return Cell(
            task, json.loads(json.dumps(asdict(params))), self.seed,
            {name: self.fingerprints[name] for name in files if name in self.fingerprints},
            {name: self.paths[name] for name in files if name in self.paths},
            f"{self.label} {name}", self.needs,
        )  # fmt: skip


def _source_cells(plan: Plan) -> tuple[list[Cell], list[str]]:
    cells: list[Cell] = []
    seen: dict[Path, str] = {}  # fingerprints of image files, which networks share
    notes: list[str] = []
    for source in plan.sources.values():
        seeds = plan.seeds
        if len(seeds) > 1 and not source.depends_on_seed:
            seeds = seeds[:1]
            notes.append(f"Source {source.name} is the same for every seed and is measured once, with seed {seeds[0]}.")
        for seed in seeds:
            label = source.name if len(plan.seeds) == 1 else f"{source.name} seed {seed}"
            if source.network is not None:
                cells += _network_cells(plan, source, source.network, seed, label, notes, seen)
            else:
                cells += (_made_cells if source.task else _file_cells)(plan, source, seed, label, notes)
    return cells, notes


def _made_cells(plan: Plan, source: Source, seed: int, label: str, notes: list[str]) -> list[Cell]:
    """Cells of a source that a task makes. What its outputs allow is known only then: a score that they do not allow
    gives an empty table that says so."""
    paths, prints = _function(source.task, plan.folder)
    params = asdict(OutputsParams(source.name, source.task, source.params))
    first = Cell("outputs", params, seed, prints, paths, f"{label} outputs")
    base = _made_base(plan, source, seed, label, first.key)
    return [first, *_about_the_model(plan, base, None, notes), *_score_cells(plan, base, None, notes)]


def _network_cells(
    plan: Plan, source: Source, network: Network, seed: int, label: str, notes: list[str], seen: dict[Path, str]
) -> list[Cell]:
    """Cells of a network of a matrix: its training, which networks at rest and with passes share, and its outputs."""
    of_passes = [choice.name for choice in plan.scores or () if choice.name.startswith("mc_")]
    wanted = plan.scores is None or bool(of_passes)
    if of_passes and not network.passes:
        if not any(other.network is not None and other.network.passes for other in plan.sources.values()):
            raise InputError(f"score '{of_passes[0]}' reads dropout passes, and no network of the matrix has some. "
                             "Add matrix.passes with dropout, or leave the score out.")  # fmt: skip
        notes.append(f"{', '.join(of_passes)} left out where dropout rests: no dropout passes.")
    train, outputs = cells_of(network, seed, plan.folder, label, seen, keep_passes=wanted)
    if plan.by_proximity:
        _check_enough(source)
    base = _made_base(plan, source, seed, label, outputs.key)
    about = _about_the_model(plan, base, None, notes)
    if not network.passes:
        plan = replace(plan, scores=_without(plan.scores, of_passes))
    return [train, outputs, *about, *(_score_cells(plan, base, None, notes) if plan.scores != () else ())]


def _without(choices: tuple[ScoreGrid, ...] | None, names: list[str]) -> tuple[ScoreGrid, ...] | None:
    return None if choices is None else tuple(choice for choice in choices if choice.name not in names)


def _made_base(plan: Plan, source: Source, seed: int, label: str, needs: str) -> _Base:
    """Of a source whose outputs another cell makes: only its embeddings come from files."""
    vectors, where = _embeddings(source, plan.folder, seed)
    paths = {key: str(path) for key, path in where.items()}
    prints = {key: fingerprint(path) for key, path in where.items()}
    return _Base(source.name, seed, label, {}, paths, prints, needs, vectors)


def _check_enough(source: Source) -> None:
    """Raise InputError where three groups cannot be made."""
    if len(source.outliers) < 3:
        raise InputError(
            f"regimes by proximity need at least 3 outlier sets, got {len(source.outliers)} in source "
            f"{source.name}. Give each set its regime instead."
        )


def _file_cells(plan: Plan, source: Source, seed: int, label: str, notes: list[str]) -> list[Cell]:
    paths = {role: locate(file.path, plan.folder, seed) for role, file in source.files.items()}
    if source.head:
        paths["head"] = locate(source.head, plan.folder, seed)
    vectors, where = _embeddings(source, plan.folder, seed)
    fields = {}
    for role, file in source.files.items():
        check_fields(file.keys, f"keys of {source.name} {role}")
        fields[role] = stand_in(paths[role], file.keys, file.rows, paths.get("head"))
    parts = parts_of(fields)
    with naming(f"source {source.name}"):
        parts.check_alike()
        if plan.tune:
            parts.with_calibration(seed).with_tuning(seed)  # says what is missing
    paths |= where
    _check_one_role(source, seed, paths)
    base = _Base(
        source.name, seed, label, {role: _how(file) for role, file in source.files.items()},
        {role: str(path) for role, path in paths.items()},
        {role: fingerprint(path) for role, path in paths.items()},
        "", vectors,
    )  # fmt: skip
    if plan.by_proximity:
        _check_enough(source)
    return [*_about_the_model(plan, base, parts, notes), *_score_cells(plan, base, parts, notes)]


def _check_one_role(source: Source, seed: int, paths: Mapping[str, Path]) -> None:
    """Raise InputError where one file, read in the same way, has two roles: every cell would fail with that."""
    first: dict[str, str] = {}
    for role, file in source.files.items():
        what = canonical_json([str(Path(paths[role]).resolve()), _how(file)])
        other = first.setdefault(what, role)
        kinds = {name.partition(":")[0] for name in (role, other)}
        if other != role and not kinds <= {"outlier", "confirm"}:
            raise InputError(f"source {source.name}: {other} and {role} are the same file, {paths[role]}. "
                             "Give each role data of its own.")  # fmt: skip


def _how(file: SetFile) -> dict[str, Any]:
    """How a file is read, where that needs saying."""
    return {key: value for key, value in (("keys", dict(file.keys)), ("rows", file.rows)) if value}


def _embeddings(source: Source, folder: Path, seed: int) -> tuple[dict[str, Any], dict[str, Path]]:
    """How the files of embeddings are read, and where they are by their role."""
    reading = {name: _how(file) for name, file in source.embeddings.items()}
    return reading, {file_role(name): locate(file.path, folder, seed) for name, file in source.embeddings.items()}


def _about_the_model(plan: Plan, base: _Base, parts: Parts | None, notes: list[str]) -> list[Cell]:
    """The model, collapse and proximity cells that the outputs allow."""
    metrics = tuple(name for name in MODEL_METRICS if name in plan.metrics)
    everything = base.reading(("train", "calibration", "inlier", "outlier", "confirm"))
    model = base.cell(
        "model", "model",
        ModelParams(
            base.source, everything, plan.sets, metrics, plan.alpha, plan.delta, plan.resamples, tune=plan.tune
        ),
    )  # fmt: skip
    collapse = base.cell("collapse", "collapse", SourceParams(base.source, base.reading(("train",))))
    proximity = base.cell(
        "proximity", "proximity",
        ProximityParams(base.source, base.reading(("train", "outlier")), base.embeddings),
    )  # fmt: skip
    if parts is None:
        return [model, collapse, proximity]
    train, outliers = parts.train, list(parts.outliers.values())
    cells = [model]
    if train is not None and train.has("features") and train.has("labels"):
        cells.append(collapse)
    else:
        notes.append(f"Source {base.source}: neural collapse needs features and labels of the training outputs.")
    sides = [] if train is None else [train, *outliers]
    if outliers and (
        TRAIN in base.embeddings
        or any(sides and all(side.has(name) for side in sides) for name in ("embeddings", "features"))
    ):
        cells.append(proximity)
    elif plan.by_proximity:
        raise InputError(
            f"regimes by proximity need features or embeddings of the training outputs and of every outlier set in "
            f"source {base.source}. Store them, name files in [sources.{base.source}.embeddings], or give each set its "
            "regime."
        )
    return cells


def _score_cells(plan: Plan, base: _Base, parts: Parts | None, notes: list[str]) -> list[Cell]:
    named = plan.scores is not None
    choices = plan.scores if plan.scores is not None else tuple(ScoreGrid(entry.name) for entry in catalogue())
    metrics = tuple(name for name in plan.metrics if name not in MODEL_METRICS)
    reading = base.reading(("train", "calibration", "inlier", "outlier", "confirm"))
    held = parts  # as a cell will have them: without calibration rows, half of the inliers calibrates
    if parts is not None and parts.calibration is None:
        held = replace(parts, calibration=parts.inlier)
    cells: list[Cell] = []
    lacking: dict[str, list[str]] = {}  # projection -> scores without it
    absent: dict[str, list[str]] = {}  # reason -> scores that the outputs do not allow
    for choice, projection in itertools.product(choices, plan.projections):
        if projection != "none" and projection not in projections_of(choice.name):
            lacking.setdefault(projection, []).append(choice.name)
            continue
        for params in choice.variants():
            name = str(Method.of(choice.name, params, projection))
            cell_params = ScoreParams(
                base.source, reading, choice.name, params, projection, plan.variance, metrics, plan.delta, named,
                tune=plan.tune, keep=("variance",) if "variance" in plan.content and projection != "none" else (),
            )  # fmt: skip
            reason = "" if held is None else cannot(build_score(cell_params), held)
            if reason and named:
                raise InputError(
                    f"score '{name}' {reason} in source {base.source}. Add it to the outputs, or leave the score out."
                )
            if reason:
                absent.setdefault(reason, []).append(name)
                continue
            cells.append(base.cell("score", name, cell_params))
    alike: dict[tuple[str, ...], list[str]] = {}
    for projection, names in lacking.items():
        alike.setdefault(tuple(names), []).append(projection)
    notes += [f"No {' or '.join(which)} projection exists of {', '.join(names)}." for names, which in alike.items()]
    notes += [f"Source {base.source}: {', '.join(names)} left out ({reason})." for reason, names in absent.items()]
    if not cells:
        raise InputError(f"no score can be computed in source {base.source}. {' '.join(notes)}")
    return cells
