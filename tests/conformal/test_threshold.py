from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaincinv
from scipy.stats import beta

from caveat.conformal import FPRBand, boundary, required_n, threshold_for
from caveat.conformal.threshold import safe_rank
from caveat.errors import CaveatWarning, InputError


def test_by_hand():
    # n = 2. The largest: P(Beta(1, 2) <= 0.7) = 1 - 0.3^2 = 0.91 >= 0.9. The smaller: P(Beta(2, 1) <= 0.7) = 0.49.
    # 3 and 5 may have been float16, in which the next number above 5 is 5 + 2^-8.
    assert threshold_for([3.0, 5.0], false_alarm=0.7, delta=0.1) == 5 + 2**-8
    assert threshold_for([0.3, 0.5], false_alarm=0.7, delta=0.1) == np.nextafter(0.5, 1.0)  # only float64 has 0.3


@pytest.mark.parametrize(("n", "rate", "delta"), [(100, 0.1, 0.05), (1000, 0.05, 0.01), (333, 0.5, 0.5)])
def test_rank_is_the_largest_that_keeps_the_promise(n, rate, delta):
    i = np.arange(1, n + 1)
    keeps = beta(i, n + 1 - i).cdf(rate) >= 1 - delta
    assert safe_rank(n, rate, delta) == i[keeps].max()


@pytest.mark.parametrize(("n", "rate", "delta"), [(60, 0.1, 0.1), (200, 0.05, 0.2)])
def test_promise_is_kept_and_not_by_a_margin(n, rate, delta):
    rng, trials = np.random.default_rng(n), 5000
    wrong = sum(1 - threshold_for(rng.random(n), rate, delta) > rate for _ in range(trials))
    rank = safe_rank(n, rate, delta)
    exact = beta(rank, n + 1 - rank).sf(rate)  # a little below delta: ranks are whole numbers
    assert exact <= delta
    assert abs(wrong / trials - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


def test_promise_is_kept_with_ties():
    # Scores 0..9: flagging s >= t is flagging a share (10 - ceil(t)) / 10.
    rng, trials, rate, delta = np.random.default_rng(1), 3000, 0.25, 0.1
    wrong = 0
    for _ in range(trials):
        t = threshold_for(rng.integers(10, size=50), rate, delta)
        wrong += (np.arange(10) >= t).mean() > rate
    assert wrong / trials < delta + 4 * np.sqrt(delta * (1 - delta) / trials)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64])
def test_ties_in_any_number_type_are_kept_whole(kind):
    """900 scores apart and 100 that tie at the top: a float64 step above the tie would vanish in float32."""
    scores = np.concatenate([np.linspace(0, 900, 900), np.full(100, 1000)]).astype(kind)
    assert not (scores >= threshold_for(scores, false_alarm=0.05, delta=0.01)).any()


HELD_IN = {
    "torch float32": lambda scores: pytest.importorskip("torch").tensor(
        scores, dtype=pytest.importorskip("torch").float32
    ),
    "torch float16": lambda scores: pytest.importorskip("torch").tensor(
        scores, dtype=pytest.importorskip("torch").float16
    ),
    "list of np.float32": lambda scores: [np.float32(score) for score in scores],
    "list of np.float16": lambda scores: [np.float16(score) for score in scores],
    "big-endian float32": lambda scores: np.asarray(scores, dtype=">f4"),
    "big-endian float64": lambda scores: np.asarray(scores, dtype=">f8"),
    "longdouble": lambda scores: np.asarray(scores, dtype=np.longdouble),
    "float16 array": lambda scores: np.asarray(scores, dtype=np.float16),
    "float32 array": lambda scores: np.asarray(scores, dtype=np.float32),
    "float64 array": np.asarray,
    "list": list,
}


@pytest.mark.parametrize("held", HELD_IN)
def test_a_tied_group_is_not_flagged_however_the_scores_are_held(held):
    # 70 scores apart and 30 that tie above them at 0.1, which no float type holds: 10 % of false alarms are allowed.
    scores = [*np.linspace(0, 0.09, 70).tolist(), *[0.1] * 30]
    inlier = HELD_IN[held](scores)
    t = threshold_for(inlier, false_alarm=0.1, delta=0.1)
    kind = getattr(inlier, "dtype", None)
    flagged = inlier >= t if kind is not None else [score >= t for score in inlier]
    assert int(sum(bool(flag) for flag in flagged)) == 0
    assert t < 0.101


