"""A list where one value is meant is refused with the path of its key; where several are meant, it is expanded."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import get_origin, get_type_hints

import pytest

from caveat import InputError
from caveat_lab.experiments import Plan
from caveat_lab.experiments.plan import SetFile, Source

BASE = {
    "scores": ["msp"],
    "sources": {
        "net": {
            "train": {"path": "t.npz", "rows": "0:5", "keys": {"logits": "z"}},
            "inlier": "i.npz",
            "head": "h.npz",
            "outliers": {"far": {"path": "o.npz", "regime": "far"}},
            "embeddings": {"train": "e.npy", "far": "f.npy", "text": "x.npy"},
        },
        "made": {"task": "make.py:outputs", "params": {"depth": 3}},
    },
    "regimes": {"by": ""},
}
SEVERAL = {"seeds", "metrics", "scores", "projections", "sets"}  # lists by design
SCALARS = {
    "title": "x", "about": "x", "alpha": 0.2, "delta": 0.1, "false_alarm": 0.1, "risk": 0.1, "variance": 0.9,
    "tune": True, "resamples": 50,
}  # fmt: skip


def changed(path, value):
    content = copy.deepcopy(BASE)
    *parents, last = path.split("/")
    place = content
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = value
    return content


def test_no_key_of_a_plan_is_forgotten():
    """A new key must be listed here as a scalar or as a list."""
    own = {"regimes", "sources", "task", "folder", "content", "text"}
    assert {field.name for field in fields(Plan)} == SEVERAL | set(SCALARS) | own
    hints = get_type_hints(Plan)
    assert {name for name in SEVERAL if get_origin(hints[name]) is tuple} == SEVERAL - {"scores"}


@pytest.mark.parametrize("key", SCALARS)
def test_a_scalar_is_taken_and_a_list_of_it_is_refused(key):
    assert getattr(Plan.from_dict(changed(key, SCALARS[key])), key) == SCALARS[key]
    for value in ([SCALARS[key]], [SCALARS[key], SCALARS[key]], []):
        with pytest.raises(InputError, match=rf"^{key} must be"):
            Plan.from_dict(changed(key, value))


PLACES = {
    "regimes/by": "proximity",
    "sources/net/head": "h.npz",
    "sources/net/inlier": "i.npz",
    "sources/net/train/path": "t.npz",
    "sources/net/train/rows": "0:5",
    "sources/net/train/keys/logits": "z",
    "sources/net/outliers/far": "o.npz",
    "sources/net/outliers/far/path": "o.npz",
    "sources/net/outliers/far/regime": "far",
    "sources/net/embeddings/text": "x.npy",
    "sources/made/task": "make.py:outputs",
}


@pytest.mark.parametrize("path", PLACES)
def test_scalars_inside_tables(path):
    Plan.from_dict(changed(path, PLACES[path]))
    with pytest.raises(InputError, match=path.replace("/", r"\.") + " must be"):
        Plan.from_dict(changed(path, [PLACES[path]]))


def test_no_key_of_a_source_or_file_is_forgotten():
    listed = {path.split("/")[-1] for path in PLACES} | {"keys"}
    assert {field.name for field in fields(SetFile)} <= listed
    tables = {"name", "train", "calibration", "inlier", "outliers", "confirm", "embeddings", "params"}
    of_a_matrix = {"network"}  # keys of [matrix] are in test_lists.py
    assert {field.name for field in fields(Source)} - tables - of_a_matrix <= listed


def test_lists_are_expanded():
    grid = changed("scores", [{"name": "knn", "k": [5, 10]}, {"name": "gen", "gamma": [0.1, 0.5], "top": [2, 3]}])
    plan = Plan.from_dict(grid)
    assert [choice.variants() for choice in plan.scores] == [
        [{"k": 5}, {"k": 10}],
        [{"gamma": g, "top": t} for g in (0.1, 0.5) for t in (2, 3)],
    ]
    assert Plan.from_dict(changed("seeds", [1, 2])).seeds == (1, 2)
    assert Plan.from_dict(changed("seeds", 4)).seeds == (4,)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([{"name": ["msp", "energy"]}], r"scores\[0\]\.name must be"),
        ([["msp"]], r"scores\[0\] must be"),
        ([{"name": "knn", "k": [[5]]}], "k"),
        ([{"name": "knn", "k": []}], "k"),
    ],
)
def test_a_list_inside_a_score(scores, message):
    with pytest.raises(InputError, match=message):
        Plan.from_dict(changed("scores", scores))


def test_lists_inside_lists_are_refused():
    for key in ("seeds", "metrics", "projections", "sets"):
        with pytest.raises(InputError, match=rf"{key}\[0\] must be"):
            Plan.from_dict(changed(key, [[1]]))


def test_parameters_of_a_function_are_its_own_affair():
    """A list among them reaches the function as it is: only the function knows whether one is meant."""
    assert Plan.from_dict(changed("sources/made/params", {"widths": [8, 16]})).sources["made"].params == {
        "widths": [8, 16]
    }
