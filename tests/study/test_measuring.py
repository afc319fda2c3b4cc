from __future__ import annotations

import numpy as np
import pytest

from caveat import CaveatWarning, InputError, Outputs, metrics, scores
from caveat.study import evaluate


@pytest.fixture
def result(train, inlier, outlier, make_outputs):
    near = make_outputs(seed=7, n=60)
    return evaluate(train=train, inlier=inlier, outliers={"far": outlier, "near": near}, names=["msp", "knn"])


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


def test_sets_keep_calibration_and_test_apart(train, inlier, outlier, make_outputs):
    held = make_outputs(seed=7)
    given = evaluate(train=train, inlier=inlier, outliers={"o": outlier}, calibration=held, names=["msp"])
    assert given.sets.n_calibration == held.n
    assert given.sets.sizes.sum() == inlier.n
    halves = evaluate(train=train, inlier=inlier, outliers={"o": outlier}, names=["msp"])
    assert halves.sets.n_calibration == inlier.n // 2
    assert halves.sets.sizes.sum() == inlier.n - inlier.n // 2
    assert "random half" in halves.sets.caveat


def test_a_tiny_calibration_set_is_said_not_hidden(train, inlier, outlier, make_outputs):
    few = make_outputs(seed=7, n=5)
    found = evaluate(train=train, inlier=inlier, outliers={"o": outlier}, calibration=few, names=["msp"])
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


def numbers_of(score, result):
    """Every number of a score but those that average over the outlier sets."""
    rows = [row for row in result.rows() if row["score"] == score and row["outlier"] in ("", "far")]
    return [row for row in rows if not row["metric"].startswith("mean_")]


def test_what_one_score_gets_does_not_depend_on_the_others(train, inlier, outlier, make_outputs):
    data = {"train": train, "inlier": inlier}
    near = make_outputs(seed=7, n=60)
    alone = evaluate(**data, outliers={"far": outlier}, names=["msp"])
    others = evaluate(**data, outliers={"far": outlier}, names=["energy", "msp", "knn"])
    more = evaluate(**data, outliers={"near": near, "far": outlier}, names=["energy", "msp"])
    for result in (others, more):
        assert numbers_of("msp", result) == numbers_of("msp", alone)
        assert result.sets.coverage == alone.sets.coverage
        np.testing.assert_array_equal(result.sets.sizes, alone.sets.sizes)


def test_the_same_rows_in_two_roles_are_refused(train, inlier, outlier):
    for roles in (
        {"train": inlier, "outliers": {"o": outlier}},
        {"train": train, "outliers": {"o": outlier}, "calibration": inlier},
        {"train": train, "outliers": {"o": inlier}},
        {"train": train, "outliers": {"o": outlier}, "calibration": train[:100]},
    ):
        with pytest.raises(InputError, match=r"are the same 150 rows|share 100 of 100 rows"):
            evaluate(inlier=inlier, names=["msp"], **roles)


def test_a_few_shared_rows_are_a_warning(train, inlier, outlier, make_outputs):
    held = make_outputs(seed=7, n=20)
    features = np.concatenate([inlier.features[:3], held.features])
    mixed = Outputs(features=features, logits=np.concatenate([inlier.logits[:3], held.logits]))
    with pytest.warns(CaveatWarning, match="calibration and inlier share 3 of 23 rows"):
        evaluate(train=train, inlier=inlier, outliers={"o": outlier}, calibration=mixed, names=["msp"])


def test_labels_that_start_at_one_are_suspected(outlier):
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=200)
    said = Outputs(logits=8 * np.eye(4)[labels] + rng.normal(size=(200, 4)), labels=labels + 1)
    with pytest.warns(CaveatWarning, match="accuracy on inlier is 0.0%.*start at 1"):
        result = evaluate(train=None, inlier=said, outliers={"o": Outputs(logits=outlier.logits)}, names=["msp"])
    assert result.inlier.accuracy.value == 0


def test_the_repr_is_short_whatever_was_evaluated(train, inlier, outlier):
    outliers = {f"a very long name of an outlier set, number {i}": outlier for i in range(40)}
    result = evaluate(train=train, inlier=inlier, outliers=outliers, names=["msp"], title="T" * 5000)
    assert len(repr(result)) < 500
    for part in ("inlier 150", "train 240", "outlier sets 40", "'msp'", "AUROC"):
        assert part in repr(result)
