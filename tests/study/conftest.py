"""Small studies on disk: one of scores on generated outputs, one of a task."""

from __future__ import annotations

import textwrap

import pytest

from caveat import Outputs

SCORE_PLAN = """
title = "Small"
seeds = [3]
resamples = 20
scores = ["msp", "energy", {name = "knn", k = [5, 10]}]
projections = ["none", "global"]
[sources.net]
train = "train.npz"
calibration = "held.npz"
inlier = "test.npz"
[sources.net.outliers]
near = {path = "near.npz", regime = "near"}
far = {path = "far.npz", regime = "far"}
"""

TASK = """
def one(a, b, seed=0):
    return [{"step": i, "value": a * 10 + b + i / 4 + seed} for i in range(3)]
"""

TASK_PLAN = """
title = "Task"
[task]
run = "run.py:one"
[grid]
a = [1, 2, 3]
b = [0, 5]
"""


@pytest.fixture
def score_study(tmp_path, make_outputs):
    """Folder with plan.toml and the outputs it names."""
    folder = tmp_path / "study"
    folder.mkdir()
    made = {
        "train": make_outputs(seed=1), "held": make_outputs(seed=4, n=120), "test": make_outputs(seed=2, n=150),
        "near": make_outputs(seed=3, n=90, shift=0.5), "far": make_outputs(seed=5, n=80, shift=4.0),
    }  # fmt: skip
    for name, outputs in made.items():
        outlier = name in ("near", "far")
        Outputs(
            logits=outputs.logits, features=outputs.features, head=outputs.head,
            labels=None if outlier else outputs.labels,
        ).save(folder / f"{name}.npz")  # fmt: skip
    (folder / "plan.toml").write_text(SCORE_PLAN, encoding="utf-8")
    return folder


@pytest.fixture
def task_study(tmp_path):
    """A function that writes a plan of the given task beside it and returns its path."""

    def make(code=TASK, plan=TASK_PLAN, name="task"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "run.py").write_text(textwrap.dedent(code), encoding="utf-8")
        (folder / "plan.toml").write_text(plan, encoding="utf-8")
        return folder / "plan.toml"

    return make
