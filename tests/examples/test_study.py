"""The example study runs as its first lines say, on fewer scores here."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from caveat.stats import compare
from caveat_lab.experiments import Plan, run
from caveat_lab.experiments.expansion import expand

HERE = Path(__file__).parents[2] / "examples" / "study"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    runpy.run_path(str(HERE / "make_files.py"))["main"](folder)
    return folder


def test_the_plan_finds_its_files(files):
    plan = Plan.parse((HERE / "plan.toml").read_text(encoding="utf-8"), folder=files)
    cells = expand(plan)[0]
    # sets, collapse, proximity; 8 plain scores; msp, energy, entropy, mahalanobis, pca_error have both projections
    assert len(cells) == 2 * (3 + 8 + 2 * 5)
    assert expand(plan)[1] == ("No global or class_pred projection exists of vim, knn.",)


def test_the_study_runs_and_can_be_compared(files):
    text = (HERE / "plan.toml").read_text(encoding="utf-8")
    first = text.index("scores = ")
    text = text.replace(text[first : text.index("resamples")], 'scores = ["msp", "pca_error"]\n')
    results = run(Plan.parse(text.replace("resamples = 200", "resamples = 20"), folder=files), store=files / "runs")
    assert results.missing == ()
    found = compare(results.table("augrc"), block=["model", "seed", "outlier"], method="method", value="value")
    assert (found.n_blocks, set(found.methods)) == (12, {"msp", "pca_error"})
