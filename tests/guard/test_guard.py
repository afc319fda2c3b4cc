"""The guard: gates in their order, reasons, roles, combination, batches, and error messages."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, NotFittedError, Outputs, evaluate
from caveat.conformal import SplitSets, conditional_p_values, p_values, select_outliers, threshold_for
from caveat.evaluation.records import Scores
from caveat.guard import Guard, Verdicts
from caveat.scores import KNN, make


def test_the_gates_stop_in_their_order(calibration, stream):
    guard = Guard("energy", risk=0.1, delta=0.1).calibrate(calibration)
    verdicts = guard(stream)
    energy, doubt = make("energy").rounded(stream), make("msp").rounded(stream)
    sizes = SplitSets("lac", alpha=0.1).calibrate(calibration).predict(stream).sizes
    threshold = threshold_for(make("energy").rounded(calibration), 0.05, 0.1)
    out = energy >= threshold
    assert guard.threshold_ == threshold
    assert (verdicts.kind == "outlier").tolist() == out.tolist()
    assert (verdicts.kind == "abstain").tolist() == (~out & ((doubt >= guard.accept_below_) | (sizes == 0))).tolist()
    assert sum(verdicts.counts.values()) == len(verdicts) == stream.n


def test_p_values_are_those_of_the_library(calibration, stream):
    guard = Guard("energy").calibrate(calibration)
    held, score = make("energy").rounded(calibration), make("energy").rounded(stream)
    verdicts = guard(stream)
    assert verdicts.p_values.tolist() == p_values(calibration=held, test=score).tolist()
    assert verdicts.conditional_p_values.tolist() == conditional_p_values(calibration=held, test=score).tolist()


def test_each_row_has_a_reason(calibration):
    guard = Guard("energy", risk=0.1).calibrate(calibration)
    rows = Outputs(logits=[[9.0, 0.0, 0.0], [0.2, 0.1, 0.0], [1.9, 1.8, 0.0]])
    verdicts = guard(rows)
    assert verdicts.kind[:2].tolist() == ["accept", "outlier"]
    assert "Possible classes: 0" in verdicts.reasons[0]
    assert "at or above the threshold" in verdicts.reasons[1]
    for i, kind in enumerate(verdicts.kind):
        assert verdicts.rows()[i]["kind"] == kind
        assert verdicts.rows()[i]["reason"] == verdicts.reasons[i]
    frame = pytest.importorskip("pandas") and verdicts.to_frame()
    assert frame["kind"].tolist() == verdicts.kind.tolist()
    assert "outlier" in verdicts._repr_html_()


def test_a_range_of_verdicts_is_that_of_its_rows(calibration, stream):
    verdicts = Guard("energy", risk=0.2).calibrate(calibration)(stream)
    ids = [f"row-{i}" for i in range(len(verdicts))]
    part = verdicts[3:7]
    assert part.rows() == verdicts.rows()[3:7]
    assert part.rows(ids[3:7]) == [{"id": key, **row} for key, row in zip(ids[3:7], part.rows(), strict=True)]
    assert part.reasons == verdicts.reasons[3:7]


@pytest.mark.parametrize("sets", ["dense", "sparse", None])
def test_joined_verdicts_are_those_of_all_rows(calibration, stream, sets):
    verdicts = Guard("energy", sets=sets and "lac", risk=0.2).calibrate(calibration)(stream)
    if sets == "sparse":
        verdicts = replace(verdicts, sets=replace(verdicts.sets, member=verdicts.sets.to_csr()))
    whole = Verdicts.joined([verdicts[:1], verdicts[1:300], verdicts[300:]])
    assert whole.rows() == verdicts.rows()
    assert whole.doubt.tobytes() == verdicts.doubt.tobytes()
    assert (whole.sets is None) == (sets is None)
    if sets:
        assert type(whole.sets.member) is type(verdicts.sets.member)
        assert (whole.sets.to_dense() == verdicts.sets.to_dense()).all()
    assert Verdicts.joined([verdicts]) is verdicts


def test_an_empty_set_abstains(calibration):
    guard = Guard("energy", sets="lac", alpha=0.3).calibrate(calibration)
    flat = Outputs(logits=[[8.0, 8.0, 8.0]])  # much evidence, no class
    verdicts = guard(flat)
    assert verdicts.kind.tolist() == ["abstain"]
    assert "empty" in verdicts.reasons[0]


def test_too_few_rows_promise_nothing_and_say_so(draw):
    rows = draw(np.random.default_rng(3), 20)
    with pytest.warns(CaveatWarning, match="Nothing can be promised") as seen:
        guard = Guard("energy", risk=0.05).calibrate(rows)
    assert len(seen) == 2
    alarms, errors, coverage = guard.promises
    assert not alarms.holds
    assert "calibration rows" in str(alarms)
    assert not errors.holds
    assert coverage.holds
    assert guard.threshold_ == math.inf
    assert guard.accept_below_ == -math.inf
    verdicts = guard(rows)
    assert not verdicts.accepted.any()  # no error rate is promised, so nothing is answered
    assert "nothing is accepted" in verdicts.reasons[0]


def test_a_guard_learns_nothing_for_class_scores(draw):
    rng = np.random.default_rng(4)
    train, held = draw(rng, 300, features=True), draw(rng, 200, features=True)
    guard = Guard("mahalanobis", confidence="mahalanobis", risk=0.2).fit(train)
    for score in (*guard.scores_, guard.confidence_):
        assert score.class_axes_ is None
        assert score.score(held).tolist() == make("mahalanobis").fit(train).score(held).tolist()


def test_scores_that_learn_are_fitted_and_rows_have_one_role(draw):
    rng = np.random.default_rng(4)
    train, held = draw(rng, 300, features=True), draw(rng, 200, features=True)
    guard = Guard(["mahalanobis", KNN(k=5), "energy"]).fit(train)
    with pytest.raises(InputError, match="same 300 rows"):
        guard.calibrate(train)
    both = np.concatenate([train.features[:10], held.features[10:]])
    some = Outputs(features=both, labels=held.labels, head=held.head)
    with pytest.warns(CaveatWarning, match="share"):
        guard.calibrate(some)
    guard.calibrate(held)
    assert guard.splits_["train"]["n"] == 300
    assert set(guard.splits_["calibration"]["sha256"]) == {"features", "labels", "head_weight", "head_bias"}


def test_two_guards_can_share_a_score_object(draw):
    rng, knn = np.random.default_rng(8), KNN(k=5)
    train, held, rows = (draw(rng, 200, features=True) for _ in range(3))
    guard = Guard(knn).fit(train).calibrate(held)
    before = guard(rows).score
    Guard(knn).fit(draw(rng, 200, features=True))
    assert guard(rows).score.tolist() == before.tolist()


def test_scores_that_were_fitted_again_must_be_calibrated_again(draw):
    rng = np.random.default_rng(7)
    train, held, other = (draw(rng, 200, features=True) for _ in range(3))
    guard = Guard("mahalanobis").fit(train).calibrate(held)
    guard.fit(other)
    with pytest.raises(NotFittedError, match="calibrate"):
        guard(held)


@pytest.mark.parametrize("combine", ["fisher", "min"])
def test_several_scores_are_one_statistic_calibrated_on_rows_of_its_own(combine, draw):
    rng = np.random.default_rng(5)
    guard = Guard(["energy", "msp", "entropy"], combine=combine, delta=0.1)
    shares = []
    for _ in range(60):
        guard.calibrate(draw(rng, 400), seed=1)
        assert guard.calibration_scores_.size == 200
        shares.append((guard(draw(rng, 2000)).kind == "outlier").mean())
    assert np.mean(np.array(shares) > 0.05 + 0.01) < 0.1 + 4 * math.sqrt(0.09 / 60)
    far = guard(Outputs(logits=[[0.1, 0.0, 0.1]]))
    assert far.kind.tolist() == ["outlier"]


def test_a_temperature_learns_on_rows_that_do_not_calibrate(calibration):
    guard = Guard("tempscale").calibrate(calibration)
    assert guard.calibration_scores_.size < calibration.n


def test_a_batch_selects_outliers_with_fdr_control(calibration, stream):
    guard = Guard("energy").calibrate(calibration)
    odd = Outputs(logits=np.concatenate([stream.logits, np.random.default_rng(6).normal(size=(60, 3)) * 0.1 - 4]))
    verdicts = guard(odd, fdr=0.1)
    assert (verdicts.kind == "outlier").tolist() == select_outliers(verdicts.p_values, 0.1).tolist()
    assert (verdicts.kind[-60:] == "outlier").all()
    assert "false discovery rate" in verdicts.reasons[-1]


def test_wrong_calls_get_one_sentence(calibration, stream):
    with pytest.raises(NotFittedError, match="calibrate"):
        Guard("energy")(stream)
    with pytest.raises(NotFittedError, match="fit"):
        Guard("mahalanobis").calibrate(Outputs(features=np.ones((50, 2)), logits=np.eye(2)[[0] * 50], labels=[0] * 50))
    with pytest.raises(InputError, match="labels"):
        Guard("energy").calibrate(Outputs(logits=calibration.logits))
    Guard("energy", sets=None).calibrate(Outputs(logits=calibration.logits))
    for wrong in (
        {"score": []},
        {"score": "enrgy"},
        {"sets": "lacc"},
        {"false_alarm": 2},
        {"risk": 0},
        {"combine": "x"},
    ):
        with pytest.raises(InputError):
            Guard(**wrong)
    with pytest.raises(InputError):
        Guard("energy").calibrate(calibration)(np.ones((3, 3)))


def test_the_fingerprint_names_settings_and_data(calibration, stream):
    first, same = (Guard("energy").calibrate(calibration, date="2026-01-01") for _ in range(2))
    other = Guard("energy", alpha=0.2).calibrate(calibration, date="2026-01-01")
    assert first.fingerprint == same.fingerprint != other.fingerprint
    assert first.fingerprint != Guard("energy").calibrate(stream, date="2026-01-01").fingerprint


def test_an_evaluation_builds_the_guard_that_its_decision_names(draw):
    rng = np.random.default_rng(7)
    train, held, inlier = (draw(rng, n, features=True) for n in (300, 500, 400))
    outlier = Outputs(features=rng.normal(size=(200, 8)) * 2, head=train.head)
    chosen = ["mahalanobis", KNN(k=7), "energy", "tempscale", "msp"]
    result = evaluate(inlier=inlier, outliers={"odd": outlier}, train=train, calibration=held, scores=chosen)
    guard = result.guard(train, held)
    decision = result.decision
    assert guard.threshold_ == decision.threshold
    assert guard.promises[0].bound == decision.false_alarms.bound
    assert guard.scores_[0].name == decision.method.score
    assert guard.confidence_.name == decision.confidence.score
    verdicts = guard(inlier)
    assert (verdicts.kind == "outlier").mean() == decision.measured_false_alarms.value
    assert guard.accept_below_ == decision.accept_below
    assert verdicts.accepted.mean() == decision.accepted.value
    assert (~inlier.correct[verdicts.accepted]).mean() == decision.measured_errors.value
    assert (decision.sets.empty > 0) == (verdicts.sets.sizes == 0).any()


@pytest.mark.parametrize("scores", [["tempscale"], ["energy", "tempscale"], ["msp", "energy", "max_logit_pnorm"]])
@pytest.mark.parametrize("tune", [False, True])
def test_decision_and_guard_have_the_same_thresholds_and_accept_the_same_rows(draw, scores, tune):
    rng = np.random.default_rng(11)
    held, inlier = draw(rng, 800), draw(rng, 600)
    odd = Outputs(logits=rng.normal(size=(200, 3)))
    result = evaluate(calibration=held, inlier=inlier, outliers={"odd": odd}, scores=scores, tune=tune, risk=0.1,
                      alpha=0.3)  # fmt: skip
    guard, decision = result.guard(None, held), result.decision
    assert decision.errors.holds
    assert (guard.threshold_, guard.accept_below_) == (decision.threshold, decision.accept_below)
    assert [(p.bound, p.n) for p in guard.promises] == [(p.bound, p.n) for p in decision.promises]
    verdicts = guard(inlier)
    assert verdicts.accepted.sum() == round(decision.accepted.value * inlier.n)
    assert (verdicts.sets.sizes == 0).any()


@pytest.mark.parametrize("given", ["calibration", "split"])
def test_a_guard_from_an_evaluation_accepts_nothing_where_the_error_rate_cannot_be_promised(draw, given):
    rng = np.random.default_rng(12)
    held, inlier = draw(rng, 600), draw(rng, 600)
    apart = {"calibration": held} if given == "calibration" else {}
    result = evaluate(inlier=inlier, scores=["entropy", "msp"], risk=0.001, **apart)
    decision = result.decision
    assert not decision.errors.holds
    with pytest.warns(CaveatWarning, match="Nothing can be promised about errors among the accepted"):
        guard = result.guard(None, held)
    with pytest.warns(CaveatWarning):
        fitted = Guard(decision.method.score, confidence=decision.confidence.score, risk=0.001).calibrate(held)
    assert guard.accept_below_ == fitted.accept_below_ == -np.inf
    assert guard(inlier).counts["accept"] == fitted(inlier).counts["accept"] == 0
    assert (decision.accepted.value, decision.measured_errors, decision.accept_below) == (0, None, -np.inf)
    assert "nothing is accepted" in str(decision)
    assert 0 < decision.ungated_errors.value < 1


def test_a_score_object_keeps_its_parameters_in_the_decision(draw):
    rng = np.random.default_rng(8)
    train, inlier = draw(rng, 300, features=True), draw(rng, 400, features=True)
    result = evaluate(inlier=inlier, train=train, scores=[KNN(k=3), KNN(k=30)], risk=0.2)
    assert {str(record.method) for record in result.of(Scores)} == {"knn(k=3)", "knn(k=30)"}
    assert result.guard(train, draw(rng, 300, features=True)).scores_[0].k in (3, 30)


def test_verdicts_from_scores_take_what_an_array_is_made_of():
    guard = Guard("energy", sets=None).calibrate(Outputs(logits=np.random.default_rng(0).normal(size=(300, 3))))
    whole = guard.decide(score=np.array([-5.0, 3.0, np.inf]))
    assert guard.decide(score=[-5.0, 3.0, float("inf")]).kind.tolist() == whole.kind.tolist()
    for score, words in (([], "non-empty vector"), ([[1.0]], "vector"), ([np.nan], "NaN"), (["a"], "real numbers")):
        with pytest.raises(InputError, match=f"score.*{words}"):
            guard.decide(score=score)
    with pytest.raises(InputError, match="score.*doubt|doubt.*score"):
        guard.decide(score=[1.0, 2.0], doubt=[0.5])


@pytest.mark.parametrize("score", [None, 3, []])
def test_a_guard_without_a_score_is_refused(score):
    with pytest.raises(InputError, match="score must be a list with at least one entry"):
        Guard(score)


def test_verdicts_without_sets_have_no_lists_of_labels():
    guard = Guard("energy", sets=None).calibrate(Outputs(logits=np.random.default_rng(0).normal(size=(300, 3))))
    with pytest.raises(InputError, match="no prediction sets"):
        guard(Outputs(logits=np.zeros((2, 3)))).label_lists()


def test_the_reasons_of_all_rows_are_those_of_each():
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=900)
    outputs = Outputs(logits=3 * np.eye(3)[labels] + rng.normal(size=(900, 3)), labels=labels, class_names=list("abc"))
    for sets in ("lac", None):
        guard = Guard("energy", sets=sets, risk=0.1).calibrate(outputs[:600])
        verdicts = guard(outputs[600:])
        assert set(verdicts.kind.tolist()) == {"accept", "abstain", "outlier"}
        assert [row["reason"] for row in verdicts.rows()] == [verdicts.reason(i) for i in range(len(verdicts))]
