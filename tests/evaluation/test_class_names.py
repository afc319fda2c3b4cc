"""Class names change no number of an evaluation, and a confidence alone is enough for all that it can answer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from caveat import InputError, Outputs
from caveat.evaluation import evaluate
from caveat.evaluation.records import ClassFacts
from caveat.metrics import augrc, aurc, calibration, ece, reliability


def drawn(seed, n, classes, label=lambda y: y, **more):
    """Logits that are right most of the time, with labels as ``label`` writes them."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(classes), rng.integers(classes, size=n - classes)])
    return Outputs(logits=2.5 * np.eye(classes)[y] + rng.normal(size=(n, classes)), labels=label(y), **more)


def numbers(evaluation):
    """Every number, without the names of classes."""
    rows = [{key: value for key, value in row.items() if not row["metric"].startswith("class_") or key != "method"}
            for row in evaluation.rows()]  # fmt: skip
    return repr(rows), repr(evaluation.decision.to_dict())


KINDS = {
    "numbers from 1": lambda k: (lambda y: y + 1, {}),
    "sorted text": lambda k: (lambda y: [f"class {chr(97 + i)}" for i in y],
                              {"class_names": [f"class {chr(97 + i)}" for i in range(k)]}),
    "text in another order": lambda k: (lambda y: [f"{k - i}th" for i in y],
                                        {"class_names": [f"{k - i}th" for i in range(k)]}),
    "objects": lambda k: (lambda y: np.array([f"c{i}" for i in y], dtype=object),
                          {"class_names": [f"c{i}" for i in range(k)]}),
    "other numbers": lambda k: (lambda y: 100 * y - 7, {"class_names": 100 * np.arange(k) - 7}),
    "floats": lambda k: (lambda y: y.astype(np.float32), {}),
}  # fmt: skip


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(classes=st.integers(2, 6), kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 50))
def test_renaming_the_classes_changes_no_number(classes, kind, seed):
    def run(label, more):
        return evaluate(inlier=drawn(seed, 60, classes, label, **more),
                        calibration=drawn(seed + 100, 60, classes, label, **more),
                        outliers={"far": drawn(seed + 200, 30, classes, label, **more)},
                        train=drawn(seed + 300, 60, classes, label, **more), scores=["msp", "kl_matching"])  # fmt: skip

    assert numbers(run(*KINDS[kind](classes))) == numbers(run(lambda y: y, {}))


def test_booleans_and_one_column_are_the_same_evaluation():
    rng = np.random.default_rng(0)
    z = rng.normal(size=400) * 2
    y = rng.random(400) < 1 / (1 + np.exp(-z))
    one = evaluate(inlier=Outputs(logits=z, labels=y), scores=["msp", "energy"])
    two = evaluate(inlier=Outputs(logits=np.column_stack([0 * z, z]), labels=y.astype(int)), scores=["msp", "energy"])
    assert numbers(one) == numbers(two)


def test_parts_in_another_order_of_classes_are_aligned():
    parts = {
        role: drawn(seed, 90, 3, class_names=list("abc"))
        for seed, role in enumerate(("inlier", "calibration", "train"))
    }
    straight = evaluate(**parts, scores=["kl_matching"])
    turned = {role: outputs.with_class_names(list("cab")) if role == "inlier" else outputs
              for role, outputs in parts.items()}  # fmt: skip
    assert numbers(evaluate(**turned, scores=["kl_matching"])) == numbers(straight)


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        (drawn(1, 60, 3, class_names=["a", "b", "z"]), "must have the same classes, but c is only in inlier"),
        (Outputs(logits=np.random.default_rng(0).normal(size=(60, 3)), labels=[1, 2] * 30), None),
    ],
)
def test_classes_that_differ_are_an_error(calibration, message):
    if message is None:  # the inliers count from 1; without class 3 nobody can tell how these rows count
        with pytest.raises(InputError, match="calibration has class numbers, and inlier has class names"):
            evaluate(inlier=drawn(0, 60, 3, lambda y: y + 1), calibration=calibration, scores=["msp"])
    else:
        with pytest.raises(InputError, match=message):
            evaluate(inlier=drawn(0, 60, 3, class_names=["a", "b", "c"]), calibration=calibration, scores=["msp"])


