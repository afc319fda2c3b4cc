"""A training in a file: data, model, paradigm, and what is to be extracted from the trained network.

seed = 0
paradigm = "deep_gamblers"                    # or a table: [paradigm] name = "deep_gamblers", reward = 2.2

[data]
name = "fashion_mnist"                        # or: path = "images.npz", or join = ["a", {name = "b", split = "c"}]
train = "train"                               # split to learn from
validation = 0.1                              # share of it that is held out
test = "test"                                 # another split, or a share of the first
shape = [1, 32, 32]                           # cropped or padded to this; default: as they are
shrink = 2                                    # then made smaller: the mean of 2 x 2 pixels is one

[model]
name = "small_cnn"
dropout = 0.3
start = "models/plain"                        # train these weights further: a model folder or a .safetensors file
new_head = true                               # all layers of the start but the last, for other classes
weights = "models/plain"                      # instead of training: take this model folder as it is

[training]
epochs = 20
learning_rate = 1e-3
schedule = "cosine"                           # or milestones: {"0.7" = 0.2, "0.9" = 0.04}
augment = {flip = true, crop = 4}             # mirror half of the images; pad by 4 pixels and crop at random
device = "cuda"                               # default: cpu

[outputs]
sets = ["train", "validation", "test"]
mc = 50
[outputs.outliers]
mnist = "test"
noise = {made = "uniform_noise", n = 1000}
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

from caveat._internal.checks import as_count, as_kind, as_level, as_rate, check_known
from caveat._internal.files import read_toml
from caveat._internal.params import count, level
from caveat.errors import InputError
from caveat_lab.data.known import KNOWN
from caveat_lab.experiments.functions import check_function_name, find_function, function_file
from caveat_lab.experiments.loading import load, naming, typed

__all__ = [
    "MADE", "Source", "TrainPlan", "check_data", "check_plain", "check_set_names", "check_source", "check_training",
    "named_table",
]  # fmt: skip

SETS = ("train", "validation", "test")
MADE = (
    "block_shuffled", "inverted", "occluded", "permuted", "rotated", "shifted", "smooth_noise", "uniform_noise",
)  # fmt: skip


@final
@dataclass(frozen=True)
class Source:
    """Images by the name of a known data set, by a path, made, or several sources joined.

    ``limit`` draws n of them, every class in its share; of made ones it makes n. The classes of joined sources are
    numbered one source after the other.
    """

    name: str = ""
    path: str = ""
    made: str = field(default="", metadata={"check": lambda name, path: check_known(name, MADE, path)})
    split: str | None = None
    limit: int | None = count(None)
    join: tuple[Source, ...] = ()


def _shape(sides: tuple[int, ...], path: str) -> tuple[int, ...]:
    if len(sides) != 3 or min(sides) < 1:
        raise InputError(f"{path} must be channels, height and width, got {list(sides)}.")
    return sides


@dataclass(frozen=True)
class _Data:
    """[data]: where the images are and how they are divided; ``test`` is another split, or a share of the first."""

    name: str = ""
    path: str = ""
    join: Any = ()
    train: str | None = None
    validation: float = level(0.1)
    test: Any = field(default=None, metadata={"check": lambda x, path: x if isinstance(x, str) else as_level(x, path)})
    limit: int | None = count(None)
    normalize: bool = False
    shape: tuple[int, ...] | None = field(default=None, metadata={"check": _shape})
    shrink: int = count(1)


@dataclass(frozen=True)
class _Stopping:
    """[training.early_stopping], as ``networks.training.EarlyStopping``, which checks the values."""

    monitor: str = ""
    patience: int = 0
    least: float = 0.0


def _stopping(value: Any, path: str) -> dict[str, Any]:
    """Early stopping by its patience alone, or by a table."""
    table = {"patience": value} if isinstance(value, int) else typed(dict, value, path)
    load(_Stopping, table, path)
    return table


def _schedule(value: Any, path: str) -> Any:
    """The name of a schedule, or milestones {share: factor}; ``networks.training`` checks the values."""
    what = "the name of a schedule or milestones {share = factor}"
    for share, factor in as_kind(value, (str, dict), path, what=what).items() if not isinstance(value, str) else ():
        typed(float, factor, f"{path}.{share}")
    return value


@dataclass(frozen=True)
class _Augment:
    """[training.augment], as ``networks.training.Augmentation``."""

    flip: bool = False
    crop: int = count(0, least=0)


@dataclass(frozen=True)
class _Training:
    """[training]"""

    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    optimizer: str | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    clip: float | None = None
    schedule: Any = field(default=None, metadata={"check": _schedule})
    early_stopping: Any = field(default=None, metadata={"check": _stopping})
    augment: _Augment | None = None
    device: str | None = None
    outliers: Any = ()


@dataclass(frozen=True)
class _Outputs:
    """[outputs]"""

    sets: tuple[str, ...] = field(
        default=(), metadata={"check": lambda names, path: tuple(check_known(name, SETS, path) for name in names)}
    )
    mc: int = count(0, least=0)
    outliers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _File:
    """A training plan as it is written."""

    title: str = ""
    seed: int = count(0, least=0)
    threads: int | None = count(None)
    paradigm: Any = "cross_entropy"
    data: _Data = _Data()
    model: Mapping[str, Any] = field(default_factory=dict)
    training: _Training = _Training()
    outputs: _Outputs = field(default_factory=_Outputs)


@final
@dataclass(frozen=True)
class TrainPlan:
    """What ``caveat train`` does. Read it from a file with :meth:`read`."""

    train: Source
    validation: float = 0.1
    test: str | float | None = None
    normalize: bool = False
    shape: tuple[int, ...] | None = None
    shrink: int = 1
    model: str = "small_cnn"
    model_options: Mapping[str, Any] = field(default_factory=dict)
    model_file: str = ""
    start: str | None = None
    new_head: bool = False
    weights: str | None = None
    paradigm: str = "cross_entropy"
    paradigm_options: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    early_stopping: Mapping[str, Any] | None = None
    augment: Mapping[str, Any] | None = None
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
            return cls.from_dict(content, folder=file.parent)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], *, folder: str | os.PathLike[str] = ".") -> TrainPlan:
        """From the same content as nested dicts and lists; paths are relative to ``folder``."""
        home = Path(folder)
        top = load(_File, content)
        images, outputs = top.data, top.outputs
        model = {"name": "small_cnn", "start": "", "weights": "", "new_head": False, **top.model}
        check_plain(model, "model")
        name = typed(str, model.pop("name"), "model.name")
        new_head = typed(bool, model.pop("new_head"), "model.new_head")
        as_rate(model.get("dropout", 0.0), "model.dropout")
        check_set_names(outputs.outliers, "outputs.outliers", taken=SETS)
        places = {key: os.path.expandvars(typed(str, model.pop(key), f"model.{key}")) for key in ("start", "weights")}
        if all(places.values()):
            raise InputError(
                "model.weights takes a trained network as it is, so nothing starts. Leave model.start out."
            )
        if new_head and not places["start"]:
            raise InputError("model.new_head keeps all layers of model.start but the last. Name the start, or leave "
                             "new_head out.")  # fmt: skip
        training = {key: value for key, value in vars(top.training).items() if value is not None}
        paradigm = named_table(top.paradigm, "paradigm")
        return cls(
            train=_train_source(images, "data", home),
            validation=images.validation, test=images.test, normalize=images.normalize, shape=images.shape,
            shrink=images.shrink,
            model=name, model_options=model, model_file=_network_file(name, home), new_head=new_head,
            start=str(home / places["start"]) if places["start"] else None,
            weights=str(home / places["weights"]) if places["weights"] else None,
            paradigm=paradigm.pop("name"), paradigm_options=paradigm,
            early_stopping=training.pop("early_stopping", None),
            augment=asdict(training.pop("augment")) if "augment" in training else None,
            exposure=_exposure(training.pop("outliers"), home, "training.outliers"), training=training,
            sets=outputs.sets or SETS[: 2 if images.test is None else 3], mc=outputs.mc,
            outliers={name: _source(value, f"outputs.outliers.{name}", home, alone=name)
                      for name, value in outputs.outliers.items()},
            seed=top.seed, threads=top.threads,
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Everything, for the file plan.json; what a plan of before these keys lacked is left out where it is unset."""
        content = asdict(self)
        for part in (content["train"], *content["outliers"].values(), content["exposure"]):
            if isinstance(part, dict) and not part["join"]:
                del part["join"]
        for key in ("model_file", "new_head"):
            if not content[key]:
                del content[key]
        return content

    def builder(self) -> Callable[..., Any] | None:
        """The function of the plan that makes its network; None for a network that Caveat knows by its name."""
        return find_function(self.model, self.model_file) if ":" in self.model else None


