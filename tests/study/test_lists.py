"""A list where one value is meant is an error in every key of a plan, and never the first value or all of them."""

from __future__ import annotations

import copy
import re
from dataclasses import fields
from typing import get_origin, get_type_hints

import pytest

from caveat import InputError

pytest.importorskip("torch")
from caveat_lab.experiments.matrix import _LISTS
from caveat_lab.experiments.plan import Plan
from caveat_lab.experiments.train_plan import TrainPlan, _Data, _File, _Outputs, _Training
from caveat_lab.networks.training.catalogue import PARADIGMS

TRAINING = {
    "title": "t", "seed": 3, "threads": 1, "paradigm": {"name": "deep_gamblers", "reward": 1.5, "warm_up": 0.2},
    "data": {"name": "digits", "train": "all", "validation": 0.2, "test": 0.3, "limit": 500, "normalize": True,
             "shrink": 1},
    "model": {"name": "small_cnn", "width": 4, "dropout": 0.1, "start": "models/x"},
    "training": {"epochs": 2, "batch_size": 32, "learning_rate": 0.01, "optimizer": "adam", "momentum": 0.9,
                 "weight_decay": 0.0, "clip": 1.0, "schedule": "cosine", "device": "cpu",
                 "early_stopping": {"monitor": "loss", "patience": 4, "least": 0.1},
                 "augment": {"flip": True, "crop": 2}},
    "outputs": {"mc": 5, "outliers": {"noise": {"made": "uniform_noise", "n": 20},
                                      "own": {"path": "own.npz", "split": "all", "limit": 7},
                                      "mnist": {"name": "mnist", "split": "test"}}},
}  # fmt: skip
STUDY = {
    "title": "t", "about": "a", "alpha": 0.1, "delta": 0.05, "false_alarm": 0.05, "risk": 0.05, "variance": 0.95,
    "resamples": 10, "regimes": {"by": "proximity"}, "scores": [{"name": "msp"}],
    "sources": {"a": {"train": "t.npz", "calibration": "c.npz", "inlier": "i.npz", "head": "h.npz",
                      "outliers": {"o": {"path": "o.npz", "rows": "0:5", "regime": "near"}}}},
}  # fmt: skip
TASK = {"title": "t", "about": "a", "task": {"run": "run.py:one", "grid": "run.py:grid"}}
SOURCE_TASK = {"sources": {"a": {"task": "run.py:one", "outliers": {"o": {"regime": "near"}}}}}
MATRIX = {
    "title": "t", "alpha": 0.1, "tune": False, "variance": 0.9, "resamples": 5, "regimes": {"by": ""},
    "matrix": {
        "backbone": [{"name": "small_cnn", "width": 4, "normalize": True, "label": "b",
                      "training": {"epochs": 2, "batch_size": 10}}],
        "paradigm": [{"name": "deep_gamblers", "reward": 2.0, "warm_up": 0.2, "label": "p", "training": {"epochs": 2}}],
        "dropout": 0.3, "passes": 2, "seed": 0, "threads": 1,
    },
    "data": {"digits": {
        "name": "digits", "train": "all", "test": 0.2, "validation": 0.1, "limit": 50, "normalize": True, "shrink": 1,
        "training": {"epochs": 3, "augment": {"flip": True, "crop": 1}},
        "outliers": {"noise": {"made": "uniform_noise", "n": 5, "regime": "far"},
                     "own": {"path": "own.npz", "split": "all", "limit": 7, "regime": "near"}},
        "embeddings": {"train": "t.npy", "noise": "n.npy", "own": "o.npy", "text": {"path": "x.npy", "rows": "0:5"}}}},
    "training": TRAINING["training"] | {"outliers": {"name": "digits", "split": "all", "limit": 5}},
}  # fmt: skip
AXES = {"width", "normalize", "reward", "warm_up", "dropout", "passes", "seed"}  # of [matrix]: a list is expanded


