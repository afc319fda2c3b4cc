"""A plan: what a study computes, read from a TOML file and frozen.

Two kinds of study share one format. A score study names sources of outputs (what one model said about its training
data, held-out inliers and outliers), scores, projections and metrics. A task study names a Python function and the grid
of parameters it is called with. ``docs/studies.md`` shows every key.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_count, as_kind, as_list, check_known
from caveat._internal.files import from_toml, read_bytes
from caveat._internal.params import choice, count, level, share
from caveat.conformal.nonconformity import NONCONFORMITY
from caveat.errors import InputError
from caveat.evaluation.measure import METRICS
from caveat.evaluation.records import REGIMES
from caveat.outputs.keys import as_slice
from caveat.scores import make
from caveat_lab.experiments.embeddings import check_names
from caveat_lab.experiments.functions import check_function_name
from caveat_lab.experiments.loading import different, load, naming, typed
from caveat_lab.experiments.matrix import KEYS, Network, networks

__all__ = ["Plan", "ScoreGrid", "SetFile", "Source", "TaskPlan", "locate"]

_PROJECTIONS = ("none", "global", "class", "class_pred", "class_avg")


def _checked(default: Any, check: Callable[[Any, str], Any]) -> Any:
    return field(default=default, metadata={"check": check})


def _rows(text: str, path: str) -> str:
    if text:
        as_slice(text, path)
    return text


def _names(default: tuple[str, ...], known: Iterable[str]) -> Any:
    """Different names, each of them known."""

    def check(names: tuple[str, ...], path: str) -> tuple[str, ...]:
        return different([check_known(name, known, f"name in {path}") for name in names], path)

    return _checked(default, check)


@final
@dataclass(frozen=True)
class SetFile:
    """Where the outputs on one data set are.

    Parameters
    ----------
    path
        A file that ``Outputs.load`` reads (``.npz``, ``.csv``, ``.parquet``, ...) or a folder of ``.npy`` files,
        relative to the plan; ``${NAME}`` is an environment variable and ``{seed}`` the seed. Empty for an outlier set
        that a task makes.
    keys
        Field of ``Outputs`` -> name in the file, where they differ; in a table also ``prefix*`` or ``a,b,c``. Other
        fields are read under their own names, except from a file of arrays that holds a renamed field under its own
        name too.
    rows
        Which rows, as Python writes a slice: ``"0:5000"``, ``"::2"``. Empty: all.
    regime
        ``near``, ``mid``, ``far`` or empty.
    """

    path: str
    keys: Mapping[str, str] = field(default_factory=dict)
    rows: str = _checked("", _rows)
    regime: str = choice("", ("", *REGIMES))


@final
@dataclass(frozen=True)
class Source:
    """The outputs of one model: files, a task that makes them, or a network of a matrix that is trained for them."""

    name: str
    train: SetFile | None = None
    calibration: SetFile | None = None
    inlier: SetFile | None = None
    outliers: Mapping[str, SetFile] = field(default_factory=dict)
    confirm: Mapping[str, SetFile] = field(default_factory=dict)
    embeddings: Mapping[str, SetFile] = field(default_factory=dict)  # train, outlier sets and text, for proximity
    head: str = ""  # a file with head_weight and head_bias that belong to every set
    task: str = _checked("", check_function_name)
    params: Mapping[str, Any] = field(default_factory=dict)
    network: Network | None = None

    @property
    def files(self) -> dict[str, SetFile]:
        """Role -> file; an outlier set's role is ``outlier:name``."""
        own = {"train": self.train, "calibration": self.calibration, "inlier": self.inlier}
        return {role: file for role, file in own.items() if file is not None} | {
            f"{role}:{name}": file
            for role, sets in (("outlier", self.outliers), ("confirm", self.confirm))
            for name, file in sets.items()
            if file.path
        }

    @property
    def depends_on_seed(self) -> bool:
        """Whether another seed means other outputs."""
        return bool(self.task) or self.network is not None or any("{seed}" in path for path in self._paths)

    @property
    def _paths(self) -> tuple[str, ...]:
        return (*(file.path for file in (*self.files.values(), *self.embeddings.values())), self.head)