def _network_file(name: str, home: Path) -> str:
    """The file of a network that is named ``file.py:function``; empty for the others."""
    if ":" not in name:
        return ""
    check_function_name(name, "model.name")
    return str(function_file(name, home) or "")


def check_training(content: Mapping[str, Any], path: str) -> None:
    """Raise InputError where [training] of a plan has an unknown key or a value of another type."""
    _exposure(load(_Training, content, path).outliers, Path(), f"{path}.outliers")


def check_data(content: Mapping[str, Any], path: str) -> None:
    """Raise InputError where [data] of a plan has an unknown key or a value of another type."""
    _train_source(load(_Data, content, path), path, Path())


def check_source(value: Any, path: str) -> None:
    """Raise InputError where a table does not name images."""
    _source(value, path, Path())


def check_set_names(names: Iterable[str], path: str, *, taken: Collection[str]) -> None:
    """Raise InputError where an outlier set has the name of another set, or one that no folder can have."""
    for name in names:
        reason = "another set has this name" if name in taken else "a folder cannot have this name"
        if name in taken or not name.strip(". ") or {"/", "\\"} & set(name):
            raise InputError(f"{path} cannot have a set called '{name}': {reason}. Rename it.")


def check_plain(options: Mapping[str, Any], path: str) -> None:
    """Raise InputError where an option of a network or paradigm is a list or a table: it means one value."""
    for key, value in options.items():
        if isinstance(value, (list, tuple, dict)):
            raise InputError(f"{path}.{key} must be one value, got {value!r}. Several belong into [matrix] of a study.")


