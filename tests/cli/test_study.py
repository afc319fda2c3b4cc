"""``caveat study`` as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from caveat_lab.cli.study import default_folder
from caveat_lab.experiments import StudyResults

PLAN = '[task]\nrun = "run.py:one"\n[grid]\nk = [0, 1, 2]\n'


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "run.py").write_text("def one(k): return [{'value': 1 / k}]")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def test_a_study_with_a_failing_cell_names_it_and_exits_with_1(run, plan, tmp_path):
    code, out, err = run("study", plan, "--out", tmp_path / "r")
    assert code == 1
    assert "failed: k=0: ZeroDivisionError: division by zero" in err
    assert "2 of 3 cells done, 1 failed." in out
    assert f"Store: {tmp_path / 'r'}" in out
    assert "[3/3] done k=2" in err


def test_a_study_that_succeeds_exits_with_0_and_goes_on_where_it_stopped(run, plan, tmp_path):
    plan.write_text(PLAN.replace("0, 1", "1"))
    assert run("study", plan, "--out", tmp_path / "r")[0] == 0
    plan.write_text(PLAN.replace("0, 1, 2", "1, 2, 3"))
    code, out, err = run("study", plan, "--out", tmp_path / "r")
    assert code == 0
    assert "[2/3] 2 done before" in err
    assert "3 of 3 cells done" in out
    assert [row["value"] for row in StudyResults.read(tmp_path / "r").rows()] == [1, 1 / 2, 1 / 3]


def test_a_study_writes_its_long_table_as_csv_and_parquet(run, plan, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    _, out, _ = run("study", plan, "--out", tmp_path / "r")
    assert f"Table: {tmp_path / 'r' / 'results.csv'}" in out
    assert (tmp_path / "r" / "results.csv").read_text() == "k,value\n1,1.0\n2,0.5\n"
    assert parquet.read_table(tmp_path / "r" / "results.parquet").to_pylist() == [
        {"k": 1, "value": 1.0}, {"k": 2, "value": 0.5},
    ]  # fmt: skip


def test_a_plan_reads_tables_by_their_columns(run, tmp_path, inlier, outlier):
    for name, outputs in (("test", inlier), ("far", outlier)):
        lines = [",".join(f"z_{i}" for i in range(outputs.logits.shape[1])) + ",y"]
        lines += [",".join(map(repr, row)) + f",{i % 2}" for i, row in enumerate(outputs.logits.tolist())]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "p.toml").write_text(
        'resamples = 10\nscores = ["msp"]\n[sources.net]\n'
        'inlier = {path = "test.csv", keys = {logits = "z_*", labels = "y"}, rows = ":100"}\n'
        '[sources.net.outliers]\nfar = {path = "far.csv", keys = {logits = "z_*"}}\n'
    )
    code, _, err = run("study", tmp_path / "p.toml", "--out", tmp_path / "r")
    assert code == 0, err
    rows = list(StudyResults.read(tmp_path / "r").rows())
    assert {row["outlier"] for row in rows} >= {"far"}


def test_a_dry_run_lists_the_cells_and_computes_nothing(run, plan, tmp_path):
    code, out, _ = run("study", plan, "--out", tmp_path / "r", "--dry-run")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()[:3]] == ["k=0", "k=1", "k=2"]
    assert "3 cells, 0 of them done." in out
    assert not (tmp_path / "r").exists()
    run("study", plan, "--out", tmp_path / "r")
    out = run("study", plan, "--out", tmp_path / "r", "--dry-run")[1]
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["failed", "done", "done"]


def test_what_is_left_out_is_said(run, tmp_path, files):
    (tmp_path / "p.toml").write_text(
        'resamples = 10\nscores = ["msp", "vim"]\nprojections = ["none", "global"]\n'
        '[sources.net]\ntrain = "train.npz"\ninlier = "test.npz"\n[sources.net.outliers]\nfar = "far.npz"'
    )
    code, out, _ = run("study", tmp_path / "p.toml", "--out", tmp_path / "r")
    assert code == 0
    assert "No global projection exists of vim." in out


@pytest.mark.parametrize(
    ("text", "said"),
    [("titel = 'x'", "unknown key 'titel'"), (PLAN.replace("one", "two"), None), ("[task]", "task.run is missing"),
     (PLAN.replace("run.py", "gone.py"), "gone.py does not exist")],
)  # fmt: skip
def test_a_wrong_plan_exits_with_2_and_one_sentence(run, plan, tmp_path, text, said):
    plan.write_text(text)
    code, _, err = run("study", plan, "--out", tmp_path / "r")
    if said is None:  # the file is there, the function is not: every cell says so
        assert code == 1
        assert "has no function 'two'" in err
        return
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_a_folder_of_something_else_exits_with_2(run, plan, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    code, _, err = run("study", plan, "--out", tmp_path / "mine")
    assert code == 2
    assert "is not a study" in err


def test_stopping_by_hand_exits_with_130_and_says_how_to_go_on(run, plan, tmp_path, monkeypatch):
    import caveat_lab.experiments

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(caveat_lab.experiments, "run", stopped)
    code, out, _ = run("study", plan, "--out", tmp_path / "r")
    assert code == 130
    assert "rerun the command" in out


def test_the_folder_is_named_after_the_plan():
    assert default_folder(Path("/x/usps/plan.toml")) == Path("runs/usps")
    assert default_folder(Path("/x/resnet.toml")) == Path("runs/resnet")
