"""CV+ and jackknife+ intervals: a hand-worked case, a literal reference, nestedness, simulated coverage, messages."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import CaveatWarning, InputError, NotFittedError
from caveat.conformal import CrossIntervals


def rows(n=50, test=12, models=4, seed=0):
    rng = np.random.default_rng(seed)
    y, fold = rng.normal(size=n), rng.permutation(n) % models
    return y, fold, y + rng.normal(size=n), rng.normal(size=(test, models))


def literal(reach, fold, low, high, alpha):
    """The ends by the definition, one row at a time."""
    n = reach.size
    least, most = math.floor(alpha * (n + 1) + 1e-9), math.ceil((1 - alpha) * (n + 1) - 1e-9)
    ends = []
    for row_low, row_high in zip(low, high, strict=True):
        lower = sorted(row_low[fold[i]] - reach[i] for i in range(n))
        upper = sorted(row_high[fold[i]] + reach[i] for i in range(n))
        ends.append([lower[least - 1] if least else -np.inf, upper[most - 1] if most <= n else np.inf])
    return np.array(ends)


def test_jackknife_plus_by_hand():
    # residuals 1, 2, 3, 0; alpha = .2, n + 1 = 5: smallest lower end, largest upper end
    intervals = CrossIntervals(alpha=0.2).calibrate([1, 2, 3, 4], folds=[0, 1, 2, 3], mean=[0, 4, 0, 4])
    # lower ends 10 - 1, 11 - 2, 12 - 3, 20 - 0; upper ends 11, 13, 15, 20
    np.testing.assert_allclose(intervals.predict(mean=[[10, 11, 12, 20]]).bounds, [[9, 20]])
    # alpha = .4: the second smallest and the third smallest
    np.testing.assert_allclose(intervals.at(0.4).predict(mean=[[10, 11, 12, 20]]).bounds, [[9, 15]])
    assert intervals.level_ == pytest.approx(0.6)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3, 0.5])
def test_the_three_scores_follow_the_definition(alpha):
    y, fold, mean, test = rows()
    scale, wide = np.abs(mean) + 0.5, np.abs(test) + 0.5
    plain = CrossIntervals(alpha=alpha).calibrate(y, fold, mean=mean).predict(mean=test)
    np.testing.assert_allclose(plain.bounds, literal(np.abs(y - mean), fold, test, test, alpha), rtol=1e-12)
    quantiles = CrossIntervals("cqr", alpha=alpha).calibrate(y, fold, lower=mean - 1, upper=mean + 0.5)
    reach = np.maximum(mean - 1 - y, y - mean - 0.5)
    np.testing.assert_allclose(
        quantiles.predict(lower=test - 1, upper=test + 0.5).bounds, literal(reach, fold, test - 1, test + 0.5, alpha),
        rtol=1e-12,
    )  # fmt: skip
    scaled = CrossIntervals("normalized", alpha=alpha).calibrate(y, fold, mean=mean, scale=scale)
    predicted, reach = scaled.predict(mean=test, scale=wide), np.abs(y - mean) / scale
    for j in range(12):
        low = np.sort(test[j, fold] - reach * wide[j, fold])[math.floor(alpha * 51 + 1e-9) - 1]
        high = np.sort(test[j, fold] + reach * wide[j, fold])[math.ceil((1 - alpha) * 51 - 1e-9) - 1]
        np.testing.assert_allclose(predicted.bounds[j], [low, high], rtol=1e-12)


def test_groups_are_calibrated_apart():
    y, fold, mean, test = rows()
    group, test_group = np.arange(50) % 2, np.arange(12) % 3 // 2
    predicted = (
        CrossIntervals(alpha=0.2).calibrate(y, fold, mean=mean, groups=group).predict(mean=test, groups=test_group)
    )
    for g in (0, 1):
        expected = literal(np.abs(y - mean)[group == g], fold[group == g], test, test, 0.2)
        np.testing.assert_allclose(predicted.bounds[test_group == g], expected[test_group == g], rtol=1e-12)


def test_models_that_agree_give_one_width():
    # with one model for all folds the interval is that of the residual quantile
    y, fold, mean, _ = rows()
    predicted = CrossIntervals(alpha=0.1).calibrate(y, fold, mean=mean).predict(mean=np.zeros((1, 4)))
    k = math.ceil(0.9 * 51)
    np.testing.assert_allclose(predicted.bounds, np.sort(np.abs(y - mean))[k - 1] * np.array([[-1, 1]]), rtol=1e-12)


def test_small_blocks_give_the_same(monkeypatch):
    y, fold, mean, test = rows()
    intervals = CrossIntervals().calibrate(y, fold, mean=mean)
    usual = intervals.predict(mean=test).bounds
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 1000)
    np.testing.assert_array_equal(intervals.predict(mean=test).bounds, usual)


@given(seed=st.integers(0, 10**6), small=st.floats(0.02, 0.45), step=st.floats(0.0, 0.5))
def test_a_smaller_alpha_gives_a_wider_interval(seed, small, step):
    y, fold, mean, test = rows(seed=seed)
    intervals = CrossIntervals().calibrate(y, fold, mean=mean)
    wide, narrow = (intervals.at(alpha).predict(mean=test) for alpha in (small, small + step))
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()


def least_squares_coverage(n, columns, folds, alpha, trials, rng):
    """Share of covered targets, one per trial, of least squares of minimal norm, refitted without each fold."""
    hits = 0
    for _ in range(trials):
        x = rng.normal(size=(n + 1, columns))
        y = x @ (rng.normal(size=columns) / math.sqrt(columns)) + rng.normal(size=n + 1)
        fold = np.arange(n) if folds is None else rng.permutation(n) % folds
        count = int(fold.max()) + 1
        weights = [np.linalg.lstsq(x[:n][fold != k], y[:n][fold != k], rcond=None)[0] for k in range(count)]
        by_model = x @ np.transpose(weights)
        intervals = CrossIntervals(alpha=alpha).calibrate(y[:n], fold, mean=by_model[np.arange(n), fold])
        hits += intervals.predict(mean=by_model[n:]).covers(y[n:])[0]
    return hits / trials, intervals.level_


@pytest.mark.parametrize(
    ("n", "columns", "folds"),
    [(30, 3, None), (20, 19, None), (39, 3, 3), (39, 25, 3)],
    ids=["jackknife+", "jackknife+, unstable", "CV+", "CV+, unstable"],
)
def test_coverage_is_what_is_typical_and_above_what_is_proven(n, columns, folds):
    # as many columns as rows make least squares unstable: the case where the plain jackknife fails (Barber et al.)
    trials, alpha = 400, 0.2
    share, proven = least_squares_coverage(n, columns, folds, alpha, trials, np.random.default_rng(n + columns))
    assert share > max(proven, 1 - alpha - 4 * math.sqrt(alpha * (1 - alpha) / trials))
    if columns == 3:
        assert share < 1 - alpha + 2 / n + 4 * math.sqrt(alpha * (1 - alpha) / trials)


def test_a_tie_with_a_calibration_row_is_covered():
    rng = np.random.default_rng(5)
    y, mean = rng.random(9) * 0.1, rng.random(9)
    fold = np.arange(9)
    predicted = CrossIntervals(alpha=0.1).calibrate(y, fold, mean=mean).predict(mean=np.tile(mean[:, None], (1, 9)))
    assert predicted.covers(y)[np.argmax(np.abs(y - mean))]


def test_too_few_rows_give_the_whole_line_with_a_warning():
    with pytest.warns(CaveatWarning, match="n = 4 is too small"):
        intervals = CrossIntervals(alpha=0.1).calibrate([1, 2, 3, 4], [0, 1, 0, 1], mean=[1, 2, 3, 4])
    predicted = intervals.predict(mean=[[1, 2]])
    assert np.isinf(predicted.bounds).all()
    assert predicted.level == 1


def test_clear_errors():
    y, fold, mean, test = rows()
    intervals = CrossIntervals().calibrate(y, fold, mean=mean)
    with pytest.raises(NotFittedError, match="seen no rows"):
        CrossIntervals().predict(mean=test)
    with pytest.raises(InputError, match=r"mean must have one column per fold \(4\), got 3"):
        intervals.predict(mean=test[:, :3])
    with pytest.raises(InputError, match="mean is None"):
        intervals.predict(lower=test, upper=test)
    with pytest.raises(InputError, match="scale must be positive"):
        CrossIntervals("normalized").calibrate(y, fold, mean=mean, scale=mean**2 + 1).predict(
            mean=test, scale=-(test**2)
        )
    with pytest.raises(InputError, match="same shape"):
        CrossIntervals("cqr").calibrate(y, fold, lower=mean, upper=mean).predict(lower=test, upper=test[:3])
    with pytest.raises(InputError, match="calibrated without groups and are now asked with"):
        intervals.predict(mean=test, groups=np.zeros(12, dtype=int))
    with pytest.raises(InputError, match="was not seen"):
        CrossIntervals().calibrate(y, fold, mean=mean, groups=np.arange(50) % 2).predict(
            mean=test, groups=np.full(12, 5))  # fmt: skip
    every = CrossIntervals(unseen="all").calibrate(y, fold, mean=mean, groups=np.arange(50) % 2)
    assert np.isinf(every.predict(mean=test, groups=np.full(12, 5)).bounds).all()
    with pytest.raises(InputError, match="unknown nonconformity score of regression"):
        CrossIntervals("lac")
    with pytest.raises(InputError, match="alpha must be"):
        intervals.at(2)
