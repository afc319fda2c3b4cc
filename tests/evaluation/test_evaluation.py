from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest

import caveat
from caveat import CaveatWarning, InputError, Outputs
from caveat.conformal import threshold_for
from caveat.evaluation import evaluate
from caveat.evaluation.parts import tuning_rows
from caveat.evaluation.records import Detection, Note, Scores, Selective, SetFacts
from caveat.metrics import auroc, conformal_auroc
from caveat.report import render_report


@pytest.fixture
def parts(make_outputs):
    def plain(outputs, labels=True):
        return Outputs(logits=outputs.logits, features=outputs.features, head=outputs.head,
                       labels=outputs.labels if labels else None)  # fmt: skip

    return {
        "train": plain(make_outputs(seed=1, n=300)), "calibration": plain(make_outputs(seed=4, n=200)),
        "inlier": plain(make_outputs(seed=2, n=220)),
        "outliers": {"near": plain(make_outputs(seed=3, n=90, shift=0.5), labels=False),
                     "far": plain(make_outputs(seed=5, n=80, shift=4.0), labels=False)},
    }  # fmt: skip


FEW = ["msp", "energy", "mahalanobis", "tempscale"]


def test_it_is_public(parts):
    assert caveat.evaluate is evaluate


def test_the_numbers_are_those_of_the_metrics(parts):
    found = evaluate(**parts, scores=["energy"])
    inside = found.of(Scores)[0].values
    outside = next(s.values for s in found.of(Scores) if s.role == "outlier" and s.block.outlier == "far")
    assert found.detection("energy", "far").auroc.value == auroc(inlier=inside, outlier=outside)
    assert found.detection("energy", "far").auroc_guaranteed == conformal_auroc(
        inlier=inside, outlier=outside, delta=0.05, method="betting", two_sided=True
    )


def test_one_score_alone_gives_the_same_numbers_as_with_others(parts):
    few = {key: value for key, value in parts.items() if key != "calibration"}  # the split is drawn too
    alone, among = evaluate(**few, scores=["msp"]), evaluate(**few, scores=FEW)
    for kind in (Detection, Selective):
        mine = [r for r in among.of(kind) if str(r.method) == "msp"]
        assert repr(list(alone.of(kind))) == repr(mine)  # NaN is not equal to itself
    assert [s.coverage for s in alone.of(SetFacts)] == [s.coverage for s in among.of(SetFacts)]


def test_the_threshold_comes_from_calibration_rows_alone(parts):
    found = evaluate(**parts, scores=FEW, false_alarm=0.1, delta=0.05)
    decision = found.decision
    held = next(s.values for s in found.of(Scores) if s.role == "calibration" and s.method == decision.method)
    assert decision.threshold == threshold_for(held, 0.1, 0.05)
    inside = next(s.values for s in found.of(Scores) if s.role == "inlier" and s.method == decision.method)
    assert decision.measured_false_alarms.value == pytest.approx(np.mean(inside >= decision.threshold))
    for caught in decision.caught:
        mine = [s for s in found.of(Scores) if s.role == "outlier" and s.method == decision.method]
        values = next(s.values for s in mine if s.block.outlier == caught.outlier)
        assert caught.share.value == pytest.approx(np.mean(values >= decision.threshold))


def test_rows_that_fitted_a_temperature_set_no_threshold_of_it(parts):
    found = evaluate(**parts, scores=["tempscale", "msp"])
    sizes = {str(s.method): s.values.size for s in found.of(Scores) if s.role == "calibration"}
    assert sizes == {"msp": 200, "tempscale": 200 - int(tuning_rows(200, 0).sum())}
    assert found.decision.errors is not None


def test_a_temperature_needs_no_training_outputs(parts):
    with_train = evaluate(**parts, scores=["tempscale"])
    del parts["train"]
    without = evaluate(**parts, scores=["tempscale"])
    assert [s.values.tolist() for s in without.of(Scores)] == [s.values.tolist() for s in with_train.of(Scores)]
    assert "tempscale" not in evaluate(**parts).left_out


