"""``tune = true`` in a plan: settings chosen on a part of the calibration rows, kept in the records and the report."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs, evaluate
from caveat.evaluation.records import Data, Scores, Tuning
from caveat.report import write_report
from caveat_lab.experiments import Plan, run
from caveat_lab.experiments.expansion import expand

pytest.importorskip("pyarrow")
PLAN = """
tune = true
seeds = [3]
resamples = 20
scores = ["gen", "energy", {name = "knn", k = [5, 10]}, "pca_error"]
projections = ["none", "global"]
metrics = ["auroc", "augrc", "accuracy"]
[sources.net]
train = "train.npz"
calibration = "held.npz"
inlier = "test.npz"
[sources.net.outliers]
near = {path = "near.npz", regime = "near"}
far = {path = "far.npz", regime = "far"}
"""


@pytest.fixture
def results(score_study):
    found = run(Plan.parse(PLAN, folder=score_study), store=score_study / "runs")
    assert (found.missing, found.failures) == ((), ())
    return found


def test_what_was_chosen_is_recorded_for_every_score_and_projection(results):
    chosen = {str(record.method): dict(record.chosen) for record in results.records(Tuning)}
    assert set(chosen["gen"]) == {"temperature", "gamma", "top"}
    assert set(chosen["gen global"]) == {"temperature", "gamma", "top", "variance"}
    assert set(chosen["energy global"]) == {"temperature", "variance"}
    assert set(chosen["pca_error global"]) == {"variance"}
    assert chosen["knn(k=5)"] == {}  # the plan gives k, so a grid of k stays a grid
    assert len({values["temperature"] for values in chosen.values() if "temperature" in values}) == 1


def test_no_row_has_two_roles(results):
    sizes = {record.role: record.n for record in results.records(Data)}
    assert (sizes["tuning"], sizes["calibration"]) == (24, 96)
    held = [record for record in results.records(Scores) if record.role == "calibration"]
    assert {record.values.size for record in held} == {96}


def test_a_study_and_an_evaluation_choose_the_same(results, score_study):
    parts = {name: Outputs.load(score_study / f"{name}.npz") for name in ("train", "held", "test", "near", "far")}
    evaluation = evaluate(
        inlier=parts["test"], calibration=parts["held"], train=parts["train"], scores=["gen", "energy"], tune=True,
        outliers={name: parts[name] for name in ("near", "far")}, seed=3,
    )  # fmt: skip
    mine = {record.method: record.chosen for record in results.records(Tuning)}
    assert all(mine[record.method] == record.chosen for record in evaluation.of(Tuning))
    both = [
        {(record.role, record.block.outlier): record.values for record in records if str(record.method) == "gen"}
        for records in (evaluation.of(Scores), results.records(Scores))
    ]
    assert both[0].keys() == both[1].keys()
    for key, values in both[0].items():
        np.testing.assert_array_equal(values, both[1][key])


def test_the_report_and_the_table_show_it(results, tmp_path):
    files = write_report(results.findings(), tmp_path)
    for path in (files.html, files.markdown):
        text = path.read_text(encoding="utf-8")
        assert "Settings that were chosen" in text
        assert "gamma = " in text
        assert "choose temperature and parameters" in text  # the role of the tuning rows
    results.to_csv(tmp_path / "metrics.csv")
    metrics = set((tmp_path / "metrics.csv").read_text(encoding="utf-8").replace("\n", ",").split(","))
    assert {"tuned_temperature", "tuned_gamma", "tuned_variance"} <= metrics


def test_a_second_run_computes_nothing_and_tuning_is_part_of_the_key(results, score_study):
    cells = score_study / "runs" / "cells"
    before = {path.name: path.stat().st_mtime_ns for path in cells.iterdir()}
    run(Plan.parse(PLAN, folder=score_study), store=score_study / "runs")
    assert {path.name: path.stat().st_mtime_ns for path in cells.iterdir()} == before
    assert len(before) == len(results.cells)
    untuned, _ = expand(Plan.parse(PLAN.replace("tune = true", "tune = false"), folder=score_study))
    tuned, _ = expand(Plan.parse(PLAN, folder=score_study))
    changed = {cell.task for cell in tuned} - {"collapse", "proximity"}
    assert {a.task for a, b in zip(tuned, untuned, strict=True) if a.key != b.key} == changed


def test_a_variance_that_the_plan_gives_stays(score_study):
    plan = Plan.parse(PLAN.replace("seeds = [3]", "seeds = [3]\nvariance = 0.9"), folder=score_study)
    found = run(plan, store=score_study / "runs")
    chosen = {str(record.method): dict(record.chosen) for record in found.records(Tuning)}
    assert "variance" not in chosen["gen global"]
    assert "variance" in chosen["pca_error"]  # its own


def test_tuning_needs_labels_of_held_out_rows(score_study):
    held = Outputs.load(score_study / "held.npz")
    Outputs(logits=held.logits, features=held.features, head=held.head).save(score_study / "held.npz")
    with pytest.raises(InputError, match="source net: tuning needs labels"):
        expand(Plan.parse(PLAN, folder=score_study))


def test_a_source_that_a_task_makes_is_tuned_too(score_study):
    (score_study / "make.py").write_text(
        "from pathlib import Path\n"
        "from caveat import Outputs\n"
        "def outputs(seed):\n"
        "    folder = Path(__file__).parent\n"
        "    train, held, test, far = (Outputs.load(folder / f'{n}.npz') for n in ('train', 'held', 'test', 'far'))\n"
        "    return {'train': train, 'calibration': held, 'inlier': test, 'outliers': {'far': far}}\n",
        encoding="utf-8",
    )
    plan = 'tune = true\nscores = ["gen"]\nresamples = 20\n[sources.made]\ntask = "make.py:outputs"\n'
    found = run(Plan.parse(plan, folder=score_study), store=score_study / "runs")
    assert found.failures == ()
    assert [record.n for record in found.records(Tuning)] == [24]
