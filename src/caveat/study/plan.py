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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, final

from caveat._internal.checks import as_count, as_kind, as_level, as_list, as_share, check_known
from caveat._internal.files import from_toml, read_bytes
from caveat.errors import InputError
from caveat.evaluation.measure import METRICS
from caveat.evaluation.records import REGIMES
from caveat.study.sections import Section, naming

__all__ = ["Plan", "ScoreGrid", "SetFile", "Source", "TaskPlan", "as_slice", "check_function", "locate"]

Values = TypeVar("Values", list[str], tuple[Any, ...])

_PROJECTIONS = ("none", "global", "class", "class_pred", "class_avg")
_RENAMED = {"conformal_auroc": "auroc_guaranteed"}  # until 0.4
_ROLES = ("train", "calibration", "inlier")
_SLICE = re.compile(r"\s*(-?\d*)\s*:\s*(-?\d*)\s*(?::\s*(\d*)\s*)?")


@final
@dataclass(frozen=True)
class SetFile:
    """Where the outputs on one data set are.

    Parameters
    ----------
    path
        An ``.npz`` file or a folder of ``.npy`` files, relative to the plan; ``${NAME}`` is an environment variable and
        ``{seed}`` the seed. Empty for an outlier set that a task makes.
    keys
        Field of ``Outputs`` -> key in the file, where they differ. Only the named fields are then read.
    rows
        Which rows, as Python writes a slice: ``"0:5000"``, ``"::2"``. Empty: all.
    regime
        ``near``, ``mid``, ``far`` or empty.
    """

    path: str
    keys: Mapping[str, str] = field(default_factory=dict)
    rows: str = ""
    regime: str = ""


@final
@dataclass(frozen=True)
class Source:
    """What one model said: files, or a task that gives the outputs."""

    name: str
    train: SetFile | None = None
    calibration: SetFile | None = None
    inlier: SetFile | None = None
    outliers: Mapping[str, SetFile] = field(default_factory=dict)
    confirm: Mapping[str, SetFile] = field(default_factory=dict)
    head: str = ""  # a file with head_weight and head_bias that belong to every set
    task: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, SetFile]:
        """Role -> file; an outlier set's role is ``outlier:name``."""
        found = {"train": self.train, "calibration": self.calibration, "inlier": self.inlier}
        return {role: file for role, file in found.items() if file is not None} | {
            f"{role}:{name}": file
            for role, sets in (("outlier", self.outliers), ("confirm", self.confirm))
            for name, file in sets.items()
            if file.path
        }

    @property
    def depends_on_seed(self) -> bool:
        """Whether another seed means other outputs."""
        return bool(self.task) or any("{seed}" in path for path in (*(f.path for f in self.files.values()), self.head))


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


