from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs, metrics, scores
from caveat.study import evaluate


@pytest.fixture
def result(train, inlier, outlier):
    return evaluate(train=train, inlier=inlier, outliers={"far": outlier, "near": inlier[:60]}, names=["msp", "knn"])


def test_numbers_are_those_of_the_metrics(result, train, inlier, outlier):
    values = scores.KNN().fit(train)
    inside, outside = values.score(inlier), values.score(outlier)
    row = result.detection("knn", "far")
    assert row.auroc.value == pytest.approx(metrics.auroc(inlier=inside, outlier=outside))
    band = metrics.conformal_auroc(inlier=inside, outlier=outside, two_sided=True)
    assert row.auroc_band == band
    assert row.fpr_outlier_positive.value == metrics.fpr_at_tpr(inlier=inside, outlier=outside)
    assert row.fpr_inlier_positive.value == metrics.fpr_at_tpr(inlier=inside, outlier=outside, positive="inlier")
    # the OOD protocol: outliers are failures, wrongly classified inliers are dropped
    right = inside[inlier.correct]
    merged = np.concatenate([right, outside])
    assert row.augrc.value == pytest.approx(metrics.augrc(score=merged, correct=np.arange(merged.size) < right.size))
    (failure,) = [m for m in result.misclassifications if m.score == "knn"]
    assert failure.augrc.value == pytest.approx(metrics.augrc(score=inside, correct=inlier.correct))
    np.testing.assert_array_equal(result.strangeness["knn"]["far"], outside)


def test_the_ranking_orders_by_mean_auroc_and_marks_ties(result):
    means = [line.mean_auroc.value for line in result.ranking]
    assert means == sorted(means, reverse=True)
    for line in result.ranking:
        both = [result.detection(line.score, name).auroc.value for name in ("far", "near")]
        assert line.mean_auroc.value == pytest.approx(np.mean(both))
        lowers = [result.detection(line.score, name).auroc_band.lower for name in ("far", "near")]
        assert line.auroc_band.lower == pytest.approx(np.mean(lowers))
        assert line.overlaps_best == (line.auroc_band.upper >= result.ranking[0].auroc_band.lower)
        assert line.told_apart == (line.p_value <= result.delta)
        assert line.tied_with_best == (line.overlaps_best or not line.told_apart)
    assert set(result.tied) == set(result.overlapping) | set(result.not_told_apart)
    assert result.ranking[0].rank == 1
    assert result.ranking[0].tied_with_best


def test_scores_that_order_alike_are_tied(train, inlier, outlier):
    # with two classes msp and energy of centred logits are monotone in the same margin: no test can tell them apart
    def margin(outputs):
        half = (outputs.logits[:, 0] - outputs.logits[:, 1]) / 2
        return Outputs(logits=np.column_stack([half, -half]))

    found = evaluate(train=None, inlier=margin(inlier), outliers={"o": margin(outlier)}, names=["msp", "energy"])
    assert [line.rank for line in found.ranking] == [1, 1]
    assert all(line.tied_with_best and line.p_value == 1.0 for line in found.ranking)


def test_rows_hold_every_number_with_its_doubt(result):
    table = result.rows()
    keys = {"score", "outlier", "metric", "value", "lower", "upper", "level", "n", "method"}
    assert all(set(row) == keys for row in table)
    assert all(row["lower"] - 1e-12 <= row["value"] <= row["upper"] + 1e-12 for row in table)
    metrics_found = {row["metric"] for row in table}
    assert {
        "auroc",
        "fpr95_outlier_positive",
        "fpr95_inlier_positive",
        "augrc",
        "misclassification_augrc",
    } <= metrics_found


def test_the_same_seed_gives_the_same_numbers(train, inlier, outlier):
    first, second = (
        evaluate(train=train, inlier=inlier, outliers={"o": outlier}, names=["msp"], seed=4).rows() for _ in range(2)
    )
    assert first == second


def test_without_labels_errors_and_sets_are_left_out(inlier, outlier):
    bare = Outputs(logits=inlier.logits)
    result = evaluate(train=None, inlier=bare, outliers={"o": Outputs(logits=outlier.logits)})
    assert result.sets is None
    assert result.misclassifications == ()
    assert result.detections[0].augrc is None
    assert result.skipped["mahalanobis"] == "needs training outputs"


def test_sets_keep_calibration_and_test_apart(train, inlier, outlier):
    given = evaluate(train=train, inlier=inlier, outliers={"o": outlier}, calibration=train, names=["msp"])
    assert given.sets.n_calibration == train.n
    assert given.sets.sizes.sum() == inlier.n
    halves = evaluate(train=train, inlier=inlier, outliers={"o": outlier}, names=["msp"])
    assert halves.sets.n_calibration == inlier.n // 2
    assert halves.sets.sizes.sum() == inlier.n - inlier.n // 2
    assert "random half" in halves.sets.caveat


def test_a_tiny_calibration_set_is_said_not_hidden(train, inlier, outlier):
    found = evaluate(train=train, inlier=inlier, outliers={"o": outlier}, calibration=inlier[:5], names=["msp"])
    assert "n = 5 is too small for alpha = 0.1" in found.sets.caveat
    assert found.sets.mean_size == 4


def test_progress_counts_up_to_the_number_of_steps(train, inlier, outlier):
    told = []
    evaluate(
        train=train, inlier=inlier, outliers={"o": outlier}, names=["msp", "energy"],
        progress=lambda what, done, steps: told.append((done, steps)),
    )  # fmt: skip
    assert told == [(i, 5) for i in range(5)]


def test_bad_input(train, inlier, outlier, make_outputs):
    with pytest.raises(InputError, match="at least one set of outputs"):
        evaluate(train=train, inlier=inlier, outliers={})
    with pytest.raises(InputError, match="cannot be called 'inlier'"):
        evaluate(train=train, inlier=inlier, outliers={"inlier": outlier})
    with pytest.raises(InputError, match="unknown score 'mps'. Did you mean 'msp'"):
        evaluate(train=train, inlier=inlier, outliers={"o": outlier}, names=["mps"])
    with pytest.raises(InputError, match="score 'knn' needs training outputs"):
        evaluate(train=None, inlier=inlier, outliers={"o": outlier}, names=["knn"])
    with pytest.raises(InputError, match="same classes, got 4 in inlier and 5 in o"):
        evaluate(train=train, inlier=inlier, outliers={"o": make_outputs(classes=5)})
    with pytest.raises(InputError, match="no score can be computed"):
        evaluate(train=None, inlier=Outputs(features=[[1.0]]), outliers={"o": Outputs(features=[[1.0]])})
    with pytest.raises(InputError, match="no result of score 'x'"):
        evaluate(train=train, inlier=inlier, outliers={"o": outlier}, names=["msp"]).detection("x", "o")
