from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError
from caveat.metrics import (
    augrc,
    augrc_interval,
    aurc,
    aurc_interval,
    auroc,
    fpr_at_tpr,
    misclassification,
    ood_failures,
    ood_protocol,
)


def test_inlier_errors_are_dropped_and_outliers_are_failures():
    inlier, correct, outlier = [1, 2, 3, 9], [1, 1, 1, 0], [3, 4]
    found = ood_protocol(inlier=inlier, correct=correct, outlier=outlier)
    score, right = [1, 2, 3, 3, 4], [1, 1, 1, 0, 0]
    assert found.augrc.value == pytest.approx(augrc(score=score, correct=right))
    assert found.aurc.value == pytest.approx(aurc(score=score, correct=right))
    assert found.auroc.value == pytest.approx(auroc(inlier=[1, 2, 3], outlier=outlier))
    assert found.fpr95 == fpr_at_tpr(inlier=[1, 2, 3], outlier=outlier)
    assert (found.n_right, found.n_failures, found.n_dropped) == (3, 2, 1)
    assert found.aurc == aurc_interval(score=score, correct=right)
    assert found.augrc == augrc_interval(score=score, correct=right)


def test_the_dropped_errors_do_not_matter():
    # a score cannot gain by flagging ordinary errors
    rng = np.random.default_rng(1)
    correct, outlier = np.arange(100) % 5 > 0, rng.normal(size=50) + 1
    inlier = rng.normal(size=100)
    moved = np.where(correct, inlier, inlier + 100)
    first, second = (ood_failures(inlier=values, correct=correct, outlier=outlier) for values in (inlier, moved))
    np.testing.assert_array_equal(first[0], second[0])


def test_misclassification_is_about_the_inliers_alone():
    found = misclassification(score=[1, 2, 3, 9], correct=[1, 1, 1, 0])
    assert found.auroc.value == 1
    assert (found.n_right, found.n_failures, found.n_dropped) == (3, 1, 0)
    perfect = misclassification(score=[1, 2], correct=[1, 1])
    assert perfect.auroc is None
    assert perfect.fpr95 is None
    assert perfect.augrc.value == 0


def test_nothing_right_has_nothing_to_compare_with():
    with pytest.raises(InputError, match="at least one right answer"):
        ood_failures(inlier=[1, 2], correct=[0, 0], outlier=[3])
    with pytest.raises(InputError, match="outlier has NaN"):
        ood_failures(inlier=[1, 2], correct=[1, 0], outlier=[np.nan])
