from __future__ import annotations

import csv
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from caveat import Outputs


@pytest.fixture
def table(tmp_path):
    """A long table as another benchmark would write it: two metrics, two regimes, three scores."""
    rng = np.random.default_rng(0)
    path = tmp_path / "results.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["dataset", "seed", "bucket", "score", "metric", "value"])
        for dataset in range(4):
            for seed in range(3):
                for bucket in ("near", "far"):
                    for score, level in (("msp", 1.0), ("energy", 1.05), ("knn", 3.0 if bucket == "near" else 0.0)):
                        noise = rng.normal() * 0.3
                        writer.writerow([f"d{dataset}", seed, bucket, score, "augrc", level + noise])
                        writer.writerow([f"d{dataset}", seed, bucket, score, "auroc", -level - noise])
    return path


LONG = ("--block", "dataset,seed", "--method", "score", "--value", "value")


def test_long_table(run, table):
    code, out, _ = run("compare", table, *LONG, "--where", "metric=augrc", "--where", "bucket=near")
    assert code == 0
    assert "3 methods in 12 blocks: Friedman" in out
    layers = [line.split("│")[1:4] for line in out.splitlines() if line.startswith("│")]
    assert [(layer.strip(), name.strip()) for layer, name, _ in layers][-1] == ("2", "knn")


def test_the_direction_follows_from_the_metric_and_is_printed(run, table):
    # auroc is minus augrc in this table, so that the two comparisons are the same
    lower = run("compare", table, *LONG, "--where", "metric=augrc", "--where", "bucket=near")[1]
    higher = run("compare", table, *LONG, "--where", "metric=auroc", "--where", "bucket=near")[1]
    assert lower.startswith("Lower is better for augrc.\n")
    assert higher.startswith("Higher is better for auroc.\n")
    assert lower.splitlines()[1:] == higher.splitlines()[1:]


def test_the_name_of_the_value_column_is_the_metric(run, tmp_path):
    path = tmp_path / "long.csv"
    rows = [f"s{i},{name},{value}" for i in range(6) for name, value in (("good", 0.9), ("poor", 0.6))]
    path.write_text("set,score,AUROC\n" + "\n".join(rows), encoding="utf-8")
    code, out, _ = run("compare", path, "--block", "set", "--method", "score", "--value", "AUROC")
    assert code == 0
    assert "Higher is better for AUROC." in out
    assert out.index("good") < out.index("poor")
    _, out, _ = run("compare", path, "--block", "set", "--method", "score", "--value", "AUROC", "--lower-is-better")
    assert "Lower is better for AUROC." in out  # what a person says counts
    assert out.index("poor") < out.index("good")


def test_an_unknown_direction_is_asked_for_and_never_guessed(run, tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("set,a,b\n" + "".join(f"s{i},{i},{i + 1}\n" for i in range(6)), encoding="utf-8")
    code, out, err = run("compare", path, "--block", "set")
    assert code == 2
    assert "--higher-is-better or --lower-is-better" in err
    assert out == ""


def test_a_person_at_a_terminal_is_asked(run, tmp_path, monkeypatch):
    path = tmp_path / "wide.csv"
    path.write_text("set,a,b\n" + "".join(f"s{i},{i},{i + 1}\n" for i in range(6)), encoding="utf-8")
    asked = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda question: asked.append(question) or True)
    code, out, _ = run("compare", path, "--block", "set")
    assert code == 0
    assert "higher value" in asked[0]
    assert "Higher is better." in out


