from __future__ import annotations

import numpy as np
import pytest

from caveat import metrics
from caveat._internal import ranking


def test_known_answers():
    score = np.array([0.1, 0.1, 0.2, 0.3, 0.3, 0.4, 0.5, 0.9])
    correct = np.array([1, 1, 1, 0, 1, 1, 0, 0], dtype=bool)
    # errors score .3, .5, .9 against .1 .1 .2 .3 .4: (3.5 + 5 + 5) / 15
    assert ranking.auroc(score[correct], score[~correct]) == pytest.approx(0.9)
    assert ranking.augrc(score, correct) == 0.09375


@pytest.mark.parametrize("seed", range(8))
def test_augrc_is_the_trapezoid_of_the_curve_and_the_identity_with_auroc(seed):
    rng = np.random.default_rng(seed)
    score, correct = rng.integers(12, size=60).astype(float), rng.random(60) < 0.7  # many ties
    curve = metrics.risk_curve(score=score, correct=correct)
    area = ranking.augrc(score, correct)
    assert area == pytest.approx(np.trapezoid(curve.generalized, curve.coverage))
    accuracy = correct.mean()
    found = ranking.auroc(score[correct], score[~correct])
    assert area == pytest.approx((1 - found) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2)
    assert metrics.augrc(score=score, correct=correct) == area
    assert metrics.auroc(inlier=score[correct], outlier=score[~correct]) == found