@final
@dataclass(frozen=True)
class Plan:
    """What a study computes. Read it with :meth:`read`, or make it from a dict with :meth:`from_dict`.

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
    alpha: float = 0.1
    delta: float = 0.05
    false_alarm: float = 0.05
    risk: float = 0.05
    seeds: tuple[int, ...] = (0,)
    metrics: tuple[str, ...] = METRICS
    scores: tuple[ScoreGrid, ...] | None = None  # None: all that the outputs allow
    projections: tuple[str, ...] = ("none",)
    variance: float = 0.95  # that the subspaces of a projection keep
    sets: tuple[str, ...] = ("lac",)
    resamples: int = 1000  # of each bootstrap
    by_proximity: bool = False
    sources: Mapping[str, Source] = field(default_factory=dict)
    task: TaskPlan | None = None
    folder: Path = Path()
    content: Mapping[str, Any] = field(default_factory=dict, repr=False)  # as read
    text: str = field(default="", repr=False)  # the TOML file, if there was one

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Plan:
        """Read and check a plan. Files that it names are looked at by ``expand``, not here."""
        source = Path(path)
        raw = read_bytes(source)
        content = from_toml(raw, str(source))
        with naming(source):
            return cls.from_dict(content, folder=source.parent, text=raw.decode("utf-8").replace("\r\n", "\n"))

    @classmethod
    def parse(cls, text: str, *, folder: str | os.PathLike[str] = ".") -> Plan:
        """A plan from TOML text; its paths are relative to ``folder``."""
        return cls.from_dict(from_toml(text, "the text of the plan"), folder=folder, text=text)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = ".", text: str = "") -> Plan:
        """A plan from the same content as nested dicts and lists."""
        try:
            content = json.loads(json.dumps(content, allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"a plan holds text, numbers, lists and tables only ({error}).") from None
        top = Section(content)
        common: dict[str, Any] = {"folder": Path(folder).resolve(), "content": content, "text": text}
        common |= {"title": top.take("title", str, "Study"), "about": top.take("about", str, "")}
        if "task" in content:
            top.known("title", "about", "task", "grid")
            return cls(task=_read_task(top), **common)
        top.known(
            "title", "about", "alpha", "delta", "false_alarm", "risk", "seeds", "metrics", "scores", "projections",
            "variance", "sets", "resamples", "regimes", "sources", "task", "grid",
        )  # fmt: skip
        if "grid" in content:
            raise InputError("grid belongs to a study of a task. Add [task] with run = 'file.py:function'.")
        sources = {name: _read_source(name, section) for name, section in top.sections("sources")}
        if not sources:
            raise InputError("a plan needs [sources.NAME] with the files of a model, or [task]. Add one of them.")
        regimes = top.section("regimes")
        regimes.known("by")
        by = regimes.take("by", str, "")
        if by:
            check_known(by, ("proximity",), "value of regimes.by")
        return cls(
            alpha=as_level(top.take("alpha", float, 0.1), "alpha"),
            delta=as_level(top.take("delta", float, 0.05), "delta"),
            false_alarm=as_level(top.take("false_alarm", float, 0.05), "false_alarm"),
            risk=as_level(top.take("risk", float, 0.05), "risk"),
            seeds=_different(tuple(as_count(s, "seeds", least=0) for s in top.many("seeds", int, (0,))), "seeds"),
            metrics=_names(top, "metrics", METRICS, METRICS),
            scores=_read_scores(top),
            projections=_names(top, "projections", _PROJECTIONS, ("none",)),
            variance=as_share(top.take("variance", float, 0.95), "variance"),
            sets=_names(top, "sets", _set_methods(), ("lac",)),
            resamples=as_count(top.take("resamples", int, 1000), "resamples"),
            by_proximity=bool(by),
            sources=sources,
            **common,
        )


def locate(path: str, folder: Path, seed: int | None = None) -> Path:
    """The file that a path in a plan means."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if not found:
            raise InputError(f"the path '{path}' needs the environment variable {match[1]}, which is not set. "
                             f"Set {match[1]} to the folder that holds the data.")  # fmt: skip
        return found

    text = re.sub(r"\$\{(\w+)\}", value, path)
    return folder / (text if seed is None else text.replace("{seed}", str(seed)))


def as_slice(text: str, path: str) -> slice:
    """Rows as Python writes a slice.

    >>> as_slice("0:500", "rows"), as_slice("::2", "rows")
    (slice(0, 500, None), slice(None, None, 2))
    """
    match = _SLICE.fullmatch(text)
    if not match or match[3] == "0":
        raise InputError(f"{path} must be a slice such as '0:5000' or '::2', got {text!r}.")
    start, stop, step = (int(part) if part else None for part in match.groups())
    return slice(start, stop, step)


# -- the parts of a plan ----------------------------------------------------------------------------------------------


def _read_task(top: Section) -> TaskPlan:
    section, grid = top.section("task"), top.section("grid")
    section.known("run", "grid", "data")
    run, function = section.need("run", str), section.take("grid", str, "")
    for key, name in (("run", run), ("grid", function)):
        if name:
            check_function(name, section.at(key))
    if function and grid.content:
        raise InputError("give the parameters as [grid] or as task.grid, not both.")
    values = {name: _options(value, grid.at(name)) for name, value in grid.content.items()}
    for name, options in values.items():
        _different([json.dumps(option, sort_keys=True) for option in options], grid.at(name))
    return TaskPlan(run, values, function, section.many("data", str))


def _options(value: Any, path: str) -> tuple[Any, ...]:
    """What a key of a grid goes through; one value will do."""
    return tuple(as_list(value, path)) if isinstance(value, list) else (value,)


