"""Prediction intervals: by hand, promises by simulation, groups, PAC, SSCP, and clear errors."""

import math

import numpy as np
import pytest

from caveat.conformal import DifficultyIntervals, DifficultyModel, SplitIntervals
from caveat.errors import CaveatWarning, InputError, NotFittedError
from caveat.results import Intervals


def test_by_hand():
    y, mean = [1.0, 2.0, 3.0, 4.0], [1.5, 2.25, 3.0, 5.0]
    # |error| .5 .25 0 1; alpha .4: k = ceil(5 * .6) = 3, threshold .5
    found = SplitIntervals("absolute", alpha=0.4).calibrate(y, mean=mean).predict(mean=[10.0])
    assert found.bounds.tolist() == [[9.5, 10.5]]
    assert found.level == 3 / 5
    # divided by scales 1 .5 1 4: .5 .5 0 .25; the third smallest is .5
    found = (
        SplitIntervals("normalized", alpha=0.4)
        .calibrate(y, mean=mean, scale=[1, 0.5, 1, 4])
        .predict(mean=[10.0], scale=[3.0])
    )
    assert found.bounds.tolist() == [[8.5, 11.5]]
    # cqr: max(lower - y, y - upper) = -.5, .5, -.25, 0; the third smallest is 0
    cqr = SplitIntervals("cqr", alpha=0.4).calibrate(y, lower=[0, 2.5, 2.5, 3], upper=[1.5, 3, 3.25, 4])
    assert cqr.predict(lower=[1.0], upper=[2.0]).bounds.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("score", ["absolute", "normalized", "cqr"])
def test_coverage_is_exact_over_calibration_sets(score):
    # n = 39, alpha = .25: k = 30, so that coverage is 30 / 40
    rng, n, trials, hits = np.random.default_rng(1), 39, 500, []
    for _ in range(trials):
        x = rng.random(n + 20)
        y = x + rng.normal(size=x.size) * (0.2 + x)
        said = {
            "absolute": {"mean": x},
            "normalized": {"mean": x, "scale": 0.2 + x},
            "cqr": {"lower": x - 0.5, "upper": x + 0.7},
        }[score]
        intervals = SplitIntervals(score, alpha=0.25).calibrate(y[:n], **{k: v[:n] for k, v in said.items()})
        hits.append(intervals.predict(**{k: v[n:] for k, v in said.items()}).coverage(y[n:]))
    assert abs(np.mean(hits) - 0.75) < 4 * np.std(hits) / math.sqrt(trials)


@pytest.mark.parametrize("score", ["absolute", "normalized", "cqr"])
def test_a_value_that_ties_with_the_threshold_is_in_its_interval(score):
    # 6.83 - |6.83 - 0.9| is 0.9000000000000004: of discrete targets a third would miss by a rounding error.
    mean, y = (grid.ravel() for grid in np.meshgrid(np.arange(0, 1000, 7) / 100, np.arange(-50, 50) / 10))
    for m, true in zip(mean[::37], y[::37], strict=True):
        said = {
            "absolute": {"mean": [m]},
            "normalized": {"mean": [m], "scale": [0.3 + m]},
            "cqr": {"lower": [m - 0.1], "upper": [m + 0.1]},
        }[score]
        found = SplitIntervals(score, alpha=0.5).calibrate([true], **said).predict(**said)
        assert found.covers([true]).all()
        assert found.widths[0] <= 2 * abs(m - true) + 1e-12


def test_groups_and_difficulty_bins_cover_within_each():
    rng, trials = np.random.default_rng(2), 100
    inside, plain = [], []
    for _ in range(trials):
        easy = rng.random(900)
        y = rng.normal(size=900) * np.where(easy < 0.25, 4.0, 1.0)
        zero = np.zeros(900)
        by_bin = DifficultyIntervals("absolute", alpha=0.2, bins=4)
        by_bin.calibrate(y[:400], ease=easy[:400], binning=easy[400:600], mean=zero[:400])
        found = by_bin.predict(ease=easy[600:], mean=zero[600:])
        one = SplitIntervals("absolute", alpha=0.2).calibrate(y[:400], mean=zero[:400]).predict(mean=zero[600:])
        hard = easy[600:] < 0.2
        inside.append(found.covers(y[600:])[hard].mean())
        plain.append(one.covers(y[600:])[hard].mean())
    assert abs(np.mean(inside) - 0.8) < 0.015 + 4 * np.std(inside) / math.sqrt(trials)
    assert np.mean(plain) < 0.6
    assert found.caveat == ""


