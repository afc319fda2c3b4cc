"""The sentences of a report say what the numbers say, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.metrics import coverage_verdict, proportion_interval
from caveat.report import words
from caveat.results import Estimate
from caveat.study import Evaluation, SetFacts


def estimate(value: float, lower: float, upper: float, caveat: str = "") -> Estimate:
    return Estimate(value, lower, upper, level=0.95, n=100, method="DeLong", caveat=caveat)


def with_best(evaluation: Evaluation, area: Estimate) -> Evaluation:
    return replace(evaluation, ranking=(replace(evaluation.best, mean_auroc=area), *evaluation.ranking[1:]))


def with_ties(evaluation: Evaluation, *tied: str) -> Evaluation:
    """Those named cannot be told from the best by the paired test; all bands lie apart but theirs."""
    first, *rest = evaluation.ranking
    changed = (replace(r, told_apart=r.score not in tied, overlaps_best=r.score in tied) for r in rest)
    return replace(evaluation, ranking=(first, *changed))


def with_overlaps(evaluation: Evaluation, *over: str) -> Evaluation:
    """The paired test tells all from the best; the bands of those named overlap its band."""
    first, *rest = evaluation.ranking
    return replace(
        evaluation, ranking=(first, *(replace(r, told_apart=True, overlaps_best=r.score in over) for r in rest))
    )


@given(value=st.floats(0, 1))
def test_only_an_end_is_written_as_an_end(value):
    assert (words.number(value) == "1.000") == (value == 1)
    assert (words.number(value) == "0.000") == (value == 0)
    assert (words.percent(value) == "100.0\xa0%") == (value == 1)
    assert (words.percent(value) == "0.0\xa0%") == (value == 0)


@given(value=st.floats(0, 1))
def test_a_number_is_within_half_a_unit_of_what_is_written(value):
    written = words.number(value)
    if written[0] not in "<>":
        assert abs(float(written) - value) <= 0.0005 + 1e-12


def test_scaled_by_hand():
    assert words.scaled(0.0375) == "37.5"
    assert words.scaled(0.0) == "0.0"
    assert words.scaled(0.00001) == "<0.1"


def test_the_best_score_is_named_with_its_number(evaluation):
    said = words.best_score(evaluation)
    area = evaluation.best.mean_auroc
    assert f"The best is {evaluation.best.score}:" in said
    assert f"{words.number(area.value)} [{words.number(area.lower)}, {words.number(area.upper)}]" in said
    assert "mean AUROC" in said


def test_ties_are_named_and_the_rest_is_counted(evaluation):
    second, third, fourth = (line.score for line in evaluation.ranking[1:])
    said = words.best_score(with_ties(evaluation, second, third))
    assert f"Its guaranteed band overlaps those of {second} and {third}: they are tied with it." in said
    assert f"cannot tell it apart from {second} and {third} and finds the other one worse (DeLong" in said
    assert fourth not in said
    assert "better than every other" not in said


def test_ties_by_band_are_said_beside_what_the_paired_test_says(evaluation):
    second, third, fourth = (line.score for line in evaluation.ranking[1:])
    said = words.best_score(with_overlaps(evaluation, second))
    assert f"Its guaranteed band overlaps that of {second}: it is tied with it." in said
    assert "without that guarantee, finds it better than every other score (DeLong" in said
    said = words.best_score(with_overlaps(evaluation, second, third, fourth))
    assert "overlaps those of all 3 others: they are tied with it." in said


def test_a_band_apart_does_not_hide_what_the_paired_test_cannot_see(evaluation):
    second = evaluation.ranking[1].score
    tied = with_ties(evaluation, second)
    apart = replace(tied, ranking=tuple(replace(line, overlaps_best=False) for line in tied.ranking))
    said = words.best_score(apart)
    assert "Its guaranteed band lies above those of all others." in said
    assert f"cannot tell it apart from {second} and finds the other 2 worse" in said
    assert apart.tied == (second,)


def test_all_tied_leaves_nobody_worse(evaluation):
    said = words.best_score(with_ties(evaluation, *(line.score for line in evaluation.ranking[1:])))
    assert "worse" not in said
    assert "better" not in said


def test_no_ties_is_said(evaluation):
    said = words.best_score(with_ties(evaluation))
    assert "Its guaranteed band lies above those of all others." in said
    assert "finds it better than every other score (DeLong" in said


def test_a_coin_is_called_a_coin(evaluation):
    assert "cannot be told from a coin" in words.best_score(with_best(evaluation, estimate(0.52, 0.49, 0.55)))
    assert "worse than a coin" in words.best_score(with_best(evaluation, estimate(0.40, 0.35, 0.45)))
    good = words.best_score(with_best(evaluation, estimate(0.9, 0.88, 0.92)))
    assert "worse than a coin" not in good
    assert "told from a coin" not in good


def test_one_score_is_not_called_the_best(evaluation):
    said = words.best_score(replace(evaluation, ranking=evaluation.ranking[:1]))
    assert "The best" not in said
    assert "nothing can be said about which is best" in said


def test_accuracy_and_samples(evaluation):
    said, accuracy = words.measured(evaluation), evaluation.inlier.accuracy
    assert f"right on {words.percent(accuracy.value)} {words.interval(accuracy, 'percent')} of 400 inliers" in said
    assert "4 OOD scores were measured on separating these inliers from 400 outliers in 2 sets (200 near" in said


def test_without_labels_accuracy_is_not_claimed(unlabelled):
    said = words.headline(unlabelled)
    assert "Accuracy was not measured" in said
    assert "The model is right" not in said
    assert "Prediction sets were not made, because they need inliers with labels" in said


def test_false_alarms_name_the_easiest_and_the_hardest_set(evaluation):
    said = words.false_alarms(evaluation)
    rates = {o: evaluation.detection(evaluation.best.score, o).fpr_outlier_positive.value for o in evaluation.outliers}
    easy, hard = min(rates, key=rates.get), max(rates, key=rates.get)
    assert f"between {words.percent(rates[easy])} ({easy}) and {words.percent(rates[hard])} ({hard})" in said
    assert "catching 95\xa0% of the outliers" in said


def facts(hits: int, *, n_calibration: int) -> SetFacts:
    sizes = np.array([0, 90, 10])
    verdict = coverage_verdict(hits, 500, n_calibration=n_calibration, alpha=0.1)
    return SetFacts("lac", 0.1, 0.9, proportion_interval(hits, 500), verdict, 1.1, sizes, {}, n_calibration, "")


@pytest.mark.parametrize(
    ("hits", "n_calibration", "verdict"),
    [
        (450, 500, "which is as chance allows"),
        (434, 500, "which is as chance allows"),  # below for the test sample alone, whose interval ends at .896
        (420, 500, "calibration samples and 500 measured ones): a rare draw, or"),
        (434, 100_000, "below the promise"),
        (485, 500, "above the promise"),
    ],
)
def test_coverage_is_held_against_its_promise_given_both_samples(hits, n_calibration, verdict):
    said = words.promise(facts(hits, n_calibration=n_calibration))
    assert verdict in said
    assert "at least 90\xa0% of inliers that are exchangeable" in said
    assert "For outliers nothing is promised." in said


def test_too_few_calibration_samples_is_the_reason(evaluation):
    said = words.no_sets(replace(evaluation, sets=None, alpha=0.001))
    assert "too few calibration samples for alpha\xa0=\xa00.001" in said


def test_unlabelled_calibration_is_the_reason(evaluation):
    calibration = replace(evaluation.inlier, role="calibration", name="calibration", accuracy=None)
    said = words.no_sets(replace(evaluation, sets=None, data=(calibration, *evaluation.data)))
    assert "the calibration data carry no labels" in said


def test_many_names_are_counted_not_listed(crowd):
    said = words.headline(crowd)
    assert "in 12 sets (listed under Data)" in said
    assert "and 4 others" in said  # ten copies of the best: itself, five named, four counted


def test_notes_are_written_once():
    notes = words.Notes()
    marks = [notes.mark(estimate(1, 1, 1, caveat)) for caveat in ("x", "", "y", "x")]
    assert marks == ["a", "", "b", "a"]
    assert notes.lines == [("a", "x"), ("b", "y")]


def test_marks_do_not_run_out():
    notes = words.Notes()
    assert len({notes.mark(estimate(1, 1, 1, f"caveat {i}")) for i in range(60)}) == 60
