"""Cells about the model: prediction sets, neural collapse, proximity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from caveat import InputError, Outputs, metrics
from caveat.conformal import SplitSets
from caveat.geometry import buckets, neural_collapse, proximity
from caveat.study import Cell, Plan, Store
from caveat.study.model_cells import collapse_rows, proximity_rows, sets_rows
from caveat.study.sources import Parts, load_source


@pytest.fixture
def cells(score_study):
    plan, store = Plan.read(score_study / "plan.toml"), Store(score_study / "runs")
    return {cell.task: (cell, load_source(cell, store)) for cell in plan.cells()}


def pick(rows, **where):
    return [row for row in rows if all(row[key] == value for key, value in where.items())]


def test_prediction_sets_are_those_of_the_library(cells):
    cell, parts = cells["sets"]
    for name in ("lac", "topk"):  # without randomisation, so that the numbers are the same
        cell = replace(cell, params={**cell.params, "methods": [name]})
        rows, _ = sets_rows(cell, parts)
        sets = SplitSets(name, alpha=0.1).calibrate(parts.calibration).predict(parts.inlier)
        (coverage,) = pick(rows, kind="sets", score=name, metric="coverage")
        (size,) = pick(rows, kind="sets", score=name, metric="mean_size", outlier="")
        assert coverage["value"] == pytest.approx(sets.coverage(parts.inlier.labels))
        assert coverage["lower"] < coverage["value"] < coverage["upper"]
        assert size["value"] == pytest.approx(sets.sizes.mean())
        sizes = pick(rows, kind="sets", score=name, metric="size_hist", outlier="")
        assert sum(row["x"] * row["value"] for row in sizes) == pytest.approx(sets.sizes.mean())
        assert pick(rows, kind="sets", score=name, metric="mean_size", outlier="far")
        assert pick(rows, kind="sets", score=name, metric="promised")[0]["value"] >= 0.9


def test_a_sure_network_gets_small_aps_sets(cells):
    # All mass is on one label, but for 1e-20 or so: without randomisation right answers score all but 1, the threshold
    # is one of these numbers, and a set holds labels until what remains is smaller still: two or so. With it the right
    # answers score u, and a set is that one label or empty.
    cell, parts = cells["sets"]
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=2000)
    answers = np.where(rng.random(2000) < 0.93, labels, (labels + 1) % 4)
    said = Outputs(logits=(60 * np.eye(4)[answers] + rng.normal(size=(2000, 4))).astype(np.float32), labels=labels)
    sure = replace(parts, calibration=said[:1000], inlier=said[1000:], outliers={})
    rows, _ = sets_rows(replace(cell, params={**cell.params, "methods": ["aps"]}), sure)
    plain = SplitSets("aps", alpha=0.1).calibrate(sure.calibration).predict(sure.inlier)
    (size,) = pick(rows, kind="sets", score="aps", metric="mean_size")
    (coverage,) = pick(rows, kind="sets", score="aps", metric="coverage")
    spread = 4 * np.sqrt(0.9 * 0.1 / 1000) * np.sqrt(2)  # the draw of both halves
    assert 1.5 < plain.sizes.mean() < 3
    assert abs(plain.coverage(sure.inlier.labels) - 0.9) < spread  # 1 while they tied
    assert size["value"] < 1
    assert abs(coverage["value"] - 0.9) < spread


def test_sizes_and_coverage_by_difficulty_add_up(cells):
    cell, parts = cells["sets"]
    rows, _ = sets_rows(cell, parts)
    sets = SplitSets("lac", alpha=0.1).calibrate(parts.calibration).predict(parts.inlier)
    for metric, whole in (
        ("size_by_difficulty", sets.sizes.mean()),
        ("coverage_by_difficulty", sets.coverage(parts.inlier.labels)),
    ):
        found = pick(rows, kind="sets", score="lac", metric=metric)
        assert [row["x"] for row in found] == list(range(10))
        assert sum(row["value"] * row["n"] for row in found) / parts.inlier.n == pytest.approx(whole)
    (worst,) = pick(rows, score="lac", metric="t_cv")
    assert worst["method"] == "7 bins of equal mass; ease from noise on the logits"  # 150 samples, 20 in each at least
    assert 0 <= worst["value"] <= 1


def test_ease_comes_from_transformed_inputs_where_there_are_some(cells):
    cell, parts = cells["sets"]
    inlier = parts.inlier
    copies = np.stack([np.roll(inlier.probs, 1, axis=0), inlier.probs])
    parts = replace(parts, inlier=Outputs(logits=inlier.logits, labels=inlier.labels, ease_probs=copies))
    rows, _ = sets_rows(cell, parts)
    assert pick(rows, metric="t_cv", score="lac")[0]["method"].endswith("ease from transformed inputs")


def test_without_calibration_data_half_of_the_inliers_calibrates(cells):
    cell, parts = cells["sets"]
    rows, _ = sets_rows(cell, replace(parts, calibration=None))
    (coverage,) = pick(rows, score="lac", metric="coverage")
    assert coverage["n"] == 75
    assert coverage["caveat"].startswith("A random half of the inliers calibrated")


def test_the_models_own_numbers(cells):
    cell, parts = cells["sets"]
    rows, _ = sets_rows(cell, parts)
    found = {row["metric"]: row["value"] for row in pick(rows, kind="metric", score="")}
    probs, labels = parts.inlier.probs, parts.inlier.labels
    assert found == pytest.approx({
        "accuracy": parts.inlier.correct.mean(), "ece": metrics.ece(probs=probs, labels=labels),
        "brier": metrics.brier(probs=probs, labels=labels), "nll": metrics.nll(probs=probs, labels=labels),
    })  # fmt: skip
    counts = {(row["method"], row["outlier"]): row["n"] for row in pick(rows, kind="data", metric="n")}
    assert counts == {
        ("train", ""): 240, ("calibration", ""): 120, ("inlier", ""): 150, ("outlier", "near"): 90,
        ("outlier", "far"): 80,
    }  # fmt: skip


def test_without_labels_only_the_sizes_of_the_data_are_known(cells):
    cell, parts = cells["sets"]
    rows, _ = sets_rows(cell, replace(parts, inlier=Outputs(logits=parts.inlier.logits)))
    assert {row["kind"] for row in rows} == {"data"}


def test_collapse(cells):
    cell, parts = cells["collapse"]
    rows, _ = collapse_rows(cell, parts)
    found = neural_collapse(parts.train, projection="global")
    (row,) = pick(rows, kind="collapse", projection="global", metric="variability")
    assert row["value"] == pytest.approx(found.variability)
    assert {row["projection"] for row in rows} == {"none", "global", "class_pred"}
    assert {row["metric"] for row in rows} >= {"equinorm", "self_duality", "weight_equinorm"}


def test_proximity_and_its_groups(cells):
    cell, parts = cells["proximity"]
    rows, _ = proximity_rows(cell, parts)
    (row,) = pick(rows, outlier="far", metric="frechet")
    assert row["value"] == pytest.approx(proximity(inlier=parts.train, outlier=parts.outliers["far"]).frechet)
    assert row["regime"] == ""
    assert row["caveat"].startswith("No regimes: 3 buckets need")
    three = replace(parts, outliers={**parts.outliers, "same": parts.train})
    rows, _ = proximity_rows(cell, three)
    expected = buckets({n: proximity(inlier=parts.train, outlier=o) for n, o in three.outliers.items()}, seed=3)
    assert {row["outlier"]: row["regime"] for row in rows} == expected
    assert expected["far"] == "far"


@pytest.mark.parametrize("rows_of", [collapse_rows, proximity_rows])
def test_what_the_outputs_do_not_allow_is_skipped(rows_of, inlier):
    cell = Cell("x", {"source": "net"})
    rows, facts = rows_of(cell, Parts(train=Outputs(logits=inlier.logits), outliers={"a": inlier}))
    assert rows == []
    assert facts["skipped"].startswith("needs features")


def test_what_one_method_gets_does_not_depend_on_the_other_methods_and_metrics(cells):
    cell, parts = cells["sets"]
    parts = replace(parts, calibration=None)  # so that halves are drawn too

    def rows_of(methods, metrics, outliers=parts.outliers):
        told = {**cell.params, "methods": methods, "metrics": metrics}
        return sets_rows(replace(cell, params=told), replace(parts, outliers=outliers))[0]

    many = pick(rows_of(["lac", "saps", "aps"], ["accuracy", "ece", "brier"]), kind="sets", score="aps")
    alone = pick(rows_of(["aps"], [], {"far": parts.outliers["far"]}), kind="sets", score="aps")
    assert alone == [row for row in many if row["outlier"] != "near"]


def test_rows_in_two_roles_are_refused(cells):
    cell, parts = cells["sets"]
    with pytest.raises(InputError, match="calibration and inlier are the same 150 rows"):
        sets_rows(cell, replace(parts, calibration=parts.inlier))


def test_coverage_below_the_promise_beyond_chance_is_said(cells):
    cell, parts = cells["sets"]
    rng = np.random.default_rng(0)
    labels = rng.integers(4, size=600)

    def said(rows, noise):
        logits = 2 * np.eye(4)[labels[rows]] + noise * rng.normal(size=(labels[rows].size, 4))
        return Outputs(logits=logits, labels=labels[rows])

    for noise, expected in ((1.0, False), (3.0, True)):
        given = replace(parts, train=None, calibration=said(slice(300), 1.0), inlier=said(slice(300, None), noise))
        (row,) = pick(sets_rows(cell, given)[0], score="lac", metric="coverage")
        assert ("below the promise" in row["caveat"]) == expected
