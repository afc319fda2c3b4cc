"""The matrix of a study: every combination of data, backbone, paradigm, dropout and passes is one source.

::

    [matrix]
    data = ["letters"]                            # tables [data.NAME]; default: all of them
    backbone = ["small_cnn", {name = "vgg13", width = [8, 16]}]
    paradigm = ["confidnet", {name = "deep_gamblers", reward = 2.2, training = {epochs = 12}}]
    dropout = [0.0, 0.3]
    passes = [0, 50]                              # 0: the network at rest; 50: mean over 50 dropout passes
    seed = [0, 1, 2]

    [data.letters]                                # as [data] of a training plan
    name = "emnist_letters"
    [data.letters.outliers]                       # as [outputs.outliers] of a training plan, with a regime
    mnist = {split = "test", limit = 500, regime = "near"}
    [data.letters.embeddings]                     # optional: of another encoder, as in a source (regimes by proximity)
    train = "clip/letters.npz"
    mnist = "clip/mnist.npy"

    [training]                                    # as in a training plan
    epochs = 10

One combination is a training plan (``TrainPlan``) in the same keys, so that ``caveat train`` could run it alone. A list
in an entry of ``backbone`` or ``paradigm`` gives one entry per value; anywhere else a list in place of one value is an
error.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, final

from caveat._internal.checks import as_count, as_list, as_number, as_rate, check_known
from caveat.errors import InputError
from caveat.evaluation.records import REGIMES
from caveat_lab.experiments.loading import different, load, typed
from caveat_lab.experiments.train_plan import (
    SETS,
    check_data,
    check_plain,
    check_set_names,
    check_source,
    check_training,
    named_table,
)

__all__ = ["KEYS", "Network", "networks"]

KEYS = ("matrix", "data", "training")  # of a plan: what this module reads
_ROLES = (*SETS, "inlier", "calibration")  # names that an outlier set cannot have
_LISTS = ("epsilon_ramp", "kappa_ramp", "ramp", "shares")  # options of a paradigm that are lists themselves


@final
@dataclass(frozen=True)
class Network:
    """One combination: how the network is trained, and how it is asked.

    Parameters
    ----------
    name
        Data, backbone, paradigm and what else varies, separated by slashes.
    group
        Data and backbone: networks of one group are ranked together.
    training
        A training plan as its file would have it, without a seed.
    passes
        Dropout passes that are averaged; 0: none, dropout rests.
    regimes
        Outlier set -> near, mid, far or empty.
    embeddings
        Set -> file of embeddings, as written in ``[data.NAME.embeddings]``.
    """

    name: str
    group: str
    training: Mapping[str, Any]
    passes: int = 0
    regimes: Mapping[str, str] = field(default_factory=dict)
    embeddings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Matrix:
    """[matrix]"""

    data: tuple[str, ...] = ()
    backbone: Any = "small_cnn"
    paradigm: Any = "cross_entropy"
    dropout: Any = None
    passes: Any = 0
    seed: Any = 0
    threads: int = field(default=1, metadata={"check": as_count})


@dataclass(frozen=True)
class _Images:
    """[data.NAME] in its parts: what [data] of a training plan would have, and what only a matrix has."""

    name: str
    table: Mapping[str, Any]
    training: Mapping[str, Any]
    outliers: Mapping[str, Any]
    regimes: Mapping[str, str]
    embeddings: Mapping[str, Any]


@dataclass(frozen=True)
class _Entry:
    """A backbone or a paradigm: what it is called, its options, and what of [training] is different for it."""

    label: str
    options: Mapping[str, Any]
    training: Mapping[str, Any]
    backbones: tuple[str, ...] = ()  # of a paradigm: labels of those that it is for; empty: all


def networks(content: Mapping[str, Any]) -> tuple[tuple[Network, ...], tuple[int, ...]]:
    """The networks of a plan with ``[matrix]``, and its seeds.

    Examples
    --------
    >>> found, seeds = networks({
    ...     "matrix": {"paradigm": ["confidnet", "devries"], "dropout": [0.0, 0.3], "passes": [0, 50], "seed": [0, 1]},
    ...     "data": {"digits": {"name": "digits", "test": 0.2}},
    ... })
    >>> [network.name for network in found][:3], len(found), seeds
    (['digits/small_cnn/confidnet', 'digits/small_cnn/confidnet/dropout 0.3',
      'digits/small_cnn/confidnet/dropout 0.3/50 passes'], 6, (0, 1))
    """
    matrix = load(_Matrix, typed(dict, content["matrix"], "matrix"), "matrix")
    sets = typed(dict, content.get("data", {}), "data")
    if not sets:
        raise InputError("a plan with [matrix] needs [data.NAME] with the images to learn from. Add one.")
    general = typed(dict, content.get("training", {}), "training")
    check_training(general, "training")
    images = {name: _images(name, sets[name]) for name in sets}
    chosen = [check_known(name, sets, "name in matrix.data") for name in matrix.data or tuple(sets)]
    backbones = list(_entries(matrix.backbone, "matrix.backbone"))
    paradigms = list(_entries(matrix.paradigm, "matrix.paradigm"))
    _check_used(backbones, paradigms)
    axes = (
        different(chosen, "matrix.data"),
        backbones,
        paradigms,
        [
            None if rate is None else as_rate(rate, "matrix.dropout")
            for rate in _values(matrix.dropout, "matrix.dropout")
        ],
        [as_count(passes, "matrix.passes", least=0) for passes in _values(matrix.passes, "matrix.passes")],
    )
    for i, entry in enumerate(axes[2]):
        for label in entry.backbones:
            check_known(label, {one.label for one in axes[1]}, f"label in matrix.paradigm[{i}].backbones")
    found: dict[str, Network] = {}
    for data, backbone, paradigm, dropout, passes in itertools.product(*axes):
        if paradigm.backbones and backbone.label not in paradigm.backbones:
            continue
        rate = dropout if dropout is not None else backbone.options.get("dropout", 0.0)
        if passes and not rate:  # nothing to draw: the network at rest has this combination already
            continue
        network = _network(images[data], backbone, paradigm, dropout, passes, general, matrix.threads)
        if network.name in found:
            raise InputError(f"the matrix has {network.name} twice. Give one of the entries a label = '...'.")
        found[network.name] = network
    if not found:
        raise InputError("matrix.passes needs a network with dropout. Add dropout = [0.3], or passes = [0].")
    seeds = tuple(as_count(seed, "matrix.seed", least=0) for seed in _values(matrix.seed, "matrix.seed"))
    for network in found.values():
        given = network.training["model"].get("weights")
        if given and len(set(seeds)) > 1 and "{seed}" not in given:
            raise InputError(f"the weights '{given}' of {network.name} are one network, and matrix.seed has "
                             f"{len(set(seeds))} seeds. Write {{seed}} into the path, or name one seed.")  # fmt: skip
    return tuple(found.values()), seeds


def _images(name: str, table: Any) -> _Images:
    """A table [data.NAME], checked, whether the matrix has it or not."""
    where = f"data.{name}"
    images = dict(typed(dict, table, where))
    own = typed(dict, images.pop("training", {}), f"{where}.training")
    check_training(own, f"{where}.training")
    outliers = {name: dict(table) if isinstance(table, dict) else {"name": name, "split": table}
                for name, table in typed(dict, images.pop("outliers", {}), f"{where}.outliers").items()}  # fmt: skip
    check_set_names(outliers, f"{where}.outliers", taken=_ROLES)
    embeddings = typed(dict, images.pop("embeddings", {}), f"{where}.embeddings")
    regimes = {}
    for outlier, source in outliers.items():
        regimes[outlier] = check_known(source.pop("regime", ""), ("", *REGIMES), f"{where}.outliers.{outlier}.regime")
        if not {"name", "path", "made", "join"} & set(source):
            source["name"] = outlier
        check_source(source, f"{where}.outliers.{outlier}")
    check_data(images, where)
    return _Images(name, images, own, outliers, regimes, embeddings)


def _network(
    data: _Images,
    backbone: _Entry,
    paradigm: _Entry,
    dropout: float | None,
    passes: int,
    general: Mapping[str, Any],
    threads: int,
) -> Network:
    images = dict(data.table)
    model = dict(backbone.options)
    if "normalize" in model:  # a first layer of the network, which a training plan has under [data]
        images["normalize"] = model.pop("normalize")
    if dropout is not None:
        if "dropout" in model:
            raise InputError(f"dropout is in [matrix] and in its backbone {backbone.label}. Leave one of them out.")
        model["dropout"] = dropout
    for key in ("start", "weights"):
        if key in model:
            model[key] = model[key].replace("{data}", data.name).replace("{paradigm}", paradigm.label)
    group = f"{data.name}/{backbone.label}"
    parts = [group, paradigm.label]
    parts += [f"dropout {dropout:g}"] if dropout else []
    parts += [f"{passes} passes"] if passes else []
    training = {
        "threads": threads, "paradigm": dict(paradigm.options), "data": images, "model": model,
        "training": {**general, **data.training, **backbone.training, **paradigm.training},
        "outputs": {"outliers": data.outliers},
    }  # fmt: skip
    return Network("/".join(parts), group, training, passes, data.regimes, data.embeddings)


def _entries(value: Any, path: str) -> Iterator[_Entry]:
    """The backbones or paradigms, with one entry for every value of an option that is a list."""
    for i, item in enumerate(as_list(value, path) if isinstance(value, list) else [value]):
        where = f"{path}[{i}]"
        table = dict(named_table(item, where))
        training = typed(dict, table.pop("training", {}), f"{where}.training")
        check_training(training, f"{where}.training")
        name = typed(str, table["name"], f"{where}.name")
        label = typed(str, table.pop("label", name.rpartition(":")[2]), f"{where}.label")
        if "/" in label:
            raise InputError(f"{where}.label cannot have a slash, got {label!r}.")
        only = typed(tuple[str, ...], table.pop("backbones"), f"{where}.backbones") if "backbones" in table else ()
        varied = [key for key, part in table.items() if isinstance(part, list) and key not in _LISTS]
        for key in set(_LISTS) & set(table):
            _check_numbers(table[key], f"{where}.{key}")
        for values in itertools.product(*(_values(table[key], f"{where}.{key}") for key in varied)):
            options = table | dict(zip(varied, values, strict=True))
            check_plain({key: part for key, part in options.items() if key not in _LISTS}, where)
            as_rate(options.get("dropout", 0.0), f"{where}.dropout")
            parts = [label, *(f"{key} {part}" for key, part in zip(varied, values, strict=True))]
            yield _Entry(" ".join(parts), options, training, only)


def _check_used(backbones: list[_Entry], paradigms: list[_Entry]) -> None:
    """Raise InputError where an entry says how to train networks whose weights are given."""
    given = [entry for entry in backbones if entry.options.get("weights")]
    entries = [("backbone", entry) for entry in given]
    if len(given) == len(backbones):
        entries += [("paradigm", entry) for entry in paradigms]
    for what, entry in entries:
        if unused := sorted(set(entry.training) - {"device"}):
            raise InputError(f"the {what} {entry.label} sets training.{unused[0]}, but its networks are given as "
                             "weights and not trained. Leave training or weights out.")  # fmt: skip


def _check_numbers(value: Any, path: str) -> None:
    """Raise InputError where an option that is a list of numbers itself has lists in it, as if it could be varied."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, list):
            raise InputError(f"{path} must be one list of numbers, got {value!r}. Write one entry for each list, each "
                             "with a label = '...'.")  # fmt: skip
        as_number(item, path)


def _values(value: Any, path: str) -> tuple[Any, ...]:
    return different(as_list(value, path), path) if isinstance(value, list) else (value,)
