"""A guard keeps the class names of its outputs: in verdicts, in its folder, and against outputs of other classes."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from caveat import Guard, InputError, Outputs
from caveat.cli.app import app
from caveat.guard.facts import guard_facts
from caveat.guard.replay import replay

NAMES = ("cat", "dog", "big bee")


def named(outputs, names=NAMES):
    return Outputs(logits=outputs.logits, labels=outputs.labels, class_names=names)


def test_verdicts_show_names_and_the_same_numbers(calibration, stream):
    plain = Guard("energy", risk=0.2).calibrate(calibration, date="2026-11-18")
    guard = Guard("energy", risk=0.2).calibrate(named(calibration), date="2026-11-18")
    verdicts, numbers = guard(named(stream)), plain(stream)
    assert guard.class_names_ == verdicts.class_names == verdicts.sets.class_names == NAMES
    for row, other, i in zip(verdicts.rows(), numbers.rows(), range(stream.n), strict=True):
        assert row["prediction_name"] == NAMES[other["prediction"]]
        assert row["set_names"] == [NAMES[c] for c in other["set"]] == verdicts.sets.names(i)
        assert [row[key] for key in ("kind", "score", "p_value", "set")] == [
            other[key] for key in ("kind", "score", "p_value", "set")
        ]
    accepted = int(np.flatnonzero(verdicts.accepted)[0])
    assert verdicts.reason(accepted).endswith(f"Possible classes: {', '.join(verdicts.sets.names(accepted))}.")
    assert "prediction_name" not in numbers.rows()[0]  # a guard without names answers as before
    assert guard(stream).rows() == verdicts.rows()  # outputs without names have the columns of the guard


def test_names_are_saved_and_part_of_the_fingerprint(calibration, stream, tmp_path):
    guard = Guard("energy").calibrate(named(calibration), date="2026-11-18")
    guard.save(tmp_path / "guard")
    back = Guard.load(tmp_path / "guard")
    assert back.class_names_ == NAMES
    assert back(stream).rows() == guard(stream).rows()
    assert guard_facts(back)["class_names"] == list(NAMES)
    other = Guard("energy").calibrate(named(calibration, ("cat", "dog", "cow")), date="2026-11-18")
    assert other.fingerprint != guard.fingerprint
    plain = Guard("energy").calibrate(calibration, date="2026-11-18")
    plain.save(tmp_path / "plain")
    page = json.loads((tmp_path / "plain" / "guard.json").read_text(encoding="utf-8"))
    assert "class_names" not in page  # earlier versions can read it
    assert Guard.load(tmp_path / "plain").class_names_ is None


def test_classes_in_another_order_get_the_same_verdicts(calibration, stream):
    guard = Guard("energy").calibrate(named(calibration))
    turned = named(stream).with_class_names(["dog", "big bee", "cat"])
    assert guard(turned).rows() == guard(named(stream)).rows()
    assert replay(guard, turned).measured == replay(guard, named(stream)).measured


def test_other_classes_are_an_error_that_names_them(calibration, stream):
    guard = Guard("energy").calibrate(named(calibration))
    with pytest.raises(InputError, match="the guard and outputs .* cow is only in outputs"):
        guard(named(stream, ("cat", "dog", "cow")))
    with pytest.raises(InputError, match="train and calibration .* is only in calibration"):
        Guard("energy").fit(named(stream, ("a", "b", "c"))).calibrate(named(calibration))
    sets = guard.sets_
    with pytest.raises(InputError, match="in this order as in calibration.*with_class_names"):
        sets.predict(named(stream).with_class_names(["dog", "cat", "big bee"]))


def test_labels_that_count_from_one_in_training_are_not_guessed_in_calibration(calibration, stream):
    train = Outputs(logits=stream.logits, labels=stream.labels + 1)
    part = calibration[calibration.labels < 2]
    unclear = Outputs(logits=part.logits, labels=part.labels + 1)  # 1 and 2: class numbers, or counted from 1
    with pytest.raises(InputError, match="calibration has class numbers, and train has class names"):
        Guard("energy").fit(train).calibrate(unclear)
    clear = Outputs(logits=part.logits, labels=part.labels + 1, class_names=[1, 2, 3])
    assert Guard("energy").fit(train).calibrate(clear).class_names_ == ("1", "2", "3")


# -- predictions with a confidence alone ------------------------------------------------------------------------------


def answers(seed, n, classes=("ant", "bee", "cat")):
    rng = np.random.default_rng(seed)
    y, sure = rng.integers(len(classes), size=n), rng.beta(6, 1, size=n)
    given = np.where(rng.random(n) < sure, y, (y + 1) % len(classes))
    return Outputs(predictions=np.array(classes)[given], confidence=sure, labels=np.array(classes)[y])


def test_a_guard_abstains_by_a_confidence_alone(tmp_path):
    guard = Guard("confidence", sets=None, risk=0.1, confidence="confidence").calibrate(answers(0, 1500))
    assert all(promise.holds for promise in guard.promises)
    guard.save(tmp_path / "guard")
    rows = answers(1, 4000)
    verdicts = Guard.load(tmp_path / "guard")(rows)
    # The promise holds with probability 0.95 over calibration rows; four standard deviations for these rows on top.
    accepted = verdicts.accepted
    wrong = 1 - rows.correct[accepted].mean()
    assert wrong < 0.1 + 4 * np.sqrt(0.1 * 0.9 / accepted.sum())
    abstained = int(np.flatnonzero(verdicts.kind == "abstain")[0])
    assert "the confidence is" in verdicts.reason(abstained)
    assert verdicts.rows()[0]["prediction_name"] == rows.class_names[rows.predictions[0]]
    some = answers(2, 50)
    few = some[some.predictions == 2]  # one class of three, named alone
    alone = Outputs(predictions=["cat"] * few.n, confidence=few.confidence)
    assert guard(alone).predictions.tolist() == [2] * few.n
    with pytest.raises(InputError, match="Guard with sets needs labels, and logits or probs"):
        Guard("confidence").calibrate(answers(0, 500))


def test_commands_work_with_a_confidence_alone(tmp_path):
    answers(0, 1500).save(tmp_path / "calibration.npz")
    answers(1, 600).save(tmp_path / "test.npz")
    run = CliRunner()

    def done(*arguments):
        result = run.invoke(app, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
        return result.output

    options = ("--score", "confidence", "--confidence", "confidence", "--risk", "0.1")
    said = json.loads(done("threshold", tmp_path / "calibration.npz", *options, "--json"))
    guard = Guard("confidence", sets=None, risk=0.1, confidence="confidence").calibrate(answers(0, 1500))
    assert (said["threshold"], said["accept_below"]) == (guard.threshold_, guard.accept_below_)
    done("guard", "fit", tmp_path / "guard", "--calibration", tmp_path / "calibration.npz", *options, "--sets", "none")
    done("guard", "predict", tmp_path / "guard", tmp_path / "test.npz", "--out", tmp_path / "verdicts.csv")
    with (tmp_path / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == guard(answers(1, 600)).kind.tolist()
    assert {row["prediction_name"] for row in rows} == {"ant", "bee", "cat"}
    assert "Classes: ant, bee, cat." in done("evaluate", "--explain", tmp_path / "test.npz")


def test_sets_in_a_file_of_verdicts_show_names(calibration, stream, tmp_path):
    guard = Guard("energy").calibrate(named(calibration))
    guard.save(tmp_path / "guard")
    stream.save(tmp_path / "rows.npz")
    result = CliRunner().invoke(app, ["guard", "predict", str(tmp_path / "guard"), str(tmp_path / "rows.npz"), "--out",
                                      str(tmp_path / "verdicts.csv")])  # fmt: skip
    assert result.exit_code == 0, result.output
    with (tmp_path / "verdicts.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["set_names"] for row in csv.DictReader(file)]
    assert texts == ["; ".join(guard(stream).sets.names(i)) for i in range(stream.n)]


def test_an_exported_guard_carries_its_names(calibration, tmp_path):
    onnx = pytest.importorskip("onnx")
    Guard("energy").calibrate(named(calibration)).export_onnx(tmp_path / "guard.onnx")
    properties = {entry.key: entry.value for entry in onnx.load(tmp_path / "guard.onnx").metadata_props}
    assert json.loads(properties["caveat.class_names"]) == list(NAMES)
