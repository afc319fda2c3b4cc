"""The rank urn gives independent, uniform p-values on quiet streams, in batches of any size, with ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from caveat import InputError
from caveat.drift import RankUrn
from caveat.drift.rank_urn import _earlier


def literal(urn, scores):
    """The formula point by point, with lists."""
    n = urn.calibration.size
    weights = [1] * (n + 1)
    gaps, uniform = RankUrn.__dict__["_draw"](urn, np.asarray(scores, dtype=float))
    p_values = []
    for gap, u in zip(gaps, uniform, strict=True):
        p_values.append((sum(weights[gap + 1 :]) + u * weights[gap]) / sum(weights))
        weights[gap] += 1
    return p_values


def test_gaps_by_hand():
    urn = RankUrn([1.0, 2.0, 3.0])
    gaps, uniform = urn._draw(np.array([0.5, 1.5, 2.5, 9.0, -np.inf, np.inf]))
    assert gaps.tolist() == [0, 1, 2, 3, 0, 3]
    assert ((uniform > 0) & (uniform < 1)).all()


def test_the_first_p_value_lies_in_its_gap():
    # two of four gaps lie above 1.5: p is between 2/4 and 3/4, wherever U falls
    first = [RankUrn([1.0, 2.0, 3.0], seed=seed).update([1.5])[0] for seed in range(200)]
    assert min(first) >= 0.5
    assert max(first) < 0.75
    # 2.5 again: gap 2 holds one point now, one gap above: (1 + 2 U) / 5
    second = [RankUrn([1.0, 2.0, 3.0], seed=seed).update([2.5, 2.5])[1] for seed in range(200)]
    assert 0.2 <= min(second) < 0.25
    assert 0.55 < max(second) < 0.6


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40),
    m=st.integers(1, 300),
    levels=st.sampled_from([2, 7, 10**6]),
    cuts=st.lists(st.integers(0, 300), max_size=6),
    seed=st.integers(0, 99),
)
def test_batches_of_any_size_equal_the_formula(n, m, levels, cuts, seed):
    rng = np.random.default_rng(seed)
    calibration, scores = rng.integers(levels, size=n).astype(float), rng.integers(levels, size=m).astype(float)
    urn = RankUrn(calibration, seed=seed)
    parts = [urn.update(part) for part in np.split(scores, sorted(min(cut, m) for cut in cuts)) if part.size]
    assert np.concatenate(parts).tolist() == literal(RankUrn(calibration, seed=seed), scores)
    assert urn.t == urn.counts.sum() == urn.row == m


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 700), levels=st.sampled_from([1, 3, 40, 10**6]), seed=st.integers(0, 99))
def test_earlier_points_are_counted_as_one_by_one(size, levels, seed):
    gaps = np.random.default_rng(seed).integers(levels, size=size)
    above, here = _earlier(gaps)
    assert above.tolist() == [(gaps[:i] > gap).sum() for i, gap in enumerate(gaps)]
    assert here.tolist() == [(gaps[:i] == gap).sum() for i, gap in enumerate(gaps)]


@pytest.mark.parametrize("size", [255, 256, 257, 640])
def test_as_many_points_above_as_came_before(size):
    above, _ = _earlier(np.arange(size)[::-1])
    assert above.tolist() == list(range(size))


@settings(max_examples=60, deadline=None)
@given(
    calibration=st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf]) | st.floats(-2, 2), min_size=1),
    scores=st.lists(st.sampled_from([-np.inf, -1.0, -0.0, 0.5, 2.0, np.inf]) | st.floats(-2, 2), min_size=1),
    seed=st.integers(0, 9),
)
def test_the_gap_of_a_score_is_its_place_among_tagged_scores(calibration, scores, seed):
    urn = RankUrn(calibration, seed=seed)
    values, scores = np.unique(urn.calibration).tolist(), np.array(scores)
    tags = np.random.Philox(key=urn._key, counter=0).random_raw(4 * scores.size).reshape(-1, 4)[:, 1] >> np.uint64(32)
    gaps, _ = urn._draw(scores)
    for gap, score, tag in zip(gaps.tolist(), scores.tolist(), tags.tolist(), strict=True):
        place = sum(value < score for value in values) + (tag / 2**32 if score in values else 0.0)
        assert gap == (urn._places < place).sum()


def test_more_gaps_than_one_coarse_sum_give_the_same():
    rng = np.random.default_rng(3)
    calibration, scores = rng.normal(size=5000), rng.normal(size=400)
    whole, single = RankUrn(calibration).update(scores), RankUrn(calibration)
    assert whole.tolist() == [single.update([score])[0] for score in scores]


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("n", [1, 10, 100])
def test_quiet_streams_give_independent_uniform_p_values(n, levels):
    rng = np.random.default_rng(n)

    def draw(size):
        return rng.normal(size=size) if levels is None else rng.integers(levels, size=size).astype(float)

    p = np.array([RankUrn(draw(n), seed=seed).update(draw(200)) for seed in range(400)])
    assert kstest(p.ravel(), "uniform").pvalue > 1e-3
    assert kstest(p[:, -1], "uniform").pvalue > 1e-3  # the last of each stream too
    lag = np.corrcoef(p[:, 1:].ravel(), p[:, :-1].ravel())[0, 1]
    assert abs(lag) < 4 / np.sqrt(p[:, 1:].size)
    ends = np.corrcoef(p[:, 0], p[:, -1])[0, 1]
    assert abs(ends) < 4 / np.sqrt(400)


def test_p_values_of_a_fixed_calibration_set_depend_on_each_other():
    # the contrast: with n = 10 the mean p-value of a long stream varies with the calibration set
    rng = np.random.default_rng(0)
    fixed, urn = [], []
    for seed in range(300):
        calibration, scores = rng.normal(size=10), rng.normal(size=200)
        fixed.append(((calibration >= scores[:, None]).sum(axis=1) + rng.random(200)).mean() / 11)
        urn.append(RankUrn(calibration, seed=seed).update(scores).mean())
    independent = 1 / np.sqrt(12 * 200)
    assert np.std(fixed) > 3 * independent
    assert np.std(urn) == pytest.approx(independent, rel=0.2)


def test_a_state_goes_on_bit_for_bit():
    rng = np.random.default_rng(1)
    calibration, scores = rng.normal(size=30), rng.normal(size=100)
    urn, other = RankUrn(calibration, seed=5), RankUrn(calibration, seed=5)
    urn.update(scores[:40])
    other.restore(urn.state())
    assert urn.update(scores[40:]).tolist() == other.update(scores[40:]).tolist()


def test_a_restart_forgets_the_stream_but_uses_new_random_numbers():
    urn = RankUrn([0.0, 1.0], seed=2)
    first = urn.update([0.5])[0]
    urn.restart()
    assert urn.t == 0
    assert urn.update([0.5])[0] != first


@pytest.mark.parametrize("scores", [[np.nan], [[1.0, 2.0]]])
def test_bad_scores_are_refused_and_change_nothing(scores):
    urn = RankUrn([0.0, 1.0])
    with pytest.raises(InputError, match="scores"):
        urn.update(scores)
    assert urn.row == 0