def scalars(content, path=()):
    """Paths of all single values."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(value, (dict, list)):
            yield from scalars(value, (*path, key))
        else:
            yield (*path, key)


def with_list(content, path):
    changed = copy.deepcopy(content)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = [place[path[-1]], place[path[-1]]]
    return changed


def named(path):
    return ".".join(map(str, path))


def read_training(content):
    """Read, and take the options where the plan uses them: by their classes."""
    from caveat_lab.networks.training import Augmentation, EarlyStopping, make_paradigm

    plan = TrainPlan.from_dict(content)
    make_paradigm(plan.paradigm, **plan.paradigm_options)
    Augmentation(**plan.augment)
    EarlyStopping(**plan.early_stopping)
    return plan


@pytest.mark.parametrize("path", list(scalars(TRAINING)), ids=named)
def test_a_training_plan_refuses_a_list(path):
    read_training(TRAINING)
    with pytest.raises(InputError):
        read_training(with_list(TRAINING, path))


@pytest.mark.parametrize("path", list(scalars(STUDY)), ids=named)
def test_a_score_study_refuses_a_list(path):
    Plan.from_dict(STUDY)
    with pytest.raises(InputError):
        Plan.from_dict(with_list(STUDY, path))


@pytest.mark.parametrize(
    ("content", "path"),
    [(content, path) for content in (TASK, SOURCE_TASK) for path in scalars(content)],
    ids=lambda value: named(value) if isinstance(value, tuple) else "",
)
def test_a_study_of_a_task_refuses_a_list(content, path):
    Plan.from_dict(content)
    with pytest.raises(InputError):
        Plan.from_dict(with_list(content, path))


def axis(path):
    return path[0] == "matrix" and path[-1] in AXES and "training" not in path


@pytest.mark.parametrize("path", [path for path in scalars(MATRIX) if not axis(path)], ids=named)
def test_a_matrix_study_refuses_a_list_outside_its_axes_and_names_the_key(path):
    assert len(Plan.from_dict(MATRIX).sources) == 1
    key = re.sub(r"\.(\d+)", r"[\1]", named(path))
    with pytest.raises(InputError, match=re.escape(key)):
        Plan.from_dict(with_list(MATRIX, path))


@pytest.mark.parametrize("path", [path for path in scalars(MATRIX) if axis(path)], ids=named)
def test_a_list_in_an_axis_gives_one_network_or_seed_each(path):
    content = with_list(MATRIX, path)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]][1] = not place[path[-1]][0] if path[-1] == "normalize" else 2 * place[path[-1]][0] or 1
    plan = Plan.from_dict(content)
    assert len(plan.sources) * len(plan.seeds) == 2
    place[path[-1]] = []
    with pytest.raises(InputError, match=f"{path[-1]} must be a list with at least one entry"):
        Plan.from_dict(content)


def test_dropout_of_the_matrix_does_not_replace_that_of_a_backbone():
    content = copy.deepcopy(MATRIX)
    content["matrix"]["backbone"][0]["dropout"] = [0.1, 0.2]
    with pytest.raises(InputError, match="dropout is in \\[matrix\\] and in its backbone b dropout 0.1"):
        Plan.from_dict(content)
    del content["matrix"]["dropout"]
    rates = [source.network.training["model"]["dropout"] for source in Plan.from_dict(content).sources.values()]
    assert rates == [0.1, 0.2]


@pytest.mark.parametrize("name", sorted(PARADIGMS))
def test_a_paradigm_refuses_a_list_for_a_number(name):
    from caveat_lab.networks.training import make_paradigm

    hints = get_type_hints(PARADIGMS[name])
    for field in fields(PARADIGMS[name]):
        value = getattr(make_paradigm(name), field.name)
        if get_origin(hints[field.name]) is not tuple and isinstance(value, (int, float)):
            with pytest.raises(InputError):
                make_paradigm(name, **{field.name: [value, value]})


def test_options_of_paradigms_that_are_lists_are_known_to_a_matrix():
    tuples = {field.name for kind in PARADIGMS.values() for field in fields(kind)
              if get_origin(get_type_hints(kind)[field.name]) is tuple}  # fmt: skip
    assert tuples == set(_LISTS)


def test_the_lists_above_leave_no_key_out():
    keys = {path[-1] for path in scalars(TRAINING)} | {"paradigm", "data", "model", "training", "outputs", "augment"}
    keys |= {"early_stopping", "outliers"}
    lists = {"sets", "join", "shape", "path"}  # lists themselves; path is a key of an outlier set above
    for kind in (_File, _Data, _Training, _Outputs):
        assert {field.name for field in fields(kind)} <= keys | lists, kind
