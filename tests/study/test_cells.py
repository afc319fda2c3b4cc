"""The key of a cell changes with everything the answer depends on, and with nothing else."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat_lab.experiments import Cell
from caveat_lab.experiments.cells import canonical_json

CELL = Cell("score", {"score": "knn", "params": {"k": 10}}, 0, {"train": "ab"}, {"train": "/data/t.npz"}, "knn")


@pytest.mark.parametrize(
    "change",
    [{"task": "sets"}, {"params": {"score": "knn", "params": {"k": 11}}}, {"seed": 1}, {"fingerprints": {"train": "x"}},
     {"version": "9"}, {"format": 99}, {"needs": "y"}],
)  # fmt: skip
def test_what_matters_changes_the_key(change):
    assert replace(CELL, **change).key != CELL.key


@pytest.mark.parametrize("change", [{"paths": {"train": "/elsewhere/t.npz"}}, {"label": "other"}])
def test_where_the_data_are_does_not(change):
    assert replace(CELL, **change).key == CELL.key


def test_the_key_survives_the_way_to_another_process():
    assert pickle.loads(pickle.dumps(CELL)).key == CELL.key
    assert CELL.to_json()["key"] == CELL.key


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.booleans(), max_size=5))
def test_the_order_of_parameters_does_not_matter(params):
    turned = dict(reversed(params.items()))
    assert canonical_json(params) == canonical_json(turned)
    assert Cell("t", params).key == Cell("t", turned).key


def test_one_is_not_true():
    assert Cell("t", {"a": 1}).key != Cell("t", {"a": True}).key
    assert Cell("t", {"a": 1}).key != Cell("t", {"a": 1.0}).key


def test_nan_has_no_key():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})
