from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from caveat import Outputs
from caveat_lab import data
from caveat_lab.cli.certify import show_certificates
from caveat_lab.experiments.certification import Certification, SetCertificate

pytest.importorskip("torch")
pytest.importorskip("safetensors")

PLAN = """
[data]
name = "digits"
test = 0.2
[model]
name = "xs"
[paradigm]
name = "good"
kappa = 0.1
[training]
epochs = 4
batch_size = 50
learning_rate = 2e-3
outliers = ["uniform", "permuted"]
[outputs]
sets = ["test"]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from caveat_lab.experiments.train_plan import TrainPlan
    from caveat_lab.experiments.training import run_training

    folder = tmp_path_factory.mktemp("models")
    (folder / "plan.toml").write_text(PLAN)
    run_training(TrainPlan.read(folder / "plan.toml"), folder / "certified", progress=False)
    return folder / "certified"


def test_a_trained_folder_is_certified(run, model, tmp_path):
    images = data.digits()
    np.savez(tmp_path / "turned.npz", x=images.pixels[:40, ::-1].astype(np.float32), y=images.labels[:40])
    flipped = f"flipped={tmp_path}/turned.npz"
    code, out, err = run(
        "certify", model, "--data", "digits", "--outlier", "uniform_noise", "--outlier", flipped,
        "--epsilon", 0.1, "--points", 30, "--steps", 5, "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    assert "certified: radius 0.1" in out
    assert "uniform_noise" in out
    with (tmp_path / "out" / "certificates.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for name in ("uniform_noise", "flipped"):
        found = {row["metric"]: float(row["value"]) for row in rows if row["outlier"] == name}
        assert found["gauc"] <= found["aauc"] <= found["auc"]
        assert {row["n"] for row in rows if row["outlier"] == name and row["metric"] == "gauc"} == {"30"}
    assert "### certified, accuracy" in (tmp_path / "out" / "certificates.md").read_text(encoding="utf-8")
    page = (tmp_path / "out" / "certificates.html").read_text(encoding="utf-8")
    assert "certified: flipped" in page


@pytest.mark.parametrize(("arithmetic", "sentence"), [
    ("model", "Certificates are of the model as it is deployed, in float32. Rounding takes"),
    ("float64", "Certificates are of nn.in_float64(model): deploy that network. Rounding takes"),
    ("real", "Certificates are of the network in real numbers, as in the papers: the rounding of a deployed model"),
])  # fmt: skip
def test_certificates_name_their_arithmetic_on_the_terminal_and_on_the_page(run, model, tmp_path, arithmetic, sentence):
    code, out, err = run(
        "certify", model, "--data", "digits", "--outlier", "uniform_noise", "--epsilon", 0.001, "--points", 20,
        "--steps", 0, "--out", tmp_path / "out", *([] if arithmetic == "model" else ["--arithmetic", arithmetic]),
    )  # fmt: skip
    assert code == 0, err
    assert sentence in " ".join(out.split())
    page = (tmp_path / "out" / "certificates.html").read_text(encoding="utf-8")
    assert sentence in page
    with (tmp_path / "out" / "certificates.csv").open(newline="") as stream:
        found = {row["metric"]: float(row["value"]) for row in csv.DictReader(stream)}
    assert found["slack"] == 0 if arithmetic == "real" else 0 < found["slack"] < 1e-3


def test_an_unknown_arithmetic_is_named(run, model, tmp_path):
    code, _, err = run("certify", model, "--data", "digits", "--arithmetic", "float63", "--out", tmp_path / "out")
    assert code != 0
    assert "Did you mean 'float64'" in err


def test_the_attack_can_be_set(run, model, tmp_path):
    code, out, err = run(
        "certify", model, "--data", "digits", "--outlier", "permuted", "--epsilon", 0.1, "--points", 30,
        "--attack-points", 10, "--attack", "apgd", "--steps", 3, "--monotone-steps", 4, "--restarts", 2,
        "--start", "small", "--start", "toward_id", "--transfer", model, "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    assert "AAUC is of the attacked outliers alone" in out.replace("\n", " ")
    with (tmp_path / "out" / "certificates.csv").open(newline="") as stream:
        sizes = {row["metric"]: row["n"] for row in csv.DictReader(stream) if row["outlier"] == "permuted"}
    assert (sizes["auc"], sizes["gauc"], sizes["aauc"]) == ("30", "30", "10")
    page = (tmp_path / "out" / "certificates.html").read_text(encoding="utf-8")
    assert "All on the same samples" not in page


def test_every_setting_of_the_attack_is_explained(run):
    code, out, _ = run("certify", "--help")
    assert code == 0
    for option in ("--attack-points", "--steps", "--monotone-steps", "--restarts", "--start", "--transfer", "--attack"):
        line = next(line for line in out.splitlines() if f"{option} " in line)
        assert len(line.split(option)[1].split()) > 4
    for word in ("toward_id", "contrast", "apgd", "monotone"):
        assert word in out


def test_without_an_attack_it_writes_into_the_model(run, model):
    code, out, _ = run("certify", model, "--data", "digits", "--points", 10, "--steps", 0)
    assert code == 0
    assert "smooth_noise" in out
    assert (model / "certificates" / "certificates.html").exists()


def accuracy(folder):
    with (folder / "certificates.csv").open(newline="") as stream:
        return next(
            (float(row["value"]), int(row["n"])) for row in csv.DictReader(stream) if row["metric"] == "accuracy"
        )


def test_rows_that_were_trained_on_are_left_out(run, model, tmp_path):
    # digits has no split for tests: the plan kept a fifth of its 1,797 rows, and their outputs are in the folder.
    images = data.digits()
    said = Outputs.load(model / "outputs" / "test")
    how = ("--outlier", "uniform_noise", "--points", 5, "--steps", 0, "--epsilon", 0.1)
    assert run("certify", model, "--data", "digits", *how, "--out", tmp_path / "same")[0] == 0
    assert accuracy(tmp_path / "same") == (pytest.approx(said.correct.mean()), 359)
    np.savez(tmp_path / "some.npz", x=images.pixels[:40], y=images.labels[:40])
    assert run("certify", model, "--data", tmp_path / "some.npz", *how, "--out", tmp_path / "other")[0] == 0
    assert accuracy(tmp_path / "other")[1] == 40  # another file is taken as it is


def test_a_plan_without_a_test_set_is_warned_of(run, model, tmp_path):
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("model.json", "model.safetensors"):
        (alone / name).write_bytes((model / name).read_bytes())
    plan = json.loads((model / "plan.json").read_text(encoding="utf-8"))
    (alone / "plan.json").write_text(json.dumps(plan | {"test": None}), encoding="utf-8")
    how = ("--outlier", "uniform_noise", "--points", 5, "--steps", 0, "--epsilon", 0.1)
    code, _, err = run("certify", alone, "--data", "digits", *how)
    assert code == 0
    assert "the guaranteed band does not hold" in err.replace("\n", " ")
    assert accuracy(alone / "certificates")[1] == 1797
    (alone / "plan.json").write_text(json.dumps(plan | {"test": None, "train": plan["train"] | {"limit": 1500}}))
    assert run("certify", alone, "--data", "digits", *how)[0] == 0
    assert accuracy(alone / "certificates")[1] == 297


def test_what_cannot_be_certified_is_said_in_one_sentence(run, model, tmp_path):
    code, _, err = run("certify", tmp_path, "--data", "digits")
    assert code == 2
    assert "model.json does not exist" in err.replace("\n", " ")
    code, _, err = run("certify", model, "--data", "digit")
    assert code == 2
    assert "Did you mean 'digits'" in err
    code, _, err = run("certify", model, "--data", "digits", "--outlier", "permuted", "--outlier", "permuted")
    assert code == 2
    assert "two outlier sets are called 'permuted'" in err
    code, _, err = run("certify", model, "--data", "digits", "--epsilon", -1)
    assert code == 2
    assert "epsilon must be a finite number, at least 0" in err
    code, _, err = run("certify", model, "--data", "digits", "--start", "pont", "--points", 5)
    assert code == 2
    assert "Did you mean 'point'" in err
    code, _, err = run("certify", model, "--data", "digits", "--transfer", tmp_path / "no")
    assert code == 2
    assert "does not exist" in err


def test_the_terminal_rounds_no_number_to_an_end_and_no_promise_up(capsys, monkeypatch):
    # One of 20 outliers ties with the least of 500 inliers and all else is told apart: AUC 1 - 0.5 / 10000.
    inlier = np.linspace(-0.5, -0.1, 500)
    outlier = np.r_[np.full(19, -2.0), inlier[0]]
    found = Certification("net", 0.3, 10, inlier, 0.9999, (SetCertificate("noise", clean=outlier, upper=outlier),))
    monkeypatch.setenv("COLUMNS", "100")
    show_certificates(found)
    out = capsys.readouterr().out
    assert "accuracy >99.9 %" in out
    line = next(line for line in out.splitlines() if "noise" in line).split()
    assert line[1:4] == [">99.9", "–", ">99.9"]
    promised = 100 * found.band(found.sets[0]).lower
    assert promised - 0.1 < float(line[5]) <= promised