def test_class_rows_by_hand():
    rows = Outputs(probs=[[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]] * 20, labels=["cat", "dog", "cat"] * 20,
                   class_names=["cat", "dog"])  # fmt: skip
    held = drawn(0, 50, 2, class_names=["cat", "dog"])
    held = Outputs(probs=held.probs, labels=held.labels, class_names=held.class_names)
    result = evaluate(inlier=rows, calibration=held, scores=["msp"])
    (facts,) = result.of(ClassFacts)
    assert (facts.names, facts.n.tolist(), facts.right.tolist()) == (("cat", "dog"), [40.0, 20.0], [40.0, 0.0])
    shares = {(row["method"], row["metric"]): row["value"] for row in result.rows() if row["metric"][:5] == "class"}
    assert shares["cat", "class_accuracy"] == 1.0
    assert shares["dog", "class_accuracy"] == 0.0
    covered = 40 * shares["cat", "class_coverage"] + 20 * shares["dog", "class_coverage"]
    assert covered / 60 == pytest.approx(result.decision.sets.coverage.value)


# -- predictions with a confidence alone ------------------------------------------------------------------------------


def answers(seed, n):
    """Top-1 answers of a calibrated model."""
    rng = np.random.default_rng(seed)
    y, sure = rng.integers(5, size=n), rng.beta(6, 1, size=n)
    given = np.where(rng.random(n) < sure, y, (y + 1) % 5)
    names = np.array(["ant", "bee", "cat", "dog", "elk"])
    return Outputs(predictions=names[given], confidence=sure, labels=names[y])


def test_a_confidence_alone_is_measured_and_decided():
    inlier = answers(1, 1500)
    result = evaluate(
        inlier=inlier, calibration=answers(2, 1500), outliers={"far": Outputs(confidence=np.arange(99) / 99)}
    )
    values = {(row["method"], row["outlier"], row["metric"]): row["value"] for row in result.rows()}
    score, correct = -inlier.confidence, inlier.correct
    assert values["confidence", "", "aurc"] == pytest.approx(aurc(score=score, correct=correct))
    assert values["confidence", "", "augrc"] == pytest.approx(augrc(score=score, correct=correct))
    assert values["", "", "ece"] == pytest.approx(ece(confidence=inlier.confidence, correct=correct))
    assert values["", "", "accuracy"] == pytest.approx(correct.mean())
    assert result.left_out["brier"] == result.left_out["prediction sets"] == "needs probs"
    decision = result.decision
    assert decision.errors.holds
    accepted = (score < decision.threshold) & (score < decision.accept_below)
    assert decision.accepted.value == pytest.approx(accepted.mean())
    guard = result.guard(None, answers(2, 1500))
    assert (guard.threshold_, guard.sets_) == (decision.threshold, None)
    np.testing.assert_array_equal(guard(inlier).accepted, accepted)


def test_a_confidence_that_is_no_probability_has_no_calibration_error():
    inlier = answers(1, 300)
    logs = Outputs(predictions=inlier.predictions, confidence=np.log(inlier.confidence), labels=inlier.labels)
    result = evaluate(inlier=logs)
    assert result.left_out["ece"] == "needs a confidence between 0 and 1"
    assert result.accuracy.value == pytest.approx(inlier.correct[result_rows(result, inlier)].mean())


def result_rows(result, inlier):
    """The half of the inliers that measured."""
    from caveat._internal.streams import stream

    return stream(result.settings.seed, "calibration split").permutation(inlier.n) >= inlier.n // 2


def test_predictions_without_a_confidence_allow_no_score():
    with pytest.raises(InputError, match="no score can be computed"):
        evaluate(inlier=Outputs(predictions=[0, 1] * 10, labels=[0, 1] * 10))


def test_the_calibration_error_of_a_confidence_is_that_of_the_probabilities():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4), size=300)
    labels = (rng.random((300, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=3)
    outputs = Outputs(probs=probs, labels=labels)
    pair = {"confidence": probs.max(axis=1), "correct": outputs.correct}
    assert ece(**pair) == ece(probs=probs, labels=labels)
    np.testing.assert_array_equal(reliability(**pair).count, reliability(probs=probs, labels=labels).count)
    alone = Outputs(predictions=outputs.predictions, confidence=pair["confidence"], labels=labels)
    found, whole = calibration(alone, rng=0), calibration(outputs, rng=0)
    assert (found.ece, found.brier, found.nll) == (whole.ece, None, None)
    for wrong in ({"probs": probs}, {**pair, "probs": probs, "labels": labels}, {"labels": labels}, {}):
        with pytest.raises(InputError, match="give probs and labels, or confidence and correct"):
            ece(**wrong)
    with pytest.raises(InputError, match="confidence must lie between 0 and 1"):
        ece(confidence=[1.5], correct=[True])
