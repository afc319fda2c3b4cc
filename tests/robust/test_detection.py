from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score

from caveat import InputError, metrics
from caveat_lab.robust import (
    adversarial_auroc,
    conformal_guaranteed_auroc,
    guaranteed_aupr,
    guaranteed_auroc,
    guaranteed_fpr_at_tpr,
    two_sided_auroc,
)

confidences = arrays(np.float64, st.integers(1, 30), elements=st.floats(0.1, 1.0))


def test_by_hand():
    # pairs (inlier, bound): 0.9 beats both, 0.5 beats 0.3 and ties 0.5: (2 + 1 + 1/2) / 4; strict: 3 / 4
    assert guaranteed_auroc(inlier=[0.9, 0.5], outlier_upper=[0.3, 0.5]) == pytest.approx(3.5 / 4)
    assert guaranteed_auroc(inlier=[0.9, 0.5], outlier_upper=[0.3, 0.5], conservative=True) == pytest.approx(3 / 4)


def test_confident_outliers_are_bad_and_not_good():
    assert guaranteed_auroc(inlier=[0.9, 0.8], outlier_upper=[0.1, 0.2]) == 1
    assert guaranteed_auroc(inlier=[0.1, 0.2], outlier_upper=[0.9, 0.8]) == 0


@given(inlier=confidences, outlier=confidences)
def test_agrees_with_scikit_learn_on_confidence(inlier, outlier):
    truth = np.repeat([1, 0], [inlier.size, outlier.size])
    both = np.concatenate([inlier, outlier])
    assert guaranteed_auroc(inlier=inlier, outlier_upper=outlier) == pytest.approx(roc_auc_score(truth, both))
    assert adversarial_auroc(inlier=inlier, outlier_attacked=outlier) == pytest.approx(roc_auc_score(truth, both))
    assert guaranteed_aupr(inlier=inlier, outlier_upper=outlier) == pytest.approx(average_precision_score(truth, both))


@given(inlier=confidences, outlier=confidences)
def test_only_the_order_counts_so_logarithms_will_do(inlier, outlier):
    # up to rounding that lets two different confidences have one logarithm: compare on values a logarithm keeps apart
    inlier, outlier = inlier.round(6), outlier.round(6)
    assert guaranteed_auroc(inlier=inlier, outlier_upper=outlier) == guaranteed_auroc(
        inlier=np.log(inlier), outlier_upper=np.log(outlier)
    )


@given(inlier=confidences, outlier=confidences, lift=st.floats(0, 1))
def test_a_looser_bound_never_guarantees_more(inlier, outlier, lift):
    tight, loose = ({"inlier": inlier, "outlier_upper": upper} for upper in (outlier, outlier + lift))
    assert guaranteed_auroc(**loose) <= guaranteed_auroc(**tight)
    assert guaranteed_fpr_at_tpr(**loose) >= guaranteed_fpr_at_tpr(**tight)
    assert guaranteed_aupr(**loose) <= guaranteed_aupr(**tight) + 1e-12
    assert two_sided_auroc(inlier_lower=inlier - lift, outlier_upper=outlier) <= guaranteed_auroc(**tight)


def test_saturated_confidence_is_not_rewarded_by_the_conservative_form():
    ones = np.ones(5)
    assert guaranteed_auroc(inlier=ones, outlier_upper=ones) == 0.5
    assert guaranteed_auroc(inlier=ones, outlier_upper=ones, conservative=True) == 0


def test_gfpr_by_hand():
    # keep 3 of 4 inliers: the threshold is 0.7; bounds at or above it: 0.75 of (0.3, 0.65, 0.75)
    found = guaranteed_fpr_at_tpr(inlier=[0.9, 0.8, 0.7, 0.6], outlier_upper=[0.3, 0.65, 0.75], tpr=0.75)
    assert found == pytest.approx(1 / 3)


def test_the_estimate_is_the_band_around_the_certificate():
    rng = np.random.default_rng(0)
    inlier, upper = rng.normal(2, 1, 500), rng.normal(0, 1, 300)
    found = conformal_guaranteed_auroc(inlier=inlier, outlier_upper=upper, delta=0.1)
    plain = metrics.conformal_auroc(inlier=-inlier, outlier=-upper, delta=0.1)
    assert (found.value, found.lower, found.upper) == (plain.value, plain.lower, plain.upper)
    assert found.value == pytest.approx(guaranteed_auroc(inlier=inlier, outlier_upper=upper))
    assert "every attack" in found.caveat


def test_the_lower_end_keeps_its_promise_under_attack():
    # Confidence of inliers N(2, 1); outliers N(0, 1) that an attacker raises by up to 0.5, the certificate is +0.5.
    # The true worst-case area of the sample is mean over outliers of P(N(2,1) > value + 0.5).
    from scipy.stats import norm

    rng, delta, trials, fails = np.random.default_rng(1), 0.1, 400, 0
    outlier = rng.normal(0, 1, 60)
    truth = norm.sf(outlier + 0.5, loc=2).mean()
    for _ in range(trials):
        found = conformal_guaranteed_auroc(inlier=rng.normal(2, 1, 100), outlier_upper=outlier + 0.5, delta=delta)
        fails += found.lower > truth
    assert fails / trials <= delta + 4 * np.sqrt(delta * (1 - delta) / trials)


def test_nan_is_named_and_infinite_log_confidence_is_welcome():
    with pytest.raises(InputError, match="outlier_upper has NaN, first at row 1"):
        guaranteed_auroc(inlier=[0.5], outlier_upper=[0.1, np.nan])
    assert guaranteed_auroc(inlier=[0.0], outlier_upper=[-np.inf]) == 1
