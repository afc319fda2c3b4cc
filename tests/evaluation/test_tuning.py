"""``tune=True``: settings come from rows that set no threshold, and every promise keeps its level."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from caveat import Guard, Head, InputError, Outputs, evaluate
from caveat.evaluation.parts import Parts, tuning_rows
from caveat.evaluation.records import Block, Data, Method, Scores, Tuning
from caveat.evaluation.tuning import as_tuned, choose_settings, own_values
from caveat.scores import GEN, KNN, Projected, Tempered, tune

WEIGHT = np.random.default_rng(1).normal(size=(4, 6))


def draw(rng, n, shift=0.0, labels=True):
    """Outputs of a network that is three times too sure: answers are drawn from the softmax at temperature 3."""
    features = rng.normal(size=(n, 6)) + shift
    logits = 3 * features @ WEIGHT.T
    noise = rng.gumbel(size=logits.shape)
    truth = np.argmax(logits / 3 + noise, axis=1) if labels else None
    return Outputs(features=features, logits=logits, labels=truth, head=Head(3 * WEIGHT))


@pytest.fixture(scope="module")
def parts():
    rng = np.random.default_rng(0)
    return {
        "train": draw(rng, 400), "calibration": draw(rng, 500), "inlier": draw(rng, 300),
        "outliers": {"far": draw(rng, 200, 2.0, labels=False)},
    }  # fmt: skip


@pytest.fixture(scope="module")
def evaluation(parts):
    return evaluate(**parts, scores=["gen", "renyi", "knn", "energy", "tempscale"], tune=True, seed=3)


def test_the_records_say_what_was_chosen(evaluation):
    chosen = {record.method.score: record for record in evaluation.of(Tuning)}
    assert set(chosen) == {"gen", "renyi", "knn", "energy", "tempscale"}
    assert dict(chosen["gen"].chosen)["temperature"] == pytest.approx(3, rel=0.3)  # as the data were drawn
    assert set(dict(chosen["gen"].chosen)) == {"temperature", "gamma", "top"}
    assert set(dict(chosen["knn"].chosen)) == {"k"}
    assert chosen["gen"].n == 100
    assert chosen["gen"].tried == 7
    rows = [row for row in evaluation.rows() if row["metric"] == "tuned_k"]
    assert [(row["method"], row["value"], row["n"]) for row in rows] == [("knn", dict(chosen["knn"].chosen)["k"], 100)]


def test_rows_that_chose_set_no_threshold(evaluation, parts):
    rows = tuning_rows(500, seed=3)
    assert {record.role: record.n for record in evaluation.of(Data)} == {
        "train": 400, "tuning": 100, "calibration": 400, "inlier": 300, "outlier": 200,
    }  # fmt: skip
    held = {r.method.score: r.values for r in evaluation.of(Scores) if r.role == "calibration"}
    assert {name: values.size for name, values in held.items()} == dict.fromkeys(held, 400)
    (record,) = [record for record in evaluation.of(Tuning) if record.method.score == "gen"]
    score = as_tuned(GEN(), record)
    np.testing.assert_array_equal(held["gen"], score.rounded(parts["calibration"][~rows]))
    again = tune(Tempered(GEN(), score.temperature), validation=parts["calibration"][rows])
    assert again.params["gamma"] == score.inner.gamma


def test_another_outlier_set_or_test_set_chooses_nothing_else(evaluation, parts):
    rng = np.random.default_rng(9)
    other = {**parts, "inlier": draw(rng, 300), "outliers": {"far": draw(rng, 50, -1.0, labels=False)}}
    again = evaluate(**other, scores=["gen", "renyi", "knn", "energy", "tempscale"], tune=True, seed=3)
    assert [record.chosen for record in again.of(Tuning)] == [record.chosen for record in evaluation.of(Tuning)]


def test_the_guard_has_the_settings_and_the_threshold_of_the_decision(parts, tmp_path):
    evaluation = evaluate(**parts, scores=["gen"], tune=True, seed=3, risk=0.9)
    guard = evaluation.guard(parts["train"], parts["calibration"])
    guard.save(tmp_path / "guard")
    again = Guard.load(tmp_path / "guard")
    (record,) = evaluation.of(Tuning)
    assert again.threshold_ == evaluation.decision.threshold
    assert again.scores_[0].temperature == dict(record.chosen)["temperature"]
    values = next(r.values for r in evaluation.of(Scores) if r.role == "inlier")
    verdicts = again(parts["inlier"])
    np.testing.assert_array_equal(np.asarray(verdicts.kind) == "outlier", values >= evaluation.decision.threshold)
    with pytest.raises(InputError, match="tuned temperature cannot be exported"):
        guard.export_onnx(tmp_path / "guard.onnx")


def test_parameters_that_the_user_gave_stay(parts):
    evaluation = evaluate(**parts, scores=[GEN(gamma=0.3), KNN(k=7)], tune=True)
    chosen = {record.method.score: dict(record.chosen) for record in evaluation.of(Tuning)}
    assert "gamma" not in chosen["gen"]
    assert chosen["knn"] == {}
    assert own_values(Projected(GEN(gamma=0.3), "global", variance=0.8)) == ["gamma", "variance"]


def test_tuning_needs_labels_and_held_out_rows(parts):
    unlabeled = Outputs(logits=parts["calibration"].logits)
    with pytest.raises(InputError, match="tuning needs labels"):
        evaluate(inlier=parts["inlier"], calibration=unlabeled, tune=True)
    with pytest.raises(InputError, match="tuning needs held-out inliers"):
        Parts(inlier=parts["inlier"]).with_tuning(0)
    with pytest.raises(InputError, match="no rows to tune on"):
        choose_settings(GEN(), Method("gen"), Parts(inlier=parts["inlier"]), Block("net"))


def test_without_calibration_rows_half_of_the_inliers_tunes_and_calibrates(parts):
    evaluation = evaluate(inlier=parts["inlier"], scores=["gen"], tune=True)
    assert {record.role: record.n for record in evaluation.of(Data)} == {
        "tuning": 30,
        "calibration": 120,
        "inlier": 150,
    }


def test_a_record_is_one_over_all_models():
    record = Tuning(Block("net"), Method("gen"), (("gamma", 0.9), ("percentile", None)), 0.04, 20)
    assert str(replace(record, block=Block("other")).method) == "gen"
    assert record.text == "gamma = 0.9, percentile = None"


@pytest.mark.slow
def test_thresholds_after_tuning_keep_their_promise():
    """False alarms among new inliers exceed the allowed share in at most delta of the draws, and are not far below.

    The threshold of n exchangeable scores leaves a Beta share above it; tuning on other rows changes nothing of that.
    """
    trials, false_alarm, delta = 300, 0.1, 0.2
    rng = np.random.default_rng(42)
    population = draw(rng, 20_000)
    train = draw(rng, 300)
    broken, shares = 0, []
    for seed in range(trials):
        result = evaluate(
            inlier=draw(rng, 20), calibration=draw(rng, 250), train=train, scores=["gen"], tune=True, seed=seed,
            false_alarm=false_alarm, delta=delta,
        )  # fmt: skip
        (record,) = result.of(Tuning)
        rate = float((as_tuned(GEN(), record).score(population) >= result.decision.threshold).mean())
        broken += rate > false_alarm
        shares.append(rate)
    assert result.decision.false_alarms.n == 200
    assert broken / trials <= delta + 4 * math.sqrt(delta * (1 - delta) / trials)
    assert 0.06 < np.mean(shares) < 0.1
