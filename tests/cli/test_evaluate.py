from __future__ import annotations

import datetime
import hashlib
import html
import json
import pickle
import re
import shlex

import numpy as np
import pytest

from caveat import Outputs, evaluate


def usual(files, **changes):
    options = {"--train": files / "train.npz", "--test": files / "test.npz", "--outlier": files / "far.npz"} | {
        f"--{key}": value for key, value in changes.items()
    }
    return [part for option in options.items() for part in option]


def test_writes_a_table_and_a_report_and_prints_the_decision_in_25_lines(run, files):
    code, out, _ = run("evaluate", *usual(files), "--out", files / "results")
    assert code == 0
    found = {p.suffix for p in (files / "results").iterdir()}
    assert {".html", ".md", ".tex"} < found
    assert ".csv" in found
    assert str(files / "results" / "results.csv") in out
    for text in ("Accuracy", "Reject when", "Measured", "Caught: far", "report.html", "share a letter"):
        assert text in out
    assert len(out.splitlines()) <= 25
    page = (files / "results" / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("msp", "energy", "react", "kpca_error"))


def test_only_the_named_scores_and_named_outliers(run, files):
    code, out, _ = run(
        "evaluate",
        *usual(files),
        "--outlier",
        f"other={files / 'far.npz'}",
        "--scores",
        "msp, knn",
        "--out",
        files / "r",
    )
    assert code == 0
    (caught,) = [line for line in out.splitlines() if line.strip().startswith("Caught:")]
    assert "far " in caught
    assert "other " in caught
    assert "energy" not in out


def test_json_for_machines_goes_to_a_file_or_alone_to_standard_output(run, files):
    code, out, _ = run("evaluate", *usual(files), "--scores", "msp,knn", "--out", files / "r", "--json", "-")
    assert code == 0
    found = json.loads(out)
    assert found["decision"]["score"] in ("msp", "knn")
    assert {row["score"] for row in found["ranking"]} == {"msp", "knn"}
    assert 0 < found["accuracy"]["value"] < 1
    code, out, _ = run(
        "evaluate", *usual(files), "--scores", "msp,knn", "--out", files / "r", "--json", files / "d.json"
    )
    assert "Reject when" in out
    assert json.loads((files / "d.json").read_text(encoding="utf-8")) == found


def test_without_outliers_the_choice_is_made_for_errors(run, files):
    code, out, _ = run("evaluate", "--train", files / "train.npz", "--test", files / "test.npz", "--out", files / "r")
    assert code == 0
    assert "no outliers were given" in out
    assert "Caught" not in out


