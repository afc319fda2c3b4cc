"""Results read from a store."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.evaluation.records import Certificate, Detection
from caveat.report import render_report
from caveat.stats import compare
from caveat_lab.experiments import Plan, StudyResults, run
from caveat_lab.experiments.expansion import expand


@pytest.fixture
def results(score_study):
    return run(score_study / "plan.toml", store=score_study / "runs")


def test_rows_and_records_are_the_same_numbers(results):
    far = [found for found in results.records(Detection) if found.block.outlier == "far"]
    rows = [row for row in results.rows() if row["metric"] == "auroc" and row["outlier"] == "far"]
    assert [row["value"] for row in rows] == [found.auroc.value for found in far]
    assert len(rows) == 6  # msp, energy, each plain and global; knn with two k
    assert {row["regime"] for row in rows} == {found.block.regime for found in far} == {"far"}
    assert list(results.records(Certificate)) == []


def test_a_table_for_comparison(results):
    table = results.table("augrc")
    assert sorted(set(table["method"])) == ["energy", "energy global", "knn(k=10)", "knn(k=5)", "msp", "msp global"]
    assert set(zip(table["outlier"], table["regime"], strict=True)) == {("near", "near"), ("far", "far")}
    found = compare(table, block=["model", "seed", "outlier"], method="method", value="value")
    assert (found.n_blocks, len(found.methods)) == (2, 6)
    assert set(table["method"]) == set(results.table("aurc", errors=True)["method"])
    with pytest.raises(InputError, match="unknown metric in this study 'augcr'. Did you mean 'augrc'"):
        results.table("augcr")
    with pytest.raises(InputError, match="unknown metric in this study 'accuracy'"):
        results.table("accuracy")


def test_regimes_follow_the_plan_without_computing_again(results, score_study):
    text = (score_study / "plan.toml").read_text().replace('regime = "near"', 'regime = "mid"')
    seen = []
    again = run(Plan.parse(text, folder=score_study), store=score_study / "runs", progress=seen.append)
    assert seen[0].already == seen[0].total
    assert set(again.table("auroc")["regime"]) == {"mid", "far"}


def test_regimes_by_proximity(score_study, make_outputs):
    make_outputs(seed=9, n=60, shift=1.5).save(score_study / "third.npz")  # has embeddings; the others have none
    text = (score_study / "plan.toml").read_text() + 'third = "third.npz"\n[regimes]\nby = "proximity"\n'
    found = run(Plan.parse(text, folder=score_study), store=score_study / "by")
    assert found.failures == ()
    assert set(found.regimes.values()) == {"near", "mid", "far"}
    table = found.table("auroc")
    assert dict(zip(table["outlier"], table["regime"], strict=True)) == {
        outlier: regime for (_, _, outlier), regime in found.regimes.items()
    }


def test_the_plan_comes_back(results, score_study):
    assert results.plan == Plan.read(score_study / "plan.toml")
    assert results.title == "Small"
    assert results.notes == expand(results.plan)[1]
    assert [cell["key"] for cell in results.cells] == [cell.key for cell in expand(results.plan)[0]]
    assert repr(results) == "StudyResults('Small', 9 of 9 cells, 0 failed)"


def test_facts_say_how_each_cell_came_about(results):
    facts = list(results.facts())
    assert [fact["label"] for fact in facts] == [cell["label"] for cell in results.cells]
    assert all(fact["seconds"] >= 0 and fact["versions"]["caveat"] for fact in facts)
    assert all(len(value) == 64 for fact in facts for value in fact["fingerprints"].values())


def test_findings_read_each_cell_once(results, monkeypatch):
    keys, read = [], type(results.store).read
    monkeypatch.setattr(type(results.store), "read", lambda store, key: keys.append(key) or read(store, key))
    findings = results.findings()
    assert keys == [cell["key"] for cell in results.finished]
    assert [cell.key for cell in findings.cells] == keys
    assert len(findings.records) == len(list(results.records()))


def test_csv_is_the_table(results, tmp_path):
    path = results.to_csv(tmp_path / "all.csv")
    with path.open(newline="") as stream:
        read = list(csv.DictReader(stream))
    rows = list(results.rows())
    assert len(read) == len(rows)
    assert [float(r["value"]) if r["value"] else np.nan for r in read] == pytest.approx(
        [r["value"] for r in rows], nan_ok=True, rel=0, abs=0
    )
    assert results.to_csv(tmp_path / "again.csv").read_bytes() == path.read_bytes()


def test_results_of_a_task(task_study, tmp_path):
    found = run(task_study(), store=tmp_path / "runs")
    assert [row["b"] for row in found.rows() if row["a"] == 2] == [0, 0, 0, 5, 5, 5]
    assert list(found.records()) == []
    with pytest.raises(InputError, match="rows of a task in columns of its own"):
        found.findings()
    assert found.to_csv(tmp_path / "t.csv").read_text().splitlines()[:2] == ["a,b,step,value", "1,0,0,10.0"]


def test_cells_with_different_columns_are_read_row_by_row(task_study, tmp_path):
    path = task_study("def one(a): return [{f'c{a}': True}]", '[task]\nrun = "run.py:one"\n[grid]\na = [1, 2]')
    found = run(path, store=tmp_path / "runs")
    assert list(found.rows()) == [{"a": 1, "c1": True}, {"a": 2, "c2": True}]
    assert found.to_csv(tmp_path / "t.csv").read_text() == "a,c1,c2\n1,true,\n2,,true\n"


def test_a_store_is_read_where_it_was_moved_to(results, score_study, tmp_path):
    (score_study / "runs").rename(tmp_path / "elsewhere")
    (score_study / "test.npz").unlink()  # the data are not needed any more
    moved = StudyResults.read(tmp_path / "elsewhere")
    assert len(moved.table("auroc")["value"]) == 12


TWO_MODELS = """
title = "Two models"
resamples = 50
scores = ["msp", "energy"]
[sources.net]
calibration = "held.npz"
inlier = "test.npz"
[sources.other]
calibration = "{calibration}.npz"
inlier = "{inlier}.npz"
"""


def test_models_of_the_same_rows_are_ranked_and_reported(score_study):
    same = Outputs.load(score_study / "test.npz")
    noise = np.random.default_rng(0).normal(size=same.logits.shape) * 6
    Outputs(logits=same.logits + noise, labels=same.labels).save(score_study / "worse.npz")
    plan = Plan.parse(TWO_MODELS.format(calibration="held", inlier="worse"), folder=score_study)
    found = run(plan, store=score_study / "two")
    assert found.failures == ()
    ranked = found.rank_models()
    assert ranked.rankings["accuracy"].layers == (("net",), ("other",))
    assert found.rank_models("energy").method == "energy"
    page, markdown, _ = render_report(found.findings())
    assert "Which models differ" in markdown
    assert "McNemar" in markdown
    assert 'id="model-ranks"' in page


def test_models_of_other_rows_are_not_ranked_and_the_report_says_why(score_study):
    plan = Plan.parse(TWO_MODELS.format(calibration="test", inlier="held"), folder=score_study)
    found = run(plan, store=score_study / "two")
    assert found.rank_models().rankings == {}
    assert any("not compared" in note and "same rows" in note for note in found.findings().notes)
    assert "Which models differ" not in render_report(found.findings())[1]
