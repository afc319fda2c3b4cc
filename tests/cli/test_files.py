"""``--key`` and ``--rows``: the same in every command that reads a file of outputs."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import typer

from caveat import Head, InputError, Outputs
from caveat.cli._files import Reading, head_of
from caveat.cli.app import app

READERS = ("evaluate", "threshold", "compare", "proximity", "guard fit", "guard predict", "guard check")


@pytest.fixture
def tables(files):
    """The outputs of ``files`` as CSV under other names, unlabeled for the outliers."""
    for name in ("train", "test", "far"):
        outputs = Outputs.load(files / f"{name}.npz")
        columns = {f"z{i + 1}": column for i, column in enumerate(outputs.logits.T)}
        columns |= {f"feat_{i}": column for i, column in enumerate(outputs.features.T)}
        columns |= {} if outputs.labels is None else {"y": outputs.labels}
        with (files / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return files


KEYS = ("--key", "logits=z*", "--key", "features=feat_*", "--key", "labels=y")


@pytest.mark.parametrize("name", READERS)
def test_every_command_that_reads_outputs_has_both_options(name):
    command = typer.main.get_command(app)
    for part in name.split():
        command = command.commands[part]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--key", "--rows"} <= options


def test_evaluate_decides_from_tables_as_from_arrays(run, tables):
    results = {}
    for suffix, keys in ((".npz", ()), (".csv", KEYS)):
        words = [part for role, name in (("train", "train"), ("test", "test"), ("outlier", "far"))
                 for part in (f"--{role}", tables / f"{name}{suffix}")]  # fmt: skip
        code, out, err = run(
            "evaluate", *words, *keys, "--scores", "msp,mahalanobis", "--out", tables / "r", "--json", "-"
        )
        assert (code, err) == (0, "")
        results[suffix] = json.loads(out)
    assert results[".csv"]["decision"] == results[".npz"]["decision"]
    assert results[".csv"]["ranking"] == results[".npz"]["ranking"]


def test_roles_and_sets_have_keys_and_rows_of_their_own(run, files):
    test, far = Outputs.load(files / "test.npz"), Outputs.load(files / "far.npz")
    np.savez(files / "all.npz", z_test=test.logits, y_test=test.labels, z_far=far.logits)
    code, out, err = run(
        "evaluate", "--test", files / "all.npz", "--outlier", f"far={files / 'all.npz'}", "--scores", "msp",
        "--key", "test:logits=z_test", "--key", "labels=y_test", "--key", "outlier:logits=z_far",
        "--key", "far:labels=", "--rows", "test=0:100", "--rows", "far=::2", "--out", files / "r", "--json", "-",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert json.loads(out)["accuracy"]["n"] in (50, 100)  # without calibration rows, half of the test rows calibrates
    with (files / "r" / "results.csv").open(newline="", encoding="utf-8") as stream:
        assert {row["outlier"] for row in csv.DictReader(stream)} >= {"far"}


def test_threshold_and_guard_read_tables_and_rows(run, tables):
    expected = run("threshold", tables / "test.npz", "--score", "mahalanobis", "--train", tables / "train.npz")[1]
    words = ["--score", "mahalanobis", "--train", tables / "train.csv", *KEYS]
    assert run("threshold", tables / "test.csv", *words)[1].split("(")[0] == expected.split("(")[0]
    assert "n = 80 " in run("threshold", tables / "test.csv", *words, "--rows", "calibration=:80")[1]
    assert run("guard", "fit", tables / "g", "--calibration", tables / "test.csv", *words, "--rows", "0:100")[0] == 0
    code, out, _ = run("guard", "predict", tables / "g", tables / "far.csv", *KEYS[:4], "--rows", "10:40")
    assert (code, out.splitlines()[0].partition(" ")[0]) == (0, "30")
    code, out, _ = run(
        "guard", "check", tables / "g", tables / "test.csv", *KEYS, "--rows", "100:", "--out", tables / "c"
    )
    assert out.startswith("50 rows")
    assert code in (0, 3)


def test_verdicts_are_always_csv_too(run, tables):
    pytest.importorskip("pyarrow")
    run("guard", "fit", tables / "g", "--calibration", tables / "test.npz")
    for name in ("a.json", "b.parquet"):
        assert run("guard", "predict", tables / "g", tables / "far.npz", "--out", tables / name)[0] == 0
    assert (tables / "a.csv").read_bytes() == (tables / "b.csv").read_bytes()
    assert len((tables / "a.csv").read_text(encoding="utf-8").splitlines()) == 121


def test_compare_reads_tables_of_two_models_and_a_table_of_results_takes_no_keys(run, tables):
    expected = run("compare", f"a={tables / 'test.npz'}", f"b={tables / 'test.npz'}")
    same = run("compare", f"a={tables / 'test.csv'}", f"b={tables / 'test.csv'}", *KEYS)
    assert same == expected
    mixed = run("compare", f"a={tables / 'test.csv'}", f"b={tables / 'test.npz'}", "--key", "a:logits=z*",
                "--key", "a:labels=y", "--key", "a:features=feat_*")  # fmt: skip
    assert mixed == expected
    code, _, err = run("compare", tables / "test.csv", *KEYS)
    assert (code, "--key is for outputs" in err) == (2, True)


def test_proximity_reads_tables(run, tables):
    words = ["--inlier", tables / "train.csv", "--outlier", tables / "far.csv", "--key", "features=feat_*"]
    code, out, _ = run("proximity", *words, "--rows", "outlier=:60")
    assert code == 0
    assert " 60 " in out


@pytest.mark.parametrize(("words", "key_words"), [
    (["--key", "labels"], "--key must be FIELD=NAME"),
    (["--key", "=y"], "--key must be FIELD=NAME"),
    (["--key", "label=y"], "unknown field in --key 'label'. Did you mean 'labels'"),
    (["--key", "tset:labels=y"], "unknown role in --key 'tset'. Did you mean 'test'"),
    (["--key", "labels=y", "--key", "labels=z"], "labels twice"),
    (["--key", "labels=y"], "has no array 'y'. It has features"),
    (["--rows", "5"], "--rows must be a slice"),
    (["--rows", "train=:5"], "unknown role in --rows 'train'"),
    (["--rows", ":5", "--rows", ":6"], "two slices for all files"),
    (["--rows", "999:"], "keep none of its 150 samples"),
])  # fmt: skip
def test_wrong_options_are_one_sentence(run, files, words, key_words):
    code, _, err = run("evaluate", "--test", files / "test.npz", *words, "--out", files / "r")
    assert code == 2
    assert key_words in err
    assert err.count("\n") == 1


def test_a_set_counts_before_its_role_and_a_role_before_all():
    reading = Reading.of(["labels=a", "outlier:labels=b", "far:labels=c", "logits=z", "layer.a:b=x"],
                         [":1", "outlier=:2", "far=:3"], ["test", "outlier", "far"])  # fmt: skip
    common = {"logits": "z", "layer.a:b": "x"}
    assert reading.of_file("test") == ({"labels": "a"} | common, ":1")
    assert reading.of_file("outlier", "near") == ({"labels": "b"} | common, ":2")
    assert reading.of_file("outlier", "far") == ({"labels": "c"} | common, ":3")


def test_by_row_ranges_only_untouched_files_stay_paths(files):
    path = files / "test.npz"
    assert Reading().source(path) is path
    assert Reading.of(None, [":7"]).source(path).n == 7


def test_a_head_by_the_names_of_a_network(tmp_path):
    np.savez(tmp_path / "net.npz", **{"fc.weight": np.ones((2, 3)), "fc.bias": np.zeros(2), "conv": np.ones(3)})
    assert isinstance(head_of(tmp_path / "net.npz", ["head_weight=fc.weight", "head_bias=fc.bias"]), Head)
    assert head_of(None, None) is None
    with pytest.raises(InputError, match="Give the file: --head"):
        head_of(None, ["head_weight=fc.weight"])