@pytest.mark.parametrize("stored", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("compared", [np.float16, np.float32, np.float64, np.longdouble])
def test_the_same_scores_are_flagged_in_every_type_that_holds_them(stored, compared):
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e4):
        scores = (scale * rng.normal(size=200).round(1)).astype(stored)
        if compared(scores.dtype.type(1)).nbytes < scores.itemsize:
            continue
        exact = threshold_for(scores, 0.1, 0.1)
        expected = scores.astype(np.longdouble) >= np.longdouble(exact)
        again = threshold_for(scores.astype(compared), 0.1, 0.1)
        in_type = scores.astype(compared)
        np.testing.assert_array_equal(in_type >= again, expected)  # numpy rounds a Python float to the array's type
        np.testing.assert_array_equal(in_type >= compared(again), expected)
        assert 0 < expected.sum() < 20


def test_infinite_inliers_beyond_the_rate_leave_no_threshold():
    # A tenth scores inf: flagging "inf or more" would be a tenth of false alarms where a twentieth is allowed.
    scores = np.append(np.arange(900.0), np.full(100, np.inf))
    with pytest.raises(InputError, match="inlier has 100 infinite scores among 1000, too many for a false-alarm rate"):
        threshold_for(scores, 0.05, 0.05)
    assert np.mean(scores >= threshold_for(scores, 0.15, 0.05)) < 0.15


def test_too_few_is_infinite_with_a_sentence():
    # (1 - 0.05)^89 = 0.0104 > 0.01 >= 0.95^90 = 0.0099
    with pytest.warns(CaveatWarning, match=r"n = 89 is too small .* Calibrate on 90 samples or more"):
        assert threshold_for(np.arange(89), 0.05, 0.01) == np.inf
    assert np.isfinite(threshold_for(np.arange(90), 0.05, 0.01))


def test_smaller_than_the_band_asks_for():
    # One threshold needs no simultaneous promise, so it may be lower than the band's.
    scores = np.random.default_rng(2).normal(size=500)
    band = FPRBand(scores, delta=0.05)
    t = threshold_for(scores, 0.1, 0.05)
    assert band.upper(t) > 0.1


def test_constant_scores_flag_only_what_is_stranger():
    assert threshold_for(np.zeros(200), 0.05, 0.05) == 2**-24  # the smallest float16 above 0


def test_required_n_is_the_smallest():
    for simultaneous in (True, False):
        n = required_n(0.1, 0.05, 0.1, simultaneous=simultaneous)

        def bound(n: int, simultaneous: bool = simultaneous) -> float:
            eta = 1 - beta(1, n).cdf(boundary(n, 0.1)[0]) if simultaneous else 0.1
            return float(betaincinv(0.1 * n + 1, 0.9 * n, 1 - eta))

        assert bound(n) <= 0.15 + 1e-9
        assert bound(n - 1) > 0.15


def test_required_n_delivers_the_margin():
    fpr, margin, delta = 0.05, 0.03, 0.05
    n = required_n(fpr, margin, delta)
    assert FPRBand(np.arange(n), delta=delta).upper(n - np.floor(fpr * n)) <= fpr + margin
    short = int(0.9 * n)
    assert FPRBand(np.arange(short), delta=delta).upper(short - np.floor(fpr * short)) > fpr + margin


def test_required_n_grows_with_what_is_asked():
    assert required_n(0.05, 0.02, 0.05) > required_n(0.05, 0.04, 0.05)
    assert required_n(0.05, 0.04, 0.01) > required_n(0.05, 0.04, 0.1)
    assert required_n(0.2, 0.04, 0.1, simultaneous=False) > required_n(0.05, 0.04, 0.1, simultaneous=False)
    assert required_n(0.05, 0.9, 0.5) >= 1


def test_errors():
    with pytest.raises(InputError, match="false_alarm must be strictly between 0 and 1"):
        threshold_for([1.0], 1.0, 0.1)
    with pytest.raises(InputError, match="inlier has NaN"):
        threshold_for([np.nan], 0.1, 0.1)
    with pytest.raises(InputError, match=r"fpr \+ margin must be below 1"):
        required_n(0.6, 0.5, 0.1)
    with pytest.raises(InputError, match="margin must be strictly between 0 and 1"):
        required_n(0.6, 0.0, 0.1)


def test_a_margin_that_no_calibration_set_can_keep_is_refused():
    for simultaneous in (True, False):
        with pytest.raises(InputError, match="margin must be larger"):
            required_n(0.3, 1e-12, simultaneous=simultaneous)