def test_other_outliers_confirm_the_decision(run, files):
    said = Outputs.load(files / "far.npz")
    said[slice(0, said.n // 2)].save(files / "one.npz")
    said[slice(said.n // 2, said.n)].save(files / "two.npz")
    changes = {"outlier": files / "one.npz", "confirm": f"new={files / 'two.npz'}", "regime": "one=far"}
    code, out, _ = run("evaluate", *usual(files, **changes), "--scores", "msp,knn", "--out", files / "r", "--json", "-")
    assert code == 0
    caught = {c["outlier"]: (c["regime"], c["confirmed"]) for c in json.loads(out)["decision"]["caught"]}
    assert caught == {"one": ("far", False), "new": ("", True)}
    code, _, err = run("evaluate", *usual(files), "--regime", "nowhere=near", "--out", files / "r")
    assert code == 2
    assert "name of an outlier set" in err


def test_scores_that_cannot_be_computed_are_named(run, files):
    code, out, _ = run("evaluate", "--test", files / "test.npz", "--outlier", files / "far.npz", "--out", files / "r")
    assert code == 0
    (line,) = [line for line in out.splitlines() if "left out" in line]
    (learners,) = [part for part in line.split("). ") if part.endswith("(needs training outputs")]
    assert "knn" in learners
    assert "mahalanobis" in learners


def broken(kind, files):
    path = files / "bad.npz"
    good = np.load(files / "test.npz")
    arrays = dict(good)
    if kind == "nan":
        arrays["logits"] = arrays["logits"].copy()
        arrays["logits"][7, 1] = np.nan
    elif kind == "inf":
        arrays["features"] = arrays["features"].copy()
        arrays["features"][3, 0] = np.inf
    elif kind == "shape":
        arrays["logits"] = arrays["logits"][:, :, None]
    elif kind == "rows":
        arrays["labels"] = arrays["labels"][:-1]
    elif kind == "labels":
        arrays["labels"] = arrays["labels"].copy()
        arrays["labels"][5] = 4
    elif kind == "empty":
        arrays = {key: value[:0] if value.shape[0] == 150 else value for key, value in arrays.items()}
    elif kind == "classes":
        arrays = {"logits": np.zeros((9, 7))}
    np.savez(path, **arrays)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:500])
    elif kind == "pickle":
        np.savez(path, logits=np.array([{}], dtype=object))
    elif kind == "bare pickle":
        path.write_bytes(pickle.dumps({"logits": 1}))
    elif kind == "absent":
        path.unlink()
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nan", "logits has NaN, first at row 7. Drop or impute"),
        ("inf", "features has an infinite value, first at row 3"),
        ("shape", "logits must be a non-empty matrix (rows are samples), got shape ("),
        ("rows", "same number of rows"),
        ("labels", "labels must be between 0 and 3, got 4 at row 5"),
        ("empty", "must be a non-empty"),
        ("classes", "must come from one model, got 4 classes in train and 7 in inlier"),
        ("truncated", "damaged or not an .npz file"),
        ("pickle", "pickled objects, which can run code and are never read"),
        ("bare pickle", "pickled objects"),
        ("absent", "does not exist. Check the path"),
    ],
)
def test_bad_files_end_with_one_sentence_and_leave_nothing_behind(run, files, kind, message):
    code, out, err = run("evaluate", *usual(files, test=broken(kind, files)), "--out", files / "results")
    assert code == 2
    assert message in err
    assert err.startswith("error: ")
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in out + err
    assert not (files / "results").exists()


def test_one_sample_a_side_still_works(run, files):
    said = Outputs.load(files / "test.npz")
    said[0].save(files / "one.npz")
    said[1].save(files / "other.npz")
    code, _, err = run(
        "evaluate", *usual(files, test=files / "one.npz", outlier=files / "other.npz"), "--out", files / "r"
    )
    assert code == 0, err


def test_accuracy_and_the_verdict_on_coverage_are_printed(run, files):
    code, out, _ = run("evaluate", *usual(files), "--scores", "msp", "--out", files / "r")
    assert code == 0
    (line,) = [line for line in out.splitlines() if line.startswith("Accuracy ")]
    assert re.search(r"Accuracy [\d.]+\s% .* on 75 test samples", line)  # a random half calibrates
    assert "as chance allows" in out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "test.npz"}, "train and inlier are the same 150 rows"),
        ({"outlier": "test.npz"}, "inlier and outlier set 'test' are the same 150 rows"),
        ({"calibration": "test.npz"}, "calibration and inlier are the same 150 rows"),
        ({"calibration": "train.npz"}, "train and calibration are the same 240 rows"),
        ({"calibration": "part.npz"}, "calibration and inlier share 100 of 100 rows"),
    ],
)
def test_the_same_rows_in_two_roles_end_with_one_sentence(run, files, changes, message):
    Outputs.load(files / "test.npz")[20:120].save(files / "part.npz")
    changes = {role: files / name for role, name in changes.items()}
    code, _, err = run("evaluate", *usual(files, **changes), "--scores", "msp", "--out", files / "r")
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_labels_from_one_and_probabilities_as_logits_are_notes(run, files):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=200)
    logits = 8 * np.eye(4)[labels] + rng.normal(size=(200, 4))
    np.savez(files / "shifted.npz", logits=logits, labels=labels + 1)
    np.savez(files / "probs.npz", logits=Outputs(logits=rng.normal(size=(80, 4))).probs)
    args = ("evaluate", "--test", files / "shifted.npz", "--outlier", files / "probs.npz", "--scores", "msp")
    code, out, err = run(*args, "--out", files / "r")
    assert code == 0
    assert "Do labels start at 1" in err
    assert "logits are rows of probabilities" in err
    assert "Accuracy 0.0\xa0%" in out
    code, _, err = run("evaluate", "--explain", files / "shifted.npz")
    assert "Do labels start at 1" in err


