from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


numbers = st.lists(st.integers(0, 6).map(float) | st.just(np.inf) | st.just(-np.inf), min_size=1, max_size=25)


@given(first=numbers, second=numbers)
def test_cross_shares_are_counts_of_pairs(first, second):
    first, second = np.sort(first), np.sort(second)
    above = (first[:, None] > second).astype(float) + (first[:, None] == second) / 2
    of_first, of_second = ranking.cross_shares(first, second)
    assert of_first.tolist() == above.mean(axis=1).tolist()
    assert of_second == pytest.approx(1 - above.mean(axis=0))


@given(values=numbers, seed=st.integers(0, 5))
def test_a_part_is_ranked_as_if_it_were_sorted_alone(values, seed):
    values = np.array(values)
    rows = np.random.default_rng(seed).random(values.size) < 0.6
    part = ranking.Ranked.of(values).part(rows)
    np.testing.assert_array_equal(part.ascending, np.sort(values[rows]))
    np.testing.assert_array_equal(part.by_row(part.ascending), values[rows])
