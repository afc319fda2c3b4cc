from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from caveat import InputError
from caveat.metrics import aupr, auroc, conservative_auroc, detection_error, fpr_at_tpr, roc_curve

scores = st.lists(st.integers(-20, 20).map(float), min_size=1, max_size=40)


def test_auroc_by_hand():
    # outlier 1 beats 0, ties 1, loses to 2; outlier 3 beats all three: (1 + 1/2 + 3) / 6
    assert auroc(inlier=[0, 1, 2], outlier=[1, 3]) == pytest.approx(4.5 / 6)


@given(inlier=scores, outlier=scores)
def test_auroc_equals_the_pair_count_and_scikit_learn(inlier, outlier):
    pairs = np.subtract.outer(outlier, inlier)
    value = auroc(inlier=inlier, outlier=outlier)
    assert value == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    truth = [0] * len(inlier) + [1] * len(outlier)
    assert value == pytest.approx(roc_auc_score(truth, inlier + outlier))


@given(inlier=scores, outlier=scores)
def test_auroc_sees_only_the_order(inlier, outlier):
    assert auroc(inlier=inlier, outlier=outlier) == auroc(inlier=np.exp(inlier), outlier=np.exp(outlier))


@given(inlier=scores, outlier=scores)
def test_swapping_the_sides_gives_the_complement(inlier, outlier):
    assert auroc(inlier=inlier, outlier=outlier) == pytest.approx(1 - auroc(inlier=outlier, outlier=inlier))


def test_constant_scores_are_a_coin():
    assert auroc(inlier=[1, 1], outlier=[1]) == 0.5
    assert fpr_at_tpr(inlier=[1, 1], outlier=[1]) == 1.0


def literal_fpr(inlier, outlier, tpr, positive):
    """Try every threshold; keep the strictest that reaches the rate."""
    best = 1.0
    for cut in sorted({*inlier, *outlier}):
        if positive == "outlier":
            rate, false = np.mean(np.array(outlier) >= cut), np.mean(np.array(inlier) >= cut)
        else:
            rate, false = np.mean(np.array(inlier) <= cut), np.mean(np.array(outlier) <= cut)
        if rate >= tpr:
            best = min(best, false)
    return best


@given(inlier=scores, outlier=scores, tpr=st.sampled_from([0.5, 0.8, 1.0]))
@pytest.mark.parametrize("positive", ["outlier", "inlier"])
def test_fpr_equals_the_search_over_all_thresholds(inlier, outlier, tpr, positive):
    found = fpr_at_tpr(inlier=inlier, outlier=outlier, tpr=tpr, positive=positive)
    assert found == literal_fpr(inlier, outlier, tpr, positive)


def test_the_rate_is_reached_exactly_not_one_sample_late():
    # 95 % of 20 outliers is 19: the lowest one may be missed. In floats ceil(0.95 * 20) is 19 too,
    # but 0.07 * 100 = 7.000000000000001 would ask for 8
    assert fpr_at_tpr(inlier=[0.5], outlier=[0, *range(1, 20)], tpr=0.95) == 0.0
    assert fpr_at_tpr(inlier=[93.5], outlier=list(range(1, 101)), tpr=0.07) == 0.0


def test_the_two_meanings_differ_on_the_same_scores():
    inlier, outlier = [0] * 95 + [10] * 5, [1] * 90 + [11] * 10
    assert fpr_at_tpr(inlier=inlier, outlier=outlier, positive="outlier") == pytest.approx(0.05)
    assert fpr_at_tpr(inlier=inlier, outlier=outlier, positive="inlier") == 0.0
    assert fpr_at_tpr(inlier=inlier, outlier=outlier, positive="inlier", tpr=0.96) == pytest.approx(0.9)