def test_without_calibration_rows_the_inliers_are_split(parts):
    del parts["calibration"]
    found = evaluate(**parts, scores=["msp"])
    assert found.split
    assert {s.role: s.values.size for s in found.of(Scores) if not s.block.outlier} == {
        "inlier": 110,
        "calibration": 110,
    }


def test_without_outliers_it_ends_in_a_decision_too(parts):
    del parts["outliers"]
    found = evaluate(**parts, scores=FEW)
    assert found.ranking is None
    assert found.decision.false_alarms.holds
    assert found.decision.errors is not None
    assert "no outliers" in found.decision.reason
    assert found.accuracy.n == 220


def test_without_labels_only_the_false_alarms_are_promised(parts):
    for name in ("train", "calibration", "inlier"):
        outputs = parts[name]
        parts[name] = Outputs(logits=outputs.logits, features=outputs.features, head=outputs.head)
    found = evaluate(**parts, scores=["msp", "energy"])
    assert [promise.what for promise in found.decision.promises] == ["false alarms"]
    assert found.accuracy is None


def test_confirmed_shares_did_not_choose_the_score(parts, make_outputs):
    other = make_outputs(seed=11, n=70, shift=2.0)
    confirm = {"other": Outputs(logits=other.logits, features=other.features, head=other.head)}
    found = evaluate(**parts, confirm=confirm, scores=FEW)
    assert {c.outlier: c.confirmed for c in found.decision.caught} == {"near": False, "far": False, "other": True}
    assert found.decision.method == evaluate(**parts, scores=FEW).decision.method
    assert not any("flatter" in sentence for sentence in found.decision.warnings)


def test_the_same_rows_in_two_roles_are_refused(parts):
    parts["calibration"] = parts["inlier"]
    with pytest.raises(InputError, match="calibration and inlier are the same"):
        evaluate(**parts, scores=["msp"])


def test_a_regime_that_no_outlier_set_has_is_an_error(parts):
    regimes = {"near": "near", "far": "far"}
    assert evaluate(**parts, scores=FEW, regimes=regimes, regime="far").decision is not None
    with pytest.raises(InputError, match="unknown regime of the outlier sets 'fra'"):
        evaluate(**parts, scores=FEW, regimes=regimes, regime="fra")


def test_an_outlier_detector_can_be_named(parts):
    pytest.importorskip("pyod")
    found = evaluate(**parts, scores=["msp", "iforest"])
    assert set(found.ranking.methods) == {"msp", "iforest"}


def test_a_named_score_that_cannot_be_computed_is_an_error(parts):
    with pytest.raises(InputError, match="score 'mc_msp' needs mc_logits"):
        evaluate(**parts, scores=["mc_msp"])
    with pytest.raises(InputError, match="unknown score 'enrgy'"):
        evaluate(**parts, scores=["enrgy"])


def test_small_calibration_sets_promise_nothing_and_say_what_they_need(parts):
    parts["calibration"] = parts["calibration"][:30]
    decision = evaluate(**parts, scores=["msp"]).decision
    assert decision.threshold == math.inf
    assert not decision.false_alarms.holds
    assert "59 calibration rows" in str(decision)


def test_printing_stays_short(parts):
    found = evaluate(**parts, scores=[*FEW, "max_logit", "entropy", "pca_error", "vim"])
    assert len(repr(found)) < 2000
    assert len(str(found.decision).splitlines()) <= 25
    assert json.loads(json.dumps(found.decision.to_dict(), allow_nan=False))["score"] == str(found.decision.method)


def test_a_long_table(parts):
    pytest.importorskip("pandas")
    frame = evaluate(**parts, scores=["msp", "energy"]).to_frame()
    assert set(frame[frame.metric == "auroc"].outlier) == {"near", "far"}
    assert {"method", "value", "lower", "upper", "n"} <= set(frame.columns)


def test_few_shared_rows_are_a_warning(parts):
    joined = {k: np.concatenate([getattr(parts["inlier"], k), getattr(parts["calibration"], k)[:5]])
              for k in ("logits", "features", "labels")}  # fmt: skip
    parts["inlier"] = Outputs(**joined, head=parts["inlier"].head)
    with pytest.warns(CaveatWarning, match="share 5 of 200 rows"):
        evaluate(**parts, scores=["msp"])