def test_pac_intervals_are_wider_and_say_so():
    rng = np.random.default_rng(3)
    y = rng.normal(size=500)
    pac = SplitIntervals(alpha=0.2, delta=0.01).calibrate(y, mean=np.zeros(500))
    plain = SplitIntervals(alpha=0.2).calibrate(y, mean=np.zeros(500))
    assert pac.thresholds_[0] > plain.thresholds_[0]
    assert "with confidence 0.99" in str(pac.predict(mean=[0.0]))
    with pytest.warns(CaveatWarning, match="too small for alpha = 0.2 with confidence 0.99"):
        few = SplitIntervals(alpha=0.2, delta=0.01).calibrate(y[:10], mean=np.zeros(10))
    assert few.predict(mean=[0.0]).bounds.tolist() == [[-np.inf, np.inf]]


def test_clear_errors():
    y = np.zeros(5)
    with pytest.raises(InputError, match="score 'normalized' needs mean and scale; scale is None"):
        SplitIntervals("normalized").calibrate(y, mean=y)
    with pytest.raises(InputError, match="score 'absolute' needs mean; lower is given but not used"):
        SplitIntervals().calibrate(y, mean=y, lower=y)
    with pytest.raises(InputError, match=r"scale must be positive, got 0.* at row 2"):
        SplitIntervals("normalized").calibrate(y, mean=y, scale=[1, 1, 0, 1, 1])
    with pytest.raises(InputError, match="mean and y must have the same length, got 2 and 5"):
        SplitIntervals().calibrate(y, mean=[0.0, 0.0])
    with pytest.raises(NotFittedError, match="Call calibrate"):
        SplitIntervals().predict(mean=y)
    grouped = SplitIntervals(alpha=0.5).calibrate(y, mean=y, groups=[0, 0, 1, 1, 1])
    with pytest.raises(InputError, match="calibrated with groups and are now asked without"):
        grouped.predict(mean=y)
    with pytest.raises(InputError, match="group 7 at row 0 was not seen"):
        grouped.predict(mean=[0.0], groups=[7])
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        SplitIntervals(alpha=1.0)
    with pytest.raises(InputError, match="at least half of the residuals are 0"):
        DifficultyModel().fit(np.ones((4, 1)), [0, 0, 0, 1])
    with pytest.raises(InputError, match="both to fit and to scale"):
        DifficultyModel().fit(np.arange(40.0)[:, None], np.ones(40)).scale([[1.0]], loss=[1.0])


def test_another_alpha_is_the_same_as_calibrating_with_it():
    rng = np.random.default_rng(7)
    y, mean, groups = rng.normal(size=80), rng.normal(size=80), np.arange(80) % 2
    intervals = SplitIntervals(alpha=0.1).calibrate(y, mean=mean, groups=groups)
    here = intervals.at(0.3).predict(mean=mean, groups=groups)
    there = SplitIntervals(alpha=0.3).calibrate(y, mean=mean, groups=groups).predict(mean=mean, groups=groups)
    np.testing.assert_array_equal(here.bounds, there.bounds)
    assert (here.alpha, here.level, intervals.alpha) == (0.3, there.level, 0.1)
    assert (intervals.predict(mean=mean, groups=groups).widths > here.widths).all()
    with pytest.raises(NotFittedError, match="no threshold yet"):
        SplitIntervals().at(0.2)
    with pytest.raises(InputError, match="alpha must be"):
        intervals.at(0)


def test_bounds_are_the_ends_without_a_copy_and_the_order_of_the_rows_is_kept():
    rng = np.random.default_rng(0)
    y, mean = rng.normal(size=50), rng.normal(size=50)
    intervals = SplitIntervals("absolute", alpha=0.2).calibrate(y, mean=mean)
    made = intervals.predict(mean=mean)
    np.testing.assert_array_equal(made.bounds, np.column_stack([made.lower, made.upper]))
    assert np.shares_memory(made.bounds, made.lower)
    swapped = Intervals(made.upper, made.lower, alpha=0.2, level=0.8)
    np.testing.assert_array_equal(swapped.bounds, np.column_stack([made.upper, made.lower]))
    # a threshold that was selected, and the same from the sorted scores
    assert intervals.at(0.2).thresholds_[0] == intervals.thresholds_[0] == np.sort(np.abs(mean - y))[40]
    np.testing.assert_array_equal(intervals.grouped_.scores, np.sort(np.abs(mean - y)))
