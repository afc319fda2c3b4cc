"""A training in a file: data, model, paradigm, and what is to be extracted from the trained network.

seed = 0
paradigm = "deep_gamblers"                    # or a table: [paradigm] name = "deep_gamblers", reward = 2.2

[data]
name = "fashion_mnist"                        # or: path = "images.npz"
train = "train"                               # split to learn from
validation = 0.1                              # share of it that is held out
test = "test"                                 # another split, or a share of the first

[model]
name = "small_cnn"
dropout = 0.3
start = "models/plain"                        # train these weights further: a model folder or a .safetensors file

[training]
epochs = 20
learning_rate = 1e-3
schedule = "cosine"                           # or milestones: {"0.7" = 0.2, "0.9" = 0.04}

[outputs]
sets = ["train", "validation", "test"]
mc = 50
[outputs.outliers]
mnist = "test"
noise = {made = "uniform_noise", n = 1000}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_count, as_kind, as_level, check_known
from caveat._internal.files import read_toml
from caveat.errors import InputError
from caveat.study.sections import Section, naming

__all__ = ["MADE", "Source", "TrainPlan"]

SETS = ("train", "validation", "test")
MADE = (
    "block_shuffled", "inverted", "occluded", "permuted", "rotated", "shifted", "smooth_noise", "uniform_noise",
)  # fmt: skip
_TRAINING: Mapping[str, type[Any]] = {
    "epochs": int, "batch_size": int, "learning_rate": float, "optimiser": str, "momentum": float,
    "weight_decay": float, "clip": float,
}  # fmt: skip


@final
@dataclass(frozen=True)
class Source:
    """Images by the name of a known data set, by a path, or made.

    ``limit`` draws n of them, every class in its share; of made ones it makes n.
    """

    name: str = ""
    path: str = ""
    made: str = ""
    split: str | None = None
    limit: int | None = None


@final
@dataclass(frozen=True)
class TrainPlan:
    """What ``caveat train`` does. Read it from a file with :meth:`read`."""

    train: Source
    validation: float = 0.1
    test: str | float | None = None
    normalise: bool = False
    model: str = "small_cnn"
    model_options: Mapping[str, Any] = field(default_factory=dict)
    start: str | None = None
    paradigm: str = "cross_entropy"
    paradigm_options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    early_stopping: Mapping[str, Any] | None = None
    exposure: tuple[str, ...] | Source = ()
    sets: tuple[str, ...] = SETS
    mc: int = 0
    outliers: Mapping[str, Source] = field(default_factory=dict)
    seed: int = 0
    threads: int | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TrainPlan:
        """From a TOML file. Paths in it are relative to it; ``${CAVEAT_DATA}`` and the like are filled in."""
        file = Path(path)
        content = read_toml(file)
        with naming(file):
            return cls._of(Section(content), file.parent)

    @classmethod
    def _of(cls, top: Section, folder: Path) -> TrainPlan:
        top.known("title", "seed", "threads", "paradigm", "data", "model", "training", "outputs")
        where, model, training, outputs = (top.section(name) for name in ("data", "model", "training", "outputs"))
        where.known("name", "path", "train", "validation", "test", "limit", "normalise")
        train = _source(
            {key: where.content[key] for key in ("name", "path", "limit") if key in where.content}
            | ({"split": where.content["train"]} if "train" in where.content else {}),
            where.path,
            folder,
        )
        test = where.content.get("test")
        if not isinstance(test, (str, type(None))):
            test = as_level(test, where.at("test"))
        training.known(*_TRAINING, "schedule", "early_stopping", "outliers")
        settings = {key: training.need(key, kind) for key, kind in _TRAINING.items() if key in training.content}
        if "schedule" in training.content:
            settings["schedule"] = training.content["schedule"]
        stopping = training.content.get("early_stopping")
        if isinstance(stopping, int):
            stopping = {"patience": stopping}
        elif stopping is not None:
            training.section("early_stopping").known("monitor", "patience", "least")
        outputs.known("sets", "mc", "outliers")
        paradigm = _named(top, "paradigm", "cross_entropy")
        network = {key: value for key, value in model.content.items() if key not in ("name", "start")}
        start = os.path.expandvars(model.take("start", str, ""))
        return cls(
            train=train,
            validation=as_level(where.take("validation", float, 0.1), where.at("validation")),
            test=test,
            normalise=where.take("normalise", bool, False),
            model=model.take("name", str, "small_cnn"),
            model_options=network,
            start=str(folder / start) if start else None,
            paradigm=paradigm.pop("name"),
            paradigm_options=paradigm,
            training=settings,
            early_stopping=stopping,
            exposure=_exposure(training, folder),
            sets=tuple(
                check_known(name, SETS, outputs.at("sets"))
                for name in outputs.many("sets", str, _sets(test is not None))
            ),
            mc=as_count(outputs.take("mc", int, 0), outputs.at("mc"), least=0),
            outliers={
                name: _source(given, f"outputs.outliers.{name}", folder, alone=name)
                for name, given in outputs.take("outliers", dict, {}).items()
            },
            seed=top.take("seed", int, 0),
            threads=as_count(top.take("threads", int, 1), "threads") if "threads" in top.content else None,
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, for a file beside the results."""
        return asdict(self)


def _sets(test: bool) -> tuple[str, ...]:
    return SETS if test else SETS[:2]


def _named(top: Section, key: str, default: str) -> dict[str, Any]:
    """A name, or a table with a name and options."""
    given = top.content.get(key, default)
    if isinstance(given, str):
        return {"name": given}
    inside = top.section(key)
    return {**inside.content, "name": inside.need("name", str)}


def _exposure(training: Section, folder: Path) -> tuple[str, ...] | Source:
    """Outliers to learn from: kinds that are made on the way, or a data set."""
    given = training.content.get("outliers", [])
    if isinstance(given, dict):
        return _source(given, training.at("outliers"), folder)
    return training.many("outliers", str) if given else ()


def _source(given: Any, path: str, folder: Path, alone: str = "") -> Source:
    """A split of the data set that the key names, or a table that says which."""
    if isinstance(given, str):
        return Source(name=alone, split=given)
    table = Section(as_kind(given, dict, path, what="the split of a known data set or a table"), path)
    table.known("name", "path", "made", "split", "limit", "n")
    chosen = [key for key in ("name", "path", "made") if key in given]
    if len(chosen) != 1:
        raise InputError(f"{path} must have one of name, path or made, got {', '.join(chosen) or 'none'}.")
    if "made" in given:
        check_known(table.need("made", str), MADE, table.at("made"))
    file = os.path.expandvars(table.take("path", str, ""))
    limit = "n" if "n" in given else "limit"
    return Source(
        name=table.take("name", str, ""),
        path=str(folder / file) if file else "",
        made=table.take("made", str, ""),
        split=table.need("split", str) if "split" in given else None,
        limit=as_count(table.take(limit, int, 0), table.at(limit)) if limit in given else None,
    )