def named_table(value: Any, path: str) -> dict[str, Any]:
    """A name, or a table with a name and options."""
    table = {"name": value} if isinstance(value, str) else typed(dict, value, path)
    if "name" not in table:
        raise InputError(f"{path}.name is missing. Add it to the file.")
    return {**table, "name": typed(str, table["name"], f"{path}.name")}


def _exposure(value: Any, folder: Path, path: str) -> tuple[str, ...] | Source:
    """Outliers to learn from: kinds that are made on the way, or a data set."""
    if isinstance(value, dict):
        if "made" in value:
            raise InputError(f"{path} must be a data set or a list of kinds to make, got made = {value['made']!r}. "
                             'Write outliers = ["uniform", "smooth"].')  # fmt: skip
        return _source(value, path, folder)
    return typed(tuple[str, ...], value, path) if value else ()


def _train_source(images: _Data, path: str, folder: Path) -> Source:
    """Where the images of [data] come from."""
    own = {"name": images.name, "path": images.path, "join": images.join, "limit": images.limit, "split": images.train}
    own = {key: value for key, value in own.items() if value not in ("", None, ())}
    source = _source(own, path, folder, split="train")
    if isinstance(images.test, str):
        if source.join:
            raise InputError(f"{path}.test must be a share where {path}.join names several sets, got a split.")
        if images.test == (_named_split(source.name, source.split, path, "train") if source.name else source.split):
            raise InputError(f"{path}.test and {path}.train are the same images ({images.test}). "
                             "Name another split, or give a share such as test = 0.2.")  # fmt: skip
        if source.name:
            _named_split(source.name, images.test, path, "test")
    elif source.join and source.split is not None:
        raise InputError(f"{path}.train is not used where {path}.join names several sets. Give each of them a split.")
    return source


def _named_split(name: str, split: str | None, path: str, key: str) -> str:
    """The split of a known set of images that a plan means. An unknown set or split is an InputError."""
    known = KNOWN[check_known(name, KNOWN, f"data set in {path}")]
    if known.kind != "images":
        raise InputError(f"{path} must name images, but {name} holds {known.kind}. See caveat data list.")
    if split is None and len(known.sizes) > 1 and not known.usual:
        raise InputError(f"{path}.{key} is missing: {name} has {', '.join(known.sizes)}. Name one of them.")
    return check_known(split or known.usual or next(iter(known.sizes)), known.sizes, f"split of {name} in {path}.{key}")


def _source(value: Any, path: str, folder: Path, alone: str = "", split: str = "split") -> Source:
    """A split of the data set that the key names, or a table that says which; ``split`` is the key of its split."""
    if isinstance(value, str):
        _named_split(alone, value, path, split)
        return Source(name=alone, split=value)
    table = as_kind(value, dict, path, what="the split of a known data set or a table")
    chosen = [key for key in ("name", "path", "made", "join") if key in table]
    if len(chosen) != 1:
        raise InputError(f"{path} must have one of name, path, made or join, got {', '.join(chosen) or 'none'}.")
    if "n" in table:  # another name of limit, checked under its own
        as_count(table["n"], f"{path}.n")
        if "limit" in table:
            raise InputError(f"{path} has n and limit, which mean the same. Leave one of them out.")
    joined = _joined(table["join"], f"{path}.join", folder) if "join" in table else []
    source = load(Source, {"limit" if key == "n" else key: part for key, part in table.items() if key != "join"}, path,
                  join=tuple(joined))  # fmt: skip
    if source.name:
        _named_split(source.name, source.split, path, split)
    file = os.path.expandvars(source.path)
    return replace(source, path=str(folder / file) if file else "")


def _joined(value: Any, path: str, folder: Path) -> list[Source]:
    """Sources that are to be one; a known set needs its name only."""
    what = 'a list of known sets and tables, such as ["digits", {name = "mnist", split = "train"}]'
    if not as_kind(value, list, path, what=what):
        raise InputError(f"{path} must be {what}, got an empty one.")
    parts = []
    for i, item in enumerate(value):
        table = {"name": item} if isinstance(item, str) else item
        part = as_kind(table, dict, f"{path}[{i}]", what="the name of a known set or a table")
        if "made" in part:
            raise InputError(f"{path}[{i}] is made from other images, so it cannot be joined. Leave it out.")
        parts.append(_source(part, f"{path}[{i}]", folder))
    return parts
