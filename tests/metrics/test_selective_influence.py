from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat.metrics import augrc, aurc
from caveat.metrics._resampling import AREAS, Cells, resample
from caveat.metrics.selective import Steps
from caveat.metrics.selective_influence import INFLUENCES, Spread, area_spreads, row_influence, spread

VALUES = {"augrc": augrc, "aurc": aurc}
BOTH = pytest.mark.parametrize("metric", list(VALUES))
cases = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30)


def arrays(case):
    score, right = zip(*case, strict=True)
    return np.array(score, dtype=np.float64), np.array(right)


def influence(metric, score, right):
    return row_influence(metric, Steps.of(score, right), score, right)


def sample(n, rate=0.2, shift=1.5, seed=0, ties=False):
    rng = np.random.default_rng(seed)
    right = rng.random(n) >= rate
    score = rng.normal(size=n) + shift * ~right
    return (np.round(score, 1) if ties else score), right


def test_augrc_by_hand():
    # right, wrong, right: generalized risk 0, 1/3, 1/3, area (1/6 + 1/3) / 3 = 1/6. Middles of coverage 1/6, 1/2, 5/6,
    # of risk 0, 1/6, 1/3. u = 0 - 1/3, (1 - 1/2) + 1/6 - 1/3, 1/3 - 1/3
    area, moved = influence("augrc", np.array([1.0, 2, 3]), np.array([True, False, True]))
    assert area == pytest.approx(1 / 6)
    assert moved == pytest.approx([-1 / 3, 1 / 3, 0])


def test_aurc_by_hand():
    # right, wrong: risks 0, 1/2; area (0 + 0 + 0 + 1/2) / 4 = 1/8. c = 3/4, 1/4; c / a = 3/2, 1/4.
    # right, first: 0 - (0 + 1/8) + 0 - 1/8 = -1/4; wrong, last: 1/4 - 1/8 + 1/4 - 1/8 = 1/4
    area, moved = influence("aurc", np.array([1.0, 2]), np.array([True, False]))
    assert area == pytest.approx(1 / 8)
    assert moved == pytest.approx([-1 / 4, 1 / 4])


@BOTH
@given(case=cases)
def test_the_area_is_the_metric_and_influences_add_up_to_zero(metric, case):
    score, right = arrays(case)
    area, moved = influence(metric, score, right)
    assert area == VALUES[metric](score=score, correct=right)
    assert moved.sum() == pytest.approx(0, abs=1e-12)


@BOTH
@given(case=cases, row=st.integers(0, 29))
def test_influence_is_the_derivative_by_the_weight_of_a_row(metric, case, row):
    # one more copy of a row among many copies of all rows
    score, right = arrays(case)
    row, copies = row % score.size, 2000
    many = np.repeat(score, copies), np.repeat(right, copies)
    before = VALUES[metric](score=many[0], correct=many[1])
    after = VALUES[metric](score=np.append(many[0], score[row]), correct=np.append(many[1], right[row]))
    _, moved = influence(metric, score, right)
    assert (after - before) * (many[0].size + 1) == pytest.approx(moved[row], abs=2e-2)


@BOTH
@pytest.mark.parametrize("ties", [False, True])
def test_the_standard_error_agrees_with_leaving_out_one_row_at_a_time(metric, ties):
    score, right = sample(400, ties=ties)
    n = score.size
    left_out = [
        VALUES[metric](score=np.delete(score, row), correct=np.delete(right, row)) for row in range(n)
    ]  # fmt: skip
    jackknife = np.sqrt((n - 1) * np.var(left_out))
    assert area_spreads([metric], Steps.of(score, right))[metric][1].error == pytest.approx(jackknife, rel=0.02)


@BOTH
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_the_standard_error_agrees_with_the_bootstrap(metric, ties, shift):
    score, right = sample(600, shift=shift, ties=ties)
    drawn = resample([Cells(score, right)], [AREAS[metric]], resamples=2000, rng=np.random.default_rng(1))[:, 0, 0]
    error = area_spreads([metric], Steps.of(score, right))[metric][1].error
    # a standard deviation of 2,000 draws is known to 1.6 %; the rest is what a linear form leaves out at n = 600
    assert error == pytest.approx(drawn.std(), rel=0.06)


@BOTH
def test_the_standard_error_is_the_spread_over_samples(metric):
    # over 1,500 samples: their standard deviation is known to 1.8 %, the mean squared error to about 2 %
    draws = [area_spreads([metric], Steps.of(*sample(500, seed=seed)))[metric] for seed in range(1500)]
    mean_error = np.sqrt(np.mean([value.error**2 for _, value in draws]))
    assert np.std([area for area, _ in draws]) == pytest.approx(mean_error, rel=0.06)


@BOTH
@given(case=cases)
def test_counts_by_group_give_the_spread_of_the_rows(metric, case):
    score, right = arrays(case)
    by_group = area_spreads([metric], Steps.of(score, right))[metric][1]
    by_row = spread(influence(metric, score, right)[1])
    assert by_group.error == pytest.approx(by_row.error, abs=1e-12)
    if by_row.error > 1e-9:
        assert by_group.degrees == pytest.approx(by_row.degrees, rel=1e-6)


@BOTH
@pytest.mark.parametrize("wrong", [False, True])
def test_answers_of_one_kind_move_nothing(metric, wrong):
    score, right = np.random.default_rng(0).normal(size=1000), np.full(1000, not wrong)
    assert not influence(metric, score, right)[1].any()
    assert spread(influence(metric, score, right)[1]).error == 0


@BOTH
def test_the_order_of_rows_and_the_scale_of_scores_do_not_matter(metric):
    score, right = sample(200, ties=True)
    order = np.random.default_rng(2).permutation(200)
    _, moved = influence(metric, score, right)
    np.testing.assert_allclose(influence(metric, np.exp(score[order]), right[order])[1], moved[order], atol=1e-15)


def test_degrees_of_freedom_by_hand():
    # k of n rows weigh 1, the others 0: the kurtosis about 0 is n / k, so that there are 2 n / (n / k - 1) of them
    assert spread(np.repeat([1.0, 0.0], [10, 990])).degrees == pytest.approx(2 * 1000 / 99)
    assert spread(np.array([-1.0, 1.0] * 20)).degrees == 39  # every row weighs the same: at most n - 1
    assert spread(np.repeat([1.0, 0.0], [1, 999])).degrees == pytest.approx(2 * 1000 / 999)
    assert spread(np.array([3.0])) == Spread(0.0, 1.0)


def test_the_reach_is_the_quantile_of_students_t():
    # t of 4 degrees at 0.975 is 2.776445 in every table, that of the normal 1.959964
    assert Spread(2.0, 4.0).reach(0.05) == pytest.approx(2 * 2.776445, rel=1e-6)
    assert Spread(1.0, 1e9).reach(0.05) == pytest.approx(1.959964, rel=1e-6)


def test_both_metrics_have_an_influence():
    assert set(INFLUENCES) == set(VALUES)
