"""The rows of a score cell equal the library's own functions on the same outputs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from caveat import InputError, Outputs, metrics
from caveat.scores import KNN, MSP, Projected
from caveat.study import Plan, Store
from caveat.study.score_cell import score_rows
from caveat.study.sources import load_source


@pytest.fixture
def cells(score_study):
    plan, store = Plan.read(score_study / "plan.toml"), Store(score_study / "runs")
    return {cell.label: (cell, load_source(cell, store)) for cell in plan.cells()}


def pick(rows, **where):
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def test_metrics_of_a_score(cells):
    cell, parts = cells["net knn(k=10)"]
    rows, facts = score_rows(cell, parts)
    assert facts == {}
    score = KNN(k=10).fit(parts.train)
    inside, outside = score.score(parts.inlier), score.score(parts.outliers["far"])
    found = {row["metric"]: row for row in pick(rows, kind="metric", outlier="far")}
    both = {"inlier": inside, "outlier": outside}
    pooled, right = metrics.ood_failures(inlier=inside, correct=parts.inlier.correct, outlier=outside)
    expected = {
        "auroc": metrics.auroc(**both),
        "conformal_auroc": metrics.auroc(**both),
        "fpr95_outlier_positive": metrics.fpr_at_tpr(**both, positive="outlier"),
        "fpr95_inlier_positive": metrics.fpr_at_tpr(**both, positive="inlier"),
        "aupr": metrics.aupr(**both),
        "aurc": metrics.aurc(score=pooled, correct=right),
        "augrc": metrics.augrc(score=pooled, correct=right),
    }
    assert {name: row["value"] for name, row in found.items()} == pytest.approx(expected)
    band = metrics.conformal_auroc(**both, delta=0.05, two_sided=True)
    assert (found["conformal_auroc"]["lower"], found["conformal_auroc"]["upper"]) == (band.lower, band.upper)
    assert found["auroc"]["lower"] < found["auroc"]["value"] < found["auroc"]["upper"]
    assert {(row["source"], row["seed"], row["score"], row["projection"]) for row in rows} == {
        ("net", 3, "knn", "none")
    }
    assert {json.loads(row["params"])["k"] for row in rows} == {10}


def test_the_models_own_errors_have_no_outlier_set(cells):
    cell, parts = cells["net msp"]
    rows, _ = score_rows(cell, parts)
    values, correct = MSP().score(parts.inlier), parts.inlier.correct
    found = {row["metric"]: row["value"] for row in pick(rows, kind="metric", outlier="")}
    assert found == pytest.approx({
        "auroc": metrics.auroc(inlier=values[correct], outlier=values[~correct]),
        "aurc": metrics.aurc(score=values, correct=correct),
        "augrc": metrics.augrc(score=values, correct=correct),
    })  # fmt: skip


def test_a_projection_is_fitted_on_the_training_outputs(cells):
    cell, parts = cells["net energy global"]
    rows, _ = score_rows(cell, parts)
    from caveat.scores import Energy

    score = Projected(Energy(), "global").fit(parts.train)
    expected = metrics.auroc(inlier=score.score(parts.inlier), outlier=score.score(parts.outliers["near"]))
    (row,) = pick(rows, kind="metric", outlier="near", metric="auroc")
    assert row["value"] == pytest.approx(expected)
    assert row["projection"] == "global"


def test_curves_and_histograms_are_there(cells):
    rows, _ = score_rows(*cells["net msp"])
    for outlier in ("near", "far"):
        roc = pick(rows, kind="roc", outlier=outlier)
        assert len(roc) == 101
        assert all(row["lower"] <= row["value"] <= row["upper"] for row in roc)
        assert len(pick(rows, kind="risk", outlier=outlier)) <= 101
    edges = {tuple(row["x"] for row in pick(rows, kind="histogram", outlier=name)) for name in ("", "near", "far")}
    assert len(edges) == 1
    shares = [row["value"] for row in pick(rows, kind="histogram", metric="inlier")]
    assert np.isnan(shares[-1])
    assert sum(shares[:-1]) == pytest.approx(1)


def test_only_the_metrics_that_were_asked_for(cells):
    cell, parts = cells["net msp"]
    cell = replace(cell, params=dict(cell.params) | {"metrics": ["auroc"]})
    rows, _ = score_rows(cell, parts)
    assert {row["metric"] for row in pick(rows, kind="metric")} == {"auroc"}


def test_without_labels_there_is_no_selective_metric(cells):
    cell, parts = cells["net msp"]
    rows, _ = score_rows(cell, replace(parts, inlier=Outputs(logits=parts.inlier.logits)))
    assert not {"aurc", "augrc"} & {row["metric"] for row in rows}
    assert pick(rows, kind="metric", metric="auroc")


def test_a_score_that_cannot_be_computed_is_an_error_if_it_was_named_and_skipped_if_not(cells):
    cell, parts = cells["net knn(k=5)"]
    parts = replace(parts, train=None)
    with pytest.raises(InputError, match="score 'knn' needs training outputs"):
        score_rows(cell, parts)
    cell = replace(cell, params=dict(cell.params) | {"named": False})
    assert score_rows(cell, parts) == ([], {"skipped": "needs training outputs"})


def test_the_seed_decides_the_bootstrap(cells):
    cell, parts = cells["net msp"]

    def lower(seed):
        rows, _ = score_rows(replace(cell, seed=seed), parts)
        return pick(rows, kind="metric", metric="augrc", outlier="near")[0]["lower"]

    assert lower(1) == lower(1) != lower(2)


def test_what_one_outlier_set_gets_does_not_depend_on_the_others(cells):
    cell, parts = cells["net msp"]
    both, _ = score_rows(cell, parts)
    alone, _ = score_rows(cell, replace(parts, outliers={"far": parts.outliers["far"]}))
    for outlier in ("far", ""):
        assert pick(alone, kind="metric", outlier=outlier) == pick(both, kind="metric", outlier=outlier)