def check_function(name: str, path: str) -> None:
    """Raise InputError unless ``name`` is written as a function of a file or module."""
    place, colon, function = name.rpartition(":")
    if not colon or not place or not function.isidentifier():
        raise InputError(f"{path} must be 'file.py:function' or 'module:function', got {name!r}.")


def _read_source(name: str, section: Section) -> Source:
    if not name:
        raise InputError("a source needs a name: [sources.NAME].")
    outliers = section.section("outliers")
    if "task" in section.content:
        section.known("task", "params", "outliers")
        check_function(section.need("task", str), section.at("task"))
        made = {outlier: _read_set(outliers, outlier, allowed=("regime",), regime=True) for outlier in outliers.content}
        return Source(name, task=section.need("task", str), params=section.take("params", dict, {}), outliers=made)
    section.known(*_ROLES, "outliers", "confirm", "head", "task", "params")
    if "inlier" not in section.content:
        raise InputError(f"{section.at('inlier')} is missing. Add the outputs on held-out inliers, or a task.")
    roles = {role: _read_set(section, role) for role in _ROLES if role in section.content}
    files = {outlier: _read_set(outliers, outlier, regime=True) for outlier in outliers.content}
    if {"", "inlier"} & set(files):
        raise InputError(f"an outlier set in {outliers.path} cannot be called '' or 'inlier'. Give it another name.")
    others = section.section("confirm")
    confirm = {outlier: _read_set(others, outlier) for outlier in others.content}
    if "params" in section.content:
        raise InputError(f"{section.at('params')} belongs to a task. Add {section.at('task')}, or take it out.")
    return Source(
        name,
        roles.get("train"),
        roles.get("calibration"),
        roles["inlier"],
        files,
        confirm,
        head=section.take("head", str, ""),
    )


def _read_set(
    parent: Section, key: str, *, allowed: tuple[str, ...] = ("path", "keys", "rows"), regime: bool = False
) -> SetFile:
    value = parent.content[key]
    if isinstance(value, str) and "path" in allowed:
        return SetFile(value)
    what = "a path or a table with one" if "path" in allowed else "a table"
    section = Section(as_kind(value, dict, parent.at(key), what=what), parent.at(key))
    section.known(*allowed, *(["regime"] if regime else []))
    keys = section.section("keys")
    for name in keys.content:
        keys.need(name, str)
    rows, given = section.take("rows", str, ""), section.take("regime", str, "")
    if rows:
        as_slice(rows, section.at("rows"))
    if given:
        check_known(given, REGIMES, f"value of {section.at('regime')}")
    path = section.need("path", str) if "path" in allowed else ""
    return SetFile(path, dict(keys.content), rows, given)


def _read_scores(top: Section) -> tuple[ScoreGrid, ...] | None:
    from caveat.scores import make

    if "scores" not in top.content:
        return None
    found = []
    for i, item in enumerate(_options(top.content["scores"], "scores")):
        path = f"scores[{i}]"
        table = {"name": item} if isinstance(item, str) else item
        section = Section(as_kind(table, dict, path, what="a name or a table with a name"), path)
        name = section.need("name", str)
        choice = ScoreGrid(name, {k: _options(v, section.at(k)) for k, v in table.items() if k != "name"})
        with naming(path):
            for params in choice.variants():
                make(name, **params)
        found.append(choice)
    each = [(choice.name, params) for choice in found for params in choice.variants()]
    _different(
        [f"{name} {json.dumps(params, sort_keys=True) if params else ''}".strip() for name, params in each], "scores"
    )
    return tuple(found)


def _names(top: Section, key: str, known: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    chosen = tuple(_RENAMED.get(name, name) for name in top.many(key, str, default))
    for name in chosen:
        check_known(name, known, f"name in {top.at(key)}")
    return _different(chosen, key)


def _different(values: Values, path: str) -> Values:
    """The values, none of which may be there twice."""
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(f"{path} has {twice} twice.")
    return values


def _set_methods() -> tuple[str, ...]:
    from caveat.conformal.nonconformity import NONCONFORMITY

    return tuple(NONCONFORMITY)