def test_regimes_and_files(run, table, tmp_path):
    out = tmp_path / "figures"
    code, text, _ = run("compare", table, *LONG, "--where", "metric=augrc", "--regime", "bucket", "--out", out)
    assert code == 0
    assert text.count("3 methods in 12 blocks") == 2
    assert sorted(path.name for path in out.iterdir()) == [
        "far.md", "far.tex", "far_cd.svg", "far_cliques.svg", "near.md", "near.tex", "near_cd.svg", "near_cliques.svg",
        "regimes.svg",
    ]  # fmt: skip
    assert "| 1 | knn |" in (out / "far.md").read_text(encoding="utf-8")
    assert (out / "regimes.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_without_matplotlib_the_tables_are_written(run, table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, text, _ = run("compare", table, *LONG, "--where", "metric=augrc", "--where", "bucket=near", "--out", tmp_path)
    assert code == 0
    assert "needs the extra 'plots'" in " ".join(text.split())
    assert sorted(path.name for path in tmp_path.glob("comparison*")) == ["comparison.md", "comparison.tex"]


def test_wide_table(run, tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("set,a,b\n" + "".join(f"s{i},{i},{i + 1}\n" for i in range(6)), encoding="utf-8")
    code, out, _ = run("compare", path, "--block", "set", "--posthoc", "wilcoxon", "--lower-is-better")
    assert code == 0
    assert "2 methods in 6 blocks" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lower-is-better",), "name its block, method and value columns"),
        ((*LONG, "--lower-is-better"), "Add the column that tells them apart"),
        ((*LONG, "--where", "metric"), "--where must be column=value, got metric"),
        ((*LONG, "--where", "metrc=augrc"), "unknown column 'metrc'. Did you mean 'metric'"),
        ((*LONG, "--posthoc", "dunn"), "unknown --posthoc 'dunn'. Known: conover, nemenyi, wilcoxon"),
        ((*LONG, "--where", "metric=augrc", "--regime", "x"), "unknown column 'x'"),
    ],
)
def test_a_bad_call_is_one_sentence_and_code_2(run, table, options, message):
    code, _, err = run("compare", table, *options)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


def test_methods_that_differ_in_brackets_are_two_methods(run, tmp_path):
    (tmp_path / "wide.csv").write_text("knn[bold],knn[k=5],msp[/x]\n" + "1,2,3\n" * 8)
    code, out, _ = run("compare", tmp_path / "wide.csv", "--higher-is-better")
    assert code == 0
    for name in ("knn[bold]", "knn[k=5]", "msp[/x]"):
        assert name in out


@pytest.fixture
def models(tmp_path):
    """Three models on the same rows, and what they say about the same outliers."""
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=600)
    for name, strength in (("weak", 1.0), ("good", 3.0), ("fine", 3.05)):
        Outputs(logits=strength * np.eye(3)[labels] + rng.normal(size=(600, 3)), labels=labels).save(
            tmp_path / f"{name}.npz"
        )
        Outputs(logits=rng.normal(size=(100, 3))).save(tmp_path / f"{name}_far.npz")
    return tmp_path


def test_two_models(run, models):
    code, out, _ = run("compare", models / "weak.npz", models / "good.npz")
    assert code == 0
    assert "good is better in accuracy" in out
    assert "600 rows, Holm over 4 questions" in out


def test_two_models_with_outliers_and_files(run, models):
    far = ["--outlier", f"weak={models / 'weak_far.npz'}", "--outlier", f"new={models / 'good_far.npz'}"]
    folder = models / "tables"
    code, out, _ = run(
        "compare", models / "weak.npz", f"new={models / 'good.npz'}", *far, "--score", "energy", "--out", folder
    )
    assert code == 0
    assert "Holm over 5 questions" in out
    assert "| auroc |" in (folder / "models.md").read_text(encoding="utf-8")


def test_three_models_are_ranked(run, models):
    code, out, _ = run("compare", *(models / f"{name}.npz" for name in ("weak", "good", "fine")), "--out", models / "t")
    assert code == 0
    assert "3 models on the same samples, 3 pairs: McNemar, Holm" in out
    assert (models / "t" / "augrc.md").read_text(encoding="utf-8").startswith("| rank | model | value | groups |")
    assert r"\begin{tabular}" in (models / "t" / "accuracy.tex").read_text(encoding="utf-8")


def test_files_with_the_same_stem_are_told_apart(run, models):
    for name in ("weak", "good"):
        (models / name).mkdir()
        (models / f"{name}.npz").rename(models / name / "test.npz")
    code, out, _ = run("compare", models / "weak" / "test.npz", models / "good" / "test.npz")
    assert code == 0
    assert "good/test.npz is better in accuracy" in out


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (("weak",), (), "at least two files of outputs"),
        (("weak", "good"), ("--block", "seed"), "--block is for a table"),
        (("weak", "good"), ("--outlier", "x=far.npz"), "--outlier must be model=path for each of weak, good"),
        (("weak", "weak"), (), "two models are called"),
        (("weak", "weak_far"), (), "weak_far.correct, which is None"),
    ],
)
def test_a_bad_call_with_models_is_one_sentence_and_code_2(run, models, files, options, message):
    code, _, err = run("compare", *(models / f"{name}.npz" for name in files), *options)
    assert code == 2
    assert message in err
    assert "Traceback" not in err
