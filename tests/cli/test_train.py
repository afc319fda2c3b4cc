from __future__ import annotations

import shlex

import pytest

pytest.importorskip("torch")

PLAN = """
[data]
name = "digits"
test = 0.3
[model]
name = "small_cnn"
width = 4
[training]
epochs = 6
learning_rate = 0.01
[outputs.outliers]
noise = {made = "uniform_noise", n = 30}
"""


def test_a_plan_becomes_a_model_that_can_be_evaluated(tmp_path, run):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    code, out, _ = run("train", str(plan), "--out", str(tmp_path / "my model"))
    assert code == 0
    assert "small_cnn by cross_entropy: 6 epochs in" in out
    assert (tmp_path / "my model" / "model.safetensors").exists()
    command = shlex.split(out[out.index("caveat evaluate") :])[1:]
    code, out, _ = run(*command, "--out", str(tmp_path / "report"), "--scores", "msp,energy")
    assert code == 0
    assert (tmp_path / "report" / "report.html").exists()


def test_what_chose_the_epoch_is_not_offered_for_calibration(tmp_path, run):
    plan = tmp_path / "plan.toml"
    text = PLAN.replace("epochs = 6", "epochs = 2")
    for name, more in (("all", ""), ("best", 'early_stopping = {monitor = "loss", patience = 1}\n')):
        plan.write_text(text.replace("[outputs", f"{more}[outputs"), encoding="utf-8")
        out = run("train", str(plan), "--out", str(tmp_path / name))[1]
        assert ("--calibration" in out) == (not more)
        assert "--test" in out


def test_a_wrong_key_ends_with_one_sentence(tmp_path, run):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("epochs", "epoch"), encoding="utf-8")
    code, _, err = run("train", str(plan), "--out", str(tmp_path / "model"))
    assert code == 2
    assert "unknown key 'training.epoch'" in err


def test_a_model_can_be_trained_further(tmp_path, run):
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN, encoding="utf-8")
    assert run("train", plan, "--out", tmp_path / "first")[0] == 0
    plan.write_text(PLAN.replace("epochs = 6", "epochs = 1").replace("0.01", "1e-9"), encoding="utf-8")
    code, out, err = run("train", plan, "--out", tmp_path / "second", "--start", tmp_path / "first")
    assert code == 0, err
    accuracy = float(out.split("validation accuracy ")[1].split(",")[0])
    assert accuracy > 0.8  # one epoch at this rate learns nothing
    code, _, err = run("train", plan, "--out", tmp_path / "third", "--start", tmp_path / "model.pt")
    assert code == 2
    assert "not read: convert" in err.replace("\n", " ")