# -- arguments as people give them -----------------------------------------------------------------------------------


def test_one_outlier_set_needs_no_name_and_a_list_gets_numbers(inlier, outlier):
    by_name = evaluate(inlier=inlier, outliers={"outlier": outlier}, scores=["msp"])
    for single in (outlier, [outlier], (outlier,)):
        result = evaluate(inlier=inlier, outliers=single, scores=["msp"])
        assert (result.outliers, str(result.decision)) == (("outlier",), str(by_name.decision))
    two = evaluate(inlier=inlier, outliers=[outlier[:40], outlier[40:60]], confirm=outlier[60:], scores=["msp"])
    assert two.outliers == ("outlier 1", "outlier 2")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda a: {"inlier": a.logits}, r"inlier must be caveat.Outputs, got an array of shape \(150, 4\). Wrap it: "),
        (lambda a: {"inlier": a, "calibration": a.logits}, "calibration must be caveat.Outputs, got an array"),
        (lambda a: {"inlier": a, "outliers": {"o": a.logits}}, "outlier:o must be caveat.Outputs, got an array"),
        (lambda a: {"inlier": a, "outliers": a.logits}, "outlier:outlier must be caveat.Outputs, got an array"),
        (lambda a: {"inlier": "test.npz"}, r"got a path. Read it: Outputs.load\('test.npz'\)"),
        (lambda a: {"inlier": a, "outliers": {3: a}}, "the name of a set in outliers must be of type str, got 3"),
    ],
)
def test_arrays_and_paths_in_the_place_of_outputs_get_one_sentence(inlier, wrong, message):
    with pytest.raises(InputError, match=message):
        evaluate(**wrong(inlier))


def test_logits_beside_probabilities_name_both_parts(inlier, outlier):
    probs = Outputs(probs=outlier.probs)
    with pytest.raises(InputError, match="got logits in inlier and probs in outlier:far. Store the same"):
        evaluate(inlier=Outputs(logits=inlier.logits), outliers={"far": probs}, scores=["msp"])


def test_outliers_that_chose_the_score_do_not_confirm_it():
    rng = np.random.default_rng(8)
    said = Outputs(logits=rng.normal(size=(400, 3)) + 5 * np.eye(3)[rng.integers(3, size=400)])
    first, second = (Outputs(logits=rng.normal(size=(90, 3))) for _ in range(2))
    call = partial(evaluate, inlier=said, outliers={"a": first}, scores=["msp", "energy"])
    with pytest.raises(InputError, match="outlier set 'a' and confirm set 'b' are the same 90 rows"):
        call(confirm={"b": first})
    most = Outputs(logits=np.concatenate([first.logits[:60], second.logits]))
    with pytest.raises(InputError, match="outlier set 'a' and confirm set 'b' share 60 of 90 rows"):
        call(confirm={"b": most})
    decision = call(confirm={"b": second}).decision
    text = str(decision)
    assert [(c.outlier, c.confirmed) for c in decision.caught] == [("a", False), ("b", True)]
    assert "\n  Caught: a " in text
    assert "\n  Confirmed on outliers that chose nothing: b " in text
    assert "optimistic" not in text
    assert "optimistic" in str(call().decision)


def test_notes_stand_in_the_records_and_in_every_report():
    rng = np.random.default_rng(9)
    rows = np.concatenate([rng.normal(size=(400, 3)) + 5 * np.eye(3)[rng.integers(3, size=400)]])
    call = partial(evaluate, inlier=Outputs(logits=rows[:210]), scores=["msp"])
    with pytest.warns(CaveatWarning, match="share 10 of 200 rows"):
        result = call(calibration=Outputs(logits=rows[200:]))
    (note,) = result.notes
    assert [record.text for record in result.of(Note)] == [note]
    assert "calibration and inlier share 10 of 200 rows" in note
    page, markdown, latex = render_report(result.findings())
    assert note in page[: page.index("<nav")]  # on the first screen, in the box of the decision
    assert all("share 10 of 200 rows" in text for text in (markdown, latex))
    assert note in result._repr_html_()
    assert call(calibration=Outputs(logits=rows[210:])).notes == ()
    assert not any(row["metric"] == "text" for row in result.rows())