def test_what_is_asked_beside_a_score_does_not_change_its_numbers(run, files):
    def printed(scores):
        _, out, _ = run("evaluate", *usual(files), "--scores", scores, "--out", files / "r")
        return [line for line in out.splitlines() if line.startswith("Accuracy") or "Measured" in line]

    assert printed("msp") == printed("msp,energy")


def test_a_class_without_a_sample_is_named(run, files):
    said = Outputs.load(files / "train.npz")
    said[said.labels != 2].save(files / "gap.npz")
    code, _, err = run("evaluate", *usual(files, train=files / "gap.npz"), "--out", files / "r")
    assert code == 2
    assert "labels has no sample of class 2" in err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--scores", "mahalanobi"], "unknown score 'mahalanobi'. Did you mean 'mahalanobis'?"),
        (["--alpha", "2"], "alpha must be strictly between 0 and 1, got 2.0"),
        (["--outlier", "far.npz"], "two outlier sets are called 'far'"),
    ],
)
def test_bad_options_end_with_one_sentence(run, files, args, message):
    code, _, err = run("evaluate", *usual(files), *args, "--out", files / "r")
    assert code == 2
    assert message in err


def test_missing_options_show_how_it_is_done(run, files):
    code, _, err = run("evaluate", "--outlier", files / "far.npz")
    assert code == 2
    assert "needs --test. Try: caveat evaluate --train" in err


def test_unknown_keys_are_a_note_not_an_error(run, files):
    arrays = dict(np.load(files / "test.npz"))
    np.savez(files / "more.npz", **arrays, extra=np.zeros(3))
    code, _, err = run("evaluate", *usual(files, test=files / "more.npz"), "--out", files / "r")
    assert code == 0
    assert "note:" in err
    assert "ignored unknown keys extra" in err


def test_a_folder_that_cannot_be_is_said_before_anything_is_computed(run, files, monkeypatch):
    import caveat.evaluation

    monkeypatch.setattr(caveat.evaluation, "evaluate", lambda **given: pytest.fail("the work was done first"))
    code, _, err = run("evaluate", *usual(files), "--out", files / "far.npz" / "results")
    assert code == 2
    assert err == f"error: {files / 'far.npz'} is a file. Choose a folder for the results.\n"


def test_tune_prints_and_stores_the_settings(run, files):
    code, out, _ = run("evaluate", *usual(files), "--scores", "gen", "--tune", "--out", files / "r")
    assert code == 0
    assert re.search(r"Settings of gen, chosen on rows that set no\s+threshold: temperature = ", out)
    assert "tuned_gamma" in (files / "r" / "results.csv").read_text(encoding="utf-8")
    code, out, _ = run("evaluate", *usual(files), "--scores", "gen", "--tune", "--out", files / "r", "--json", "-")
    assert "gamma = " in json.loads(out)["settings"]["gen"]
    code, _, err = run("evaluate", *usual(files), "--scores", "gen", "--tune", "--workers", "2", "--out", files / "r")
    assert code == 2
    assert "--tune" in err


