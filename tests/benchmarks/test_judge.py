"""Hand-worked outcomes of one draw."""

import math
from types import SimpleNamespace

import judge
import numpy as np
import pytest


def test_sets_count_missed_labels_and_sizes():
    member = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 0]])
    columns = judge.outcome("sets", "lac", member, SimpleNamespace(test_labels=np.array([0, 2, 2, 1])))
    assert columns == {"error": 0.5, "size": 1.0}


def test_intervals_include_their_ends():
    columns = judge.outcome("intervals", "absolute", [[0, 1], [2, 4]], SimpleNamespace(test_y=np.array([1.0, 5.0])))
    assert columns == {"error": 0.5, "size": 1.5}


def test_selection_by_false_discoveries_and_by_false_alarms():
    # four inliers, two outliers; one inlier and one outlier are selected
    selected, truth = [True, False, False, False, True, False], SimpleNamespace(inliers=4)
    assert judge.outcome("selection", "bh", selected, truth) == {"error": 0.5, "size": 0.5}
    assert judge.outcome("selection", "false alarms", selected, truth) == {"error": 0.25, "size": 0.5}


def test_nothing_selected_is_no_false_discovery():
    assert judge.outcome("selection", "bh", [False, False], SimpleNamespace(inliers=1))["error"] == 0


def test_a_threshold_is_judged_by_its_true_false_alarm_rate():
    truth = SimpleNamespace(false_alarm=0.05, shift=3.0)
    # the 95 % quantile of a standard normal is 1.6449
    assert judge.outcome("selection", judge.SURE, 1.65, truth)["error"] == 0
    assert judge.outcome("selection", judge.SURE, 1.64, truth)["error"] == 1
    assert judge.outcome("selection", judge.SURE, 3.0, truth)["size"] == pytest.approx(0.5)


def test_risk_is_slope_times_threshold():
    truth = SimpleNamespace(slope=1.01, alpha=0.1005, candidate=0.1, true_labels=1, false_labels=9)
    assert judge.outcome("risk", "wsr", 0.10, truth)["error"] == 1
    assert judge.outcome("risk", "wsr", 0.09, truth)["error"] == 0
    assert judge.outcome("risk", "crc", 0.09, truth)["error"] == pytest.approx(0.0909)
    # nothing is cut: the true label and all nine others stay
    assert judge.outcome("risk", "wsr", 0.0, truth)["size"] == 10


def test_drift_counts_the_quiet_alarm_and_the_delay():
    truth = SimpleNamespace(change=200, points=2000)
    assert judge.outcome("drift", "alarm", [-1, 260], truth) == {"error": 0.0, "size": 60}
    assert judge.outcome("drift", "alarm", [0, -1], truth) == {"error": 1.0, "size": 1800}
    assert math.isnan(judge.outcome("drift", "alarm", [-1, 100], truth)["size"])


def test_ranks_look_at_the_alike_pair_only_for_errors():
    alike, apart = np.ones((3, 3)), np.full((3, 3), 0.01)
    apart[0, 1] = apart[1, 0] = 0.2
    columns = judge.outcome("ranks", "conover", [alike, apart], SimpleNamespace(alpha=0.05))
    assert columns == {"error": 0.0, "error_among_others": 0.0, "size": 1.0}
    assert judge.outcome("ranks", "conover", [apart], SimpleNamespace(alpha=0.05))["error"] == 1


def test_metrics_against_the_literal_definitions():
    truth = SimpleNamespace(inlier=np.array([0.0, 1, 2]), outlier=np.array([1.0, 3]))
    # outlier 1 beats 0, ties 1, loses to 2; outlier 3 beats all: 4.5 / 6
    assert judge.outcome("metrics", "auroc", {"auroc": 0.75}, truth)["difference"] == pytest.approx(0)
    # at least 95 % of two outliers is both: the threshold is 1, and two of three inliers reach it
    assert judge.outcome("metrics", "fpr95", {"fpr95": 2 / 3}, truth)["difference"] == pytest.approx(0)


def test_the_true_auroc_of_an_outlier_at_the_middle_is_one_half():
    truth = SimpleNamespace(inlier=np.array([0.0]), outlier=np.array([0.0]), step=0.1)
    assert judge.outcome("metrics", "auroc bound", {"lower": 0.4}, truth) == {"error": 0.0, "size": pytest.approx(0.1)}
    assert judge.outcome("metrics", "auroc bound", {"lower": 0.6}, truth)["error"] == 1


def test_summary_ignores_draws_without_a_value():
    summary = judge.summary([{"error": 1.0, "size": np.nan}, {"error": 0.0, "size": 4.0}])
    assert summary == {"draws": 2, "error": 0.5, "error_se": 0.5, "size": 4.0, "size_se": 0.0}


def test_mid_ranks_share_ties():
    assert judge.ranks(np.array([5.0, 1, 5])).tolist() == [2.5, 1.0, 2.5]


def test_a_threshold_is_judged_by_its_exact_rank():
    # n = 9, alpha = 0.3: ceil(10 x 0.7) = 7
    truth = SimpleNamespace(size=9, alpha=0.3)
    assert judge.outcome("definitions", "threshold", 7.0, truth) == {"error": 0.0, "below": 0.0, "size": 0.0}
    assert judge.outcome("definitions", "threshold", 6.0, truth) == {"error": 1.0, "below": 1.0, "size": -1.0}
    assert judge.outcome("definitions", "threshold", np.inf, truth)["error"] == 1.0


def test_ece_is_judged_with_bins_closed_on_the_right():
    # two bins: 0.5 belongs to the first. Gaps (0 - 0.5) and (1 - 0.9): (0.5 + 0.1) / 2
    truth = SimpleNamespace(confidence=np.array([0.5, 0.9]), correct=np.array([False, True]), bins=2)
    assert judge.outcome("definitions", "ece", 0.3, truth)["error"] == 0.0
    assert judge.outcome("definitions", "ece", 0.2, truth)["below"] == 1.0
