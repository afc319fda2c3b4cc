"""What a cell computes, by its task."""

from __future__ import annotations

import pytest

from caveat import InputError
from caveat_lab.experiments import Plan, Store
from caveat_lab.experiments.expansion import expand
from caveat_lab.experiments.tasks import compute


def test_a_function_gets_its_parameters_and_gives_rows(task_study, tmp_path):
    cell = expand(Plan.read(task_study()))[0][-1]
    rows = compute(cell, Store(tmp_path / "runs"))
    assert rows == [{"a": 3, "b": 5, "step": i, "value": 35 + i / 4} for i in range(3)]


def test_one_dict_is_one_row(task_study, tmp_path):
    path = task_study("def one(a): return {'twice': 2 * a}", '[task]\nrun = "run.py:one"\n[grid]\na = [4]')
    assert compute(expand(Plan.read(path))[0][0], Store(tmp_path / "runs")) == [{"a": 4, "twice": 8}]


def test_something_else_is_an_error(task_study, tmp_path):
    path = task_study("def one(a): return a", '[task]\nrun = "run.py:one"\n[grid]\na = [4]')
    with pytest.raises(InputError, match="returns must be a list of dicts or of records, got 4"):
        compute(expand(Plan.read(path))[0][0], Store(tmp_path / "runs"))


def test_built_in_tasks_read_their_source(score_study, tmp_path):
    store = Store(tmp_path / "runs")
    kinds = {}
    for cell in expand(Plan.read(score_study / "plan.toml"))[0]:
        kinds.setdefault(cell.task, set()).update(type(record).__name__ for record in compute(cell, store))
    assert kinds == {
        "model": {"Data", "ModelFacts", "SetFacts", "ClassFacts", "Curve", "Answers", "EmptySets"},
        "collapse": {"Collapse"},
        "proximity": {"Proximity"}, "score": {"Detection", "Selective", "Curve", "Histogram", "Scores"},
    }  # fmt: skip