@final
@dataclass(frozen=True)
class ScoreGrid:
    """A score, and the values that each of its parameters takes."""

    name: str
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def variants(self) -> list[dict[str, Any]]:
        """Every combination of the values, the last parameter moving fastest.

        >>> ScoreGrid("knn", {"k": (10, 50)}).variants()
        [{'k': 10}, {'k': 50}]
        """
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]


@final
@dataclass(frozen=True)
class TaskPlan:
    """A function, the parameters it is called with, and the files that it reads."""

    run: str
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    grid_function: str = ""
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class _TaskTable:
    run: str = field(metadata={"check": check_function_name})
    grid: str = _checked("", check_function_name)
    data: tuple[str, ...] = ()


@dataclass(frozen=True)
class _TaskStudy:
    """The keys of a plan with [task]."""

    task: _TaskTable
    title: str = "Study"
    about: str = ""
    grid: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Regimes:
    by: str = choice("", ("", "proximity"), "value of regimes.by")


@final
@dataclass(frozen=True)
class Plan:
    """What a study computes. Read it with :meth:`read`, or make it from a dict with :meth:`from_dict`.

    Parameters
    ----------
    title, about
        Heading and first paragraph of the report.
    alpha, delta, false_alarm, risk
        Allowed errors, as for ``caveat.evaluate``.
    seeds
        Seeds, each a replicate of the study.
    metrics
        Names from ``caveat.evaluation.METRICS``.
    scores
        Scores with the values of their parameters; None: all that the outputs allow.
    projections
        Projections of the features to try; ``"none"`` is the plain score.
    variance
        Share of variance that the subspaces of a projection keep.
    tune
        Whether temperature and parameters of the scores are chosen on a fifth of the calibration rows first.
    sets
        Nonconformity scores of the prediction sets.
    resamples
        Resamples of the bootstrap of ECE.
    regimes
        Whether the distance from the training data decides which outlier sets are near, mid and far.
    sources
        Name of the model -> its files, or the task that makes its outputs; the networks of ``[matrix]``.
    task
        Function that computes a cell, for a study of a user's own; None for a study of scores.
    folder
        Folder that paths in the plan are relative to.
    content, text
        The plan as it was read, and its TOML text, if any.

    Examples
    --------
    >>> plan = Plan.from_dict({"task": {"run": "run.py:one"}, "grid": {"k": [1, 2]}})
    >>> plan.task.grid
    {'k': (1, 2)}
    >>> Plan.from_dict({"scores": ["enrgy"], "sources": {"a": {"inlier": "a.npz"}}})
    Traceback (most recent call last):
    caveat.errors.InputError: scores[0]: unknown score 'enrgy'. Did you mean 'energy'? Known: ash, ...
    """

    title: str = "Study"
    about: str = ""
    alpha: float = level(0.1)
    delta: float = level(0.05)
    false_alarm: float = level(0.05)
    risk: float = level(0.05)
    seeds: tuple[int, ...] = _checked(
        (0,), lambda seeds, path: different([as_count(seed, path, least=0) for seed in seeds], path)
    )
    metrics: tuple[str, ...] = _names(METRICS, METRICS)
    scores: tuple[ScoreGrid, ...] | None = None  # None: all that the outputs allow
    projections: tuple[str, ...] = _names(("none",), _PROJECTIONS)
    variance: float = share(0.95)  # that the subspaces of a projection keep
    tune: bool = False  # choose settings on a part of the calibration rows
    sets: tuple[str, ...] = _names(("lac",), NONCONFORMITY)
    resamples: int = count(1000)  # of the bootstrap of ECE
    regimes: _Regimes = _Regimes()
    sources: Mapping[str, Source] = field(default_factory=dict)
    task: TaskPlan | None = None
    folder: Path = Path()
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)  # as read
    text: str = field(default="", repr=False)  # the TOML file, if there was one

    @property
    def by_proximity(self) -> bool:
        """Whether the distance from the training data decides which outlier sets are near, mid and far."""
        return self.regimes.by == "proximity"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Plan:
        """Read and check a plan. Files that it names are looked at by ``expand``, not here.

        Parameters
        ----------
        path
            A TOML file.

        Returns
        -------
        Plan
            The plan; its paths are relative to the folder of the file.
        """
        source = Path(path)
        raw = read_bytes(source)
        content = from_toml(raw, str(source))
        with naming(source):
            return cls.from_dict(content, folder=source.parent, text=raw.decode("utf-8").replace("\r\n", "\n"))

    @classmethod
    def parse(cls, text: str, *, folder: str | os.PathLike[str] = ".") -> Plan:
        """A plan from TOML text; its paths are relative to ``folder``.

        Parameters
        ----------
        text
            TOML.
        folder
            Folder that paths are relative to.

        Returns
        -------
        Plan
            The plan.
        """
        return cls.from_dict(from_toml(text, "the text of the plan"), folder=folder, text=text)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = ".", text: str = "") -> Plan:
        """A plan from the same content as nested dicts and lists.

        Parameters
        ----------
        content
            Keys and tables as in the TOML file.
        folder
            Folder that paths are relative to.
        text
            The TOML text, kept with the results.

        Returns
        -------
        Plan
            The plan.
        """
        try:
            content = json.loads(json.dumps(content, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"a plan holds text, numbers, lists and tables only ({error}).") from None
        origin: dict[str, Any] = {"folder": Path(folder).resolve(), "content": content, "text": text}
        if "task" in content:
            study = load(_TaskStudy, content)
            return cls(study.title, study.about, task=_task_plan(study), **origin)
        if "grid" in content:
            raise InputError("grid belongs to a study of a task. Add [task] with run = 'file.py:function'.")
        read: dict[str, Any] = {"scores": _read_scores, "sources": _read_sources}
        if "matrix" in content:
            return load(cls, {key: content[key] for key in content if key not in KEYS}, read=read, task=None,
                        **origin, **_of_matrix(content))  # fmt: skip
        for key in KEYS:
            if key in content:
                raise InputError(f"{key} belongs to a study with [matrix]. Add it, or take {key} out.")
        plan = load(cls, content, read=read, task=None, **origin)
        if not plan.sources:
            raise InputError("a plan needs [sources.NAME] with the files of a model, [matrix] or [task]. Add one.")
        return plan

    @property
    def groups(self) -> dict[str, str]:
        """Source of a matrix -> its group: in-distribution set and backbone. Empty for other studies."""
        return {name: source.network.group for name, source in self.sources.items() if source.network is not None}


def locate(path: str, folder: Path, seed: int | None = None) -> Path:
    """The file that a path in a plan means."""

    def value(match: re.Match[str]) -> str:
        if not (there := os.environ.get(match[1])):
            raise InputError(f"the path '{path}' needs the environment variable {match[1]}, which is not set. "
                             f"Set {match[1]} to the folder that holds the data.")  # fmt: skip
        return there

    text = re.sub(r"\$\{(\w+)\}", value, path)
    return folder / (text if seed is None else text.replace("{seed}", str(seed)))


# -- the parts of a plan ----------------------------------------------------------------------------------------------


def _task_plan(study: _TaskStudy) -> TaskPlan:
    if study.task.grid and study.grid:
        raise InputError("give the parameters as [grid] or as task.grid, not both.")
    grid = {name: different(_options(values, f"grid.{name}"), f"grid.{name}") for name, values in study.grid.items()}
    return TaskPlan(study.task.run, grid, study.task.grid, study.task.data)


def _of_matrix(content: Mapping[str, Any]) -> dict[str, Any]:
    """Sources and seeds of a plan with [matrix]."""
    found, seeds = networks(content)
    sources = {}
    for network in found:
        where = f"data.{network.group.partition('/')[0]}.embeddings"
        embeddings = _set_files(regime="")(network.embeddings, where)
        check_names(embeddings, network.regimes, where)
        outliers = {name: SetFile("", regime=regime) for name, regime in network.regimes.items()}
        sources[network.name] = Source(network.name, network=network, outliers=outliers, embeddings=embeddings)
    return {"sources": sources, "seeds": seeds}


def _options(value: Any, path: str) -> tuple[Any, ...]:
    """The values of a key of a grid; a single one needs no list."""
    return tuple(as_list(value, path)) if isinstance(value, list) else (value,)


def _read_sources(tables: Any, path: str) -> dict[str, Source]:
    return {
        name: _read_source(name, typed(dict, table, f"{path}.{name}"), f"{path}.{name}")
        for name, table in typed(dict, tables, path).items()
    }


def _read_source(name: str, table: dict[str, Any], path: str) -> Source:
    if not name:
        raise InputError("a source needs a name: [sources.NAME].")
    if "task" in table:
        made = {"path": "", "keys": {}, "rows": ""}
        from_task = {"outliers": _set_files(**made), "embeddings": _set_files(regime="")}
        return load(Source, table, path, read=from_task, name=name, train=None,
                    calibration=None, inlier=None, confirm={}, head="", network=None)  # fmt: skip
    if "params" in table:
        raise InputError(f"{path}.params belongs to a task. Add {path}.task, or take it out.")
    one, several = _set_file(regime=""), _set_files(regime="")
    read = {"train": one, "calibration": one, "inlier": one, "outliers": _set_files(), "confirm": several,
            "embeddings": several}  # fmt: skip
    source = load(Source, table, path, read=read, name=name, params={}, network=None)
    if source.inlier is None:
        raise InputError(f"{path}.inlier is missing. Add the outputs on held-out inliers, or a task.")
    if {"", "inlier"} & set(source.outliers):
        raise InputError(f"an outlier set in {path}.outliers cannot be called '' or 'inlier'. Give it another name.")
    check_names(list(source.embeddings), list(source.outliers), f"{path}.embeddings")
    return source


def _set_file(**fixed: Any) -> Callable[[Any, str], SetFile]:
    """A reader of a path, or of a table with one."""

    def read(value: Any, path: str) -> SetFile:
        if isinstance(value, str) and "path" not in fixed:
            return SetFile(value)
        what = "a table" if "path" in fixed else "a path or a table with one"
        return load(SetFile, as_kind(value, dict, path, what=what), path, **fixed)

    return read


def _set_files(**fixed: Any) -> Callable[[Any, str], dict[str, SetFile]]:
    """A reader of a table of them."""
    one = _set_file(**fixed)
    return lambda value, path: {name: one(file, f"{path}.{name}") for name, file in typed(dict, value, path).items()}


def _read_scores(value: Any, path: str) -> tuple[ScoreGrid, ...]:
    choices, variants = [], []
    for i, item in enumerate(_options(value, path)):
        where = f"{path}[{i}]"
        table = {"name": item} if isinstance(item, str) else item
        table = dict(as_kind(table, dict, where, what="a name or a table with a name"))
        if "name" not in table:
            raise InputError(f"{where}.name is missing. Add it to the file.")
        name = typed(str, table.pop("name"), f"{where}.name")
        grid = ScoreGrid(name, {key: _options(part, f"{where}.{key}") for key, part in table.items()})
        with naming(where):
            for params in grid.variants():
                make(name, **params)
                variants.append(f"{name} {json.dumps(params, sort_keys=True)}" if params else name)
        choices.append(grid)
    different(variants, path)
    return tuple(choices)
