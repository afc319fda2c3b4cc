"""An evaluation is a study of one model: the same files give the same numbers, order, ties and words."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from caveat import Outputs
from caveat.evaluation import evaluate
from caveat.evaluation.records import Left
from caveat_lab.experiments import Plan, run

pytest.importorskip("pyarrow")

SCORES = ["msp", "energy", "mahalanobis", "knn", "tempscale"]
PLAN = f"""
scores = {SCORES}
sets = ["lac"]
[sources.model]
train = "train.npz"
CALIBRATION
inlier = "test.npz"
[sources.model.outliers]
near = {{path = "near.npz", regime = "near"}}
far = {{path = "far.npz", regime = "far"}}
"""


@pytest.fixture(params=[True, False], ids=["calibration file", "split inliers"])
def both(request, tmp_path, make_outputs):
    made = {"train": make_outputs(seed=1), "held": make_outputs(seed=4, n=120), "test": make_outputs(seed=2, n=150),
            "near": make_outputs(seed=3, n=90, shift=0.5), "far": make_outputs(seed=5, n=80, shift=4.0)}  # fmt: skip
    for name, outputs in made.items():
        labels = None if name in ("near", "far") else outputs.labels
        Outputs(logits=outputs.logits, features=outputs.features, head=outputs.head, labels=labels).save(
            tmp_path / f"{name}.npz"
        )
    parts = {name: Outputs.load(tmp_path / f"{name}.npz") for name in made}
    evaluation = evaluate(
        train=parts["train"], calibration=parts["held"] if request.param else None, inlier=parts["test"],
        outliers={"near": parts["near"], "far": parts["far"]}, regimes={"near": "near", "far": "far"}, scores=SCORES,
    )  # fmt: skip
    text = PLAN.replace("CALIBRATION", 'calibration = "held.npz"' if request.param else "")
    return evaluation, run(Plan.parse(text, folder=tmp_path), store=tmp_path / "runs")


def same(a, b):
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    if hasattr(a, "__dataclass_fields__"):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return a == b or (a != a and b != b)


def key(record):
    named = getattr(record, "method", getattr(record, "name", getattr(record, "set_method", "")))
    return (type(record).__name__, record.block.outlier, str(named), getattr(record, "role", ""),
            getattr(record, "kind", ""))  # fmt: skip


def test_evaluation_and_study_give_the_same_answer(both):
    evaluation, results = both
    assert results.failures == ()
    findings = results.findings()
    kinds = {type(record) for record in evaluation.records}
    stored = [record for record in findings.records if type(record) in kinds and not isinstance(record, Left)]
    mine = {key(record): record for record in evaluation.records}
    theirs = {key(record): record for record in stored}
    assert mine.keys() == theirs.keys()
    differ = [name for name in mine if not same(mine[name], theirs[name])]
    assert differ == []
    found, expected = findings.assessments["model", 0], evaluation.assessment
    assert found.ranking.average_ranks == expected.ranking.average_ranks
    assert found.ranking.cliques == expected.ranking.cliques
    assert found.errors.layers == expected.errors.layers
    assert str(found.decision) == str(expected.decision)
    assert found.decision.to_dict() == expected.decision.to_dict()
    assert replace(findings, records=()).alpha == evaluation.settings.alpha