def test_text_labels_need_the_order_of_the_columns(tmp_path, run):
    names, rng = np.array(["plane", "car", "bird"]), np.random.default_rng(0)
    y = rng.integers(3, size=400)
    np.savez(tmp_path / "t.npz", logits=4 * np.eye(3)[y] + rng.normal(size=(400, 3)), labels=names[y])
    command = ["evaluate", "--test", tmp_path / "t.npz", "--scores", "msp", "--out", tmp_path / "out"]
    code, _, err = run(*command)
    assert code == 2
    assert "nothing says which of the 3 columns is which class" in err
    assert "--class-names" in err
    code, out, _ = run(*command, "--class-names", "plane, car, bird", "--json", "-")
    assert code == 0
    assert json.loads(out)["accuracy"]["value"] > 0.9  # sorted names would give less than one third
    code, _, err = run(*command, "--class-names", "plane,car,boat")
    assert (code, "one of the class names plane, car, boat" in err) == (2, True)


def test_without_labels_and_outliers_there_is_a_decision_as_in_python(run, tmp_path):
    rows = Outputs(logits=np.random.default_rng(0).normal(size=(400, 3)))
    rows.save(tmp_path / "rows.npz")
    code, out, err = run("evaluate", "--test", tmp_path / "rows.npz", "--scores", "msp", "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert str(evaluate(inlier=rows, scores=["msp"]).decision) in out
    assert (tmp_path / "out" / "results.csv").read_text(encoding="utf-8").startswith("model,seed,")
    assert (tmp_path / "out" / "report.html").exists()


def test_a_bare_array_and_an_empty_path_are_refused_with_the_remedy(run, files, tmp_path, monkeypatch):
    np.save(tmp_path / "plain.npy", np.eye(3))
    code, _, err = run("evaluate", "--test", files / "test.npz", "--calibration", tmp_path / "plain.npy")
    assert code == 2
    assert "np.savez('plain.npz', logits=array)" in err
    monkeypatch.chdir(tmp_path)
    for options in (["--test", "."], ["--test", ""], ["--test", files / "test.npz", "--outlier", "far="]):
        code, out, err = run("evaluate", *options)
        assert (code, out) == (2, "")
        assert "path" in err


def test_notes_of_files_and_of_roles_are_in_json_and_report(run, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.ones(3), size=500)
    labels = rows.argmax(axis=1)
    np.savez(tmp_path / "cal.npz", logits=rows[:300], labels=labels[:300])
    np.savez(tmp_path / "test.npz", logits=rows[280:], labels=labels[280:])
    code, _, err = run(
        "evaluate", "--calibration", tmp_path / "cal.npz", "--test", tmp_path / "test.npz", "--scores", "msp",
        "--out", tmp_path / "out", "--json", tmp_path / "d.json",
    )  # fmt: skip
    assert code == 0
    notes = json.loads((tmp_path / "d.json").read_text())["notes"]
    assert [sum(key in note for note in notes) for key in ("rows of probabilities", "share 20 of 220 rows")] == [1, 1]
    page = (tmp_path / "out" / "report.html").read_text()
    for note in notes:
        assert note in page
        assert note in err


def test_the_report_names_its_files_their_digests_the_day_and_the_command(run, files, tmp_path):
    arguments = [*usual(files), "--scores", "msp,energy", "--out", tmp_path / "out"]
    pages = []
    for _ in range(2):
        assert run("evaluate", *arguments)[0] == 0
        pages.append((tmp_path / "out" / "report.html").read_bytes())
    assert pages[0] == pages[1]
    page = html.unescape(pages[0].decode())
    for name, role in (("train", "train"), ("test", "test"), ("far", "outlier far")):
        assert hashlib.sha256((files / f"{name}.npz").read_bytes()).hexdigest()[:12] in page
        assert f">{role}<" in page
    command = shlex.join(["caveat", "evaluate", *map(str, arguments)])
    assert f"Measured on {datetime.date.today().isoformat()} by: {command}" in page
    assert "| test |" in (tmp_path / "out" / "tables.md").read_text()
