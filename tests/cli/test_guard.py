"""caveat guard: fit, info, predict, check and export, with their exit codes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from caveat import Outputs
from caveat.guard import Guard

pytestmark = pytest.mark.filterwarnings("ignore:Nothing can be promised")  # small calibration sets keep the tests quick


def draw(rng, n, spread=1.5):
    labels = rng.integers(3, size=n)
    return Outputs(logits=3 * np.eye(3)[labels] + spread * rng.normal(size=(n, 3)), labels=labels)


@pytest.fixture
def streams(tmp_path):
    rng = np.random.default_rng(5)
    for name, n, spread in (("held", 600, 1.5), ("quiet", 400, 1.5), ("later", 400, 1.5), ("drifted", 400, 3.0)):
        draw(rng, n, spread).save(tmp_path / f"{name}.npz")
    Guard("energy", risk=0.2).calibrate(Outputs.load(tmp_path / "held.npz"), date="2026-11-18").save(tmp_path / "guard")
    return tmp_path


def test_fit_saves_the_guard_of_the_library(run, files):
    code, out, _ = run(
        "guard", "fit", files / "g", "--calibration", files / "test.npz", "--train", files / "train.npz",
        "--score", "energy", "--score", "mahalanobis", "--sets", "none", "--risk", "0.3", "--combine", "min",
    )  # fmt: skip
    assert code == 0
    assert "energy + mahalanobis (min of p-values) >=" in out
    made = Guard.load(files / "g")
    train, held = (Outputs.load(files / f"{name}.npz") for name in ("train", "test"))
    same = Guard(["energy", "mahalanobis"], sets=None, risk=0.3, combine="min").fit(train).calibrate(held)
    assert made.threshold_ == same.threshold_
    assert made.promises == same.promises
    assert all(str(promise) in out for promise in made.promises)


def test_fit_names_what_is_missing(run, files):
    code, _, err = run("guard", "fit", files / "g", "--calibration", files / "test.npz", "--score", "mahalanobis")
    assert (code, "--train" in err) == (2, True)
    code, _, err = run("guard", "fit", files / "test.npz", "--calibration", files / "test.npz")
    assert (code, "is a file" in err) == (2, True)
    assert run("guard", "fit", files / "g")[0] == 2
    code, _, err = run("guard", "fit", files / "g", "--calibration", files / "test.npz", "--sets", "lacc")
    assert (code, "lac" in err) == (2, True)


def test_info_shows_settings_promises_day_data_and_fingerprint(run, streams):
    made = Guard.load(streams / "guard")
    code, out, _ = run("guard", "info", streams / "guard")
    assert code == 0
    digest = made.splits_["calibration"]["sha256"]["logits"][:12]
    for text in (made.fingerprint, "2026-11-18", "risk = 0.2", "600 rows", digest, str(made.promises[1])):
        assert text in out
    facts = json.loads(run("guard", "info", streams / "guard", "--json")[1])
    assert facts["fingerprint"] == made.fingerprint
    assert facts["settings"]["alpha"] == 0.1


def test_predict_writes_the_verdicts_of_the_library(run, streams):
    verdicts = Guard.load(streams / "guard")(Outputs.load(streams / "drifted.npz"))
    code, out, _ = run("guard", "predict", streams / "guard", streams / "drifted.npz")
    assert code == 0
    assert f"{verdicts.counts['outlier']:,} outlier" in out
    assert verdicts.reason(0) in out
    files = {suffix: streams / f"v.{suffix}" for suffix in ("csv", "json", "parquet")}
    for suffix, path in files.items():
        if suffix == "parquet":
            pytest.importorskip("pyarrow")
        assert run("guard", "predict", streams / "guard", streams / "drifted.npz", "--out", path)[0] == 0
    with files["csv"].open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["kind"] for row in rows] == verdicts.kind.tolist()
    assert [float(row["p_value"]) for row in rows] == verdicts.p_values.tolist()
    assert rows[7]["set"] == " ".join(map(str, verdicts.sets.labels(7)))
    expected = [{"row": i} | row for i, row in enumerate(verdicts.rows())]
    assert json.loads(files["json"].read_text(encoding="utf-8")) == expected
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(files["parquet"]).to_pylist() == expected


def test_predict_selects_a_batch_at_a_false_discovery_rate(run, streams):
    verdicts = Guard.load(streams / "guard")(Outputs.load(streams / "drifted.npz"), fdr=0.5)
    code, out, _ = run("guard", "predict", streams / "guard", streams / "drifted.npz", "--fdr", "0.5")
    assert (code, f"{verdicts.counts['outlier']:,} outlier" in out) == (0, True)
    code, _, err = run("guard", "predict", streams / "guard", streams / "drifted.npz", "--out", streams / "v.txt")
    assert (code, ".parquet" in err) == (2, True)


def test_check_ends_with_0_where_all_is_sound_and_3_on_drift(run, streams):
    code, out, _ = run("guard", "check", streams / "guard", streams / "quiet.npz", "--out", streams / "r")
    assert code == 0
    assert "Sound: no alarm." in out
    assert len(out.splitlines()) <= 20
    assert "Sound: no alarm." in (streams / "r" / "report.html").read_text(encoding="utf-8")
    code, out, _ = run("guard", "check", streams / "guard", streams / "drifted.npz", "--out", streams / "r")
    assert code == 3
    assert "Alarm: inputs at row" in out
    assert "less than chance allows" in out
    assert len(out.splitlines()) <= 20


def test_check_goes_on_over_files_with_a_state(run, streams):
    state = streams / "state"
    codes, outs = [], []
    for name in ("quiet", "later", "drifted", "quiet"):
        code, out, _ = run(
            "guard", "check", streams / "guard", streams / f"{name}.npz", "--state", state, "--out", streams / "r"
        )
        codes.append(code)
        outs.append(out)
    assert codes == [0, 0, 3, 3]
    assert "1,600 rows so far" in outs[-1]
    assert "(in an earlier file)" in outs[-1]
    code, _, err = run("guard", "check", streams / "guard", streams / "quiet.npz", "--state", state, "--alpha", "0.05")
    assert (code, "begun with --alpha 0.01" in err) == (2, True)
    Guard("msp").calibrate(Outputs.load(streams / "held.npz")).save(streams / "other")
    code, _, err = run("guard", "check", streams / "other", streams / "quiet.npz", "--state", state)
    assert (code, "another guard" in err) == (2, True)


def test_check_uses_its_alpha(run, streams):
    _, out, _ = run(
        "guard", "check", streams / "guard", streams / "quiet.npz", "--alpha", "0.3", "--out", streams / "r"
    )
    assert "alarm at 1.00" in out  # three alarms share 0.3


def test_bad_input_ends_with_2_and_a_sentence(run, streams):
    for args in (
        ("check", streams / "nowhere", streams / "quiet.npz"),
        ("check", streams / "guard", streams / "nowhere.npz"),
        ("check", streams / "guard", streams / "quiet.npz", "--alpha", "2"),
        ("info", streams / "held.npz"),
        ("predict", streams / "guard", streams / "guard"),
    ):
        code, _, err = run("guard", *args)
        assert code == 2
        assert err.startswith("error: ")
        assert "Traceback" not in err


def test_help_names_the_exit_codes(run):
    code, out, _ = run("guard", "check", "--help")
    assert code == 0
    assert "3: an alarm rang" in out


def test_export_writes_the_onnx_file(run, streams):
    pytest.importorskip("onnx")
    code, out, _ = run("guard", "export", streams / "guard", streams / "guard.onnx")
    assert code == 0
    assert "p_value" in out
    assert (streams / "guard.onnx").stat().st_size > 1000


def test_another_guard_is_replaced_only_with_force(run, streams):
    folder, quiet = streams / "g", streams / "quiet.npz"
    fit = ("guard", "fit", folder, "--calibration", streams / "held.npz")
    assert run(*fit)[0] == 0
    assert run(*fit)[0] == 0  # the same settings and data: nothing is lost
    page = (folder / "guard.json").read_bytes()
    for other in ((*fit, "--false-alarm", "0.1"), ("guard", "fit", folder, "--calibration", quiet)):
        code, _, err = run(*other)
        assert (code, "--force" in err) == (2, True)
        assert (folder / "guard.json").read_bytes() == page
    assert run(*fit, "--false-alarm", "0.1", "--force")[0] == 0
    assert Guard.load(folder).false_alarm == 0.1


def test_remedies_name_options(run, streams, tmp_path):
    Outputs(logits=Outputs.load(streams / "held.npz").logits).save(tmp_path / "plain.npz")
    code, _, err = run("guard", "fit", tmp_path / "g", "--calibration", tmp_path / "plain.npz")
    assert (code, "add --sets none" in err, "sets=None" in err) == (2, True, False)
    code, _, err = run("guard", "fit", tmp_path / "g", "--calibration", tmp_path / "plain.npz", "--sets", "none",
                       "--risk", "0.1")  # fmt: skip
    assert (code, "leave out --risk" in err) == (2, True)
    (tmp_path / "results").mkdir()
    code, _, err = run("guard", "predict", tmp_path / "results", tmp_path / "plain.npz")
    assert (code, "is not a guard" in err) == (2, True)
    code, _, err = run("evaluate", "--test", streams / "held.npz", "--scores", "mahalanobis", "--out", tmp_path / "r")
    assert (code, "--train FILE" in err, "train=" in err) == (2, True, False)


def test_no_threshold_is_said_in_words_and_a_rate_that_is_not_judged_has_no_check_mark(run, streams):
    held = Outputs.load(streams / "held.npz")
    held[:20].save(streams / "few.npz")
    code, out, _ = run("guard", "fit", streams / "few", "--calibration", streams / "few.npz", "--risk", "0.05")
    assert code == 0
    assert "rejects nothing" in out
    assert "abstains always" in out
    assert "inf" not in out
    _, out, _ = run("guard", "check", streams / "few", streams / "quiet.npz", "--out", streams / "c")
    judged = [line for line in out.splitlines() if "not judged" in line]
    assert len(judged) == 2
    assert all(line.startswith("  – ") for line in judged)
    Guard("energy").calibrate(held).save(streams / "no-risk")
    _, out, _ = run("guard", "check", streams / "no-risk", streams / "quiet.npz", "--out", streams / "c")
    assert [line[:4] for line in out.splitlines() if "not judged" in line] == ["  – "]