def test_roc_curve_has_the_area_of_the_auroc():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.integers(0, 30, 200), rng.integers(10, 40, 100)
    fpr, tpr = roc_curve(inlier=inlier, outlier=outlier)
    assert np.trapezoid(tpr, fpr) == pytest.approx(auroc(inlier=inlier, outlier=outlier))
    assert (fpr[0], tpr[0], fpr[-1], tpr[-1]) == (0, 0, 1, 1)


def test_nan_is_named_not_ranked():
    with pytest.raises(InputError, match="outlier has NaN, first at row 1"):
        auroc(inlier=[0.0], outlier=[1.0, np.nan])


def test_infinite_scores_are_ranked():
    assert auroc(inlier=[0.0, np.inf], outlier=[np.inf]) == 0.75


@pytest.mark.parametrize("tpr", [0, -1, 1.1, "0.95"])
def test_rates_are_rates(tpr):
    with pytest.raises(InputError, match="tpr must be above 0 and at most 1"):
        fpr_at_tpr(inlier=[0.0], outlier=[1.0], tpr=tpr)


def test_the_positive_class_is_named():
    with pytest.raises(InputError, match="unknown positive class 'ood'"):
        fpr_at_tpr(inlier=[0.0], outlier=[1.0], positive="ood")


@given(inlier=scores, outlier=scores)
def test_aupr_equals_scikit_learn_both_ways(inlier, outlier):
    truth = np.array([0] * len(inlier) + [1] * len(outlier))
    values = np.array(inlier + outlier)
    assert aupr(inlier=inlier, outlier=outlier) == pytest.approx(average_precision_score(truth, values))
    found = aupr(inlier=inlier, outlier=outlier, positive="inlier")
    assert found == pytest.approx(average_precision_score(1 - truth, -values))


def test_aupr_by_hand():
    # outliers positive, strangest first: 3 (recall 1/2, precision 1), then 1, tied, with 2 above: 2 of 4 (step 1/2)
    assert aupr(inlier=[0, 1, 2], outlier=[1, 3]) == pytest.approx(0.5 * 1 + 0.5 * 2 / 4)
    assert aupr(inlier=[5, 5, 5], outlier=[5]) == 0.25  # a constant score: the share of positives


@given(inlier=scores, outlier=scores)
def test_conservative_auroc_counts_strict_wins(inlier, outlier):
    found = conservative_auroc(inlier=inlier, outlier=outlier)
    assert found == pytest.approx((np.subtract.outer(outlier, inlier) > 0).mean())
    assert found <= auroc(inlier=inlier, outlier=outlier)


@given(inlier=scores, outlier=scores)
def test_detection_error_equals_the_search_over_all_thresholds(inlier, outlier):
    a, b = np.array(inlier), np.array(outlier)
    errors = [0.5 * np.mean(a >= cut) + 0.5 * np.mean(b < cut) for cut in [*a, *b, np.inf]]
    assert detection_error(inlier=inlier, outlier=outlier) == pytest.approx(min(errors))


def test_infinite_scores_have_a_place_in_the_order():
    inlier, outlier = [-np.inf, 0.0, 1.0], [0.5, np.inf]
    finite = {"inlier": [-9.0, 0.0, 1.0], "outlier": [0.5, 9.0]}
    for metric in (auroc, conservative_auroc, aupr, detection_error, fpr_at_tpr):
        assert metric(inlier=inlier, outlier=outlier) == metric(**finite)
    assert aupr(inlier=inlier, outlier=outlier, positive="inlier") == aupr(**finite, positive="inlier")


@pytest.mark.parametrize("metric", [auroc, conservative_auroc, aupr, detection_error, fpr_at_tpr])
def test_nan_empty_and_one_sample(metric):
    with pytest.raises(InputError, match="outlier has NaN, first at row 1"):
        metric(inlier=[0.0], outlier=[1.0, np.nan])
    with pytest.raises(InputError, match="inlier must be a non-empty vector"):
        metric(inlier=[], outlier=[1.0])
    assert np.isfinite(metric(inlier=[0.0], outlier=[1.0]))
