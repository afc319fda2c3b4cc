from __future__ import annotations

import pytest

from caveat_lab.experiments import Plan
from caveat_lab.experiments import run as run_study


@pytest.fixture
def store(files):
    plan = {
        "title": "Two scores", "scores": ["msp", "energy"], "resamples": 20,
        "sources": {"net": {"inlier": "test.npz", "train": "train.npz", "outliers": {"far": "far.npz"}}},
    }  # fmt: skip
    run_study(Plan.from_dict(plan, folder=files), store=files / "run")
    return files / "run"


def test_a_study_becomes_a_page_and_tables(run, store):
    code, out, _ = run("report", store)
    assert code == 0
    for name in ("report.html", "tables.md", "tables.tex"):
        assert str(store / name) in out
    assert "<h1>Two scores</h1>" in (store / "report.html").read_text(encoding="utf-8")


def test_folder_and_title_may_be_chosen(run, store, tmp_path):
    code, _, _ = run("report", store, "--out", tmp_path / "new", "--title", "Mine")
    assert code == 0
    assert (tmp_path / "new" / "tables.md").read_text(encoding="utf-8").startswith("# Mine\n")
    assert not (store / "report.html").exists()


def test_a_folder_that_is_no_study_is_exit_code_2(run, tmp_path):
    code, _, err = run("report", tmp_path)
    assert code == 2
    assert "is not a study: it has no plan.json" in err


def test_a_file_in_place_of_the_folder_is_said_before_the_work(run, tmp_path):
    (tmp_path / "file").touch()
    code, _, err = run("report", tmp_path / "no study", "--out", tmp_path / "file")
    assert code == 2
    assert err == f"error: {tmp_path / 'file'} is a file. Choose a folder for the results.\n"
