"""Metrics of prediction intervals."""

import numpy as np
import pytest

from caveat import metrics
from caveat.errors import CaveatWarning, InputError
from caveat.results import Intervals


def test_r2_and_tau_by_hand():
    # bins of two by width: mean widths 1.5, 3.5; mean errors .5, 2: a line through two points
    assert metrics.width_error_r2(widths=[1, 2, 3, 4], errors=[0, 1, 3, -1], bins=2) == pytest.approx(1.0)
    assert metrics.width_error_r2(widths=[1, 2, 3, 4], errors=[3, 1, 0, 1], bins=2) == pytest.approx(-1.0)
    # pairs: (1,2) up, (1,3) up, (2,3) down: (2 - 1) / 3
    assert metrics.width_error_tau(widths=[1, 2, 3], errors=[0.1, 0.9, -0.5]) == pytest.approx(1 / 3)


def test_constant_widths_say_nothing():
    with pytest.warns(CaveatWarning, match="all widths are equal"):
        assert np.isnan(metrics.width_error_r2(widths=[1, 1, 1], errors=[1, 2, 3], bins=3))
    with pytest.warns(CaveatWarning, match="all widths are equal"):
        assert np.isnan(metrics.width_error_tau(widths=[1, 1, 1], errors=[1, 2, 3]))


def test_rounding_of_equal_widths_is_not_variation():
    mean = np.random.default_rng(0).normal(size=500) * 1e3
    same = Intervals(mean - 0.1, mean + 0.1, alpha=0.1, level=0.9)
    assert np.ptp(same.widths) > 0
    found = metrics.interval_adaptivity(same, y=mean + 0.05, mean=mean)
    assert np.isnan(found["tau"])
    assert np.isnan(found["R2"])


def test_everything_at_once():
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 3, 4000)
    y = spread * rng.normal(size=4000)
    wide = Intervals(-1.645 * spread, 1.645 * spread, alpha=0.1, level=0.9)
    flat = Intervals(np.full(4000, -3.2), np.full(4000, 3.2), alpha=0.1, level=0.9)
    good = metrics.interval_adaptivity(wide, y=y, mean=np.zeros(4000), ease=-spread, bins=20)
    bad = metrics.interval_adaptivity(flat, y=y, mean=np.zeros(4000), ease=-spread, bins=20)
    assert abs(good["coverage"] - 0.9) < 0.02
    assert good["T-SS"] > 0.9 > bad["T-SS"] == 0
    assert good["T-CV"] < 0.1 < bad["T-CV"]
    assert good["R2"] > 0.9
    assert good["tau"] > 0.2
    assert np.isnan(bad["R2"])
    endless = Intervals(np.full(4000, -np.inf), np.full(4000, np.inf), alpha=0.1, level=1.0)
    found = metrics.interval_adaptivity(endless, y=y, mean=np.zeros(4000), ease=-spread)
    assert found["width"] == np.inf
    assert np.isnan(found["T-SS"])


def test_clear_errors():
    with pytest.raises(InputError, match=r"widths and errors must have the same length, got 2 and 3"):
        metrics.width_error_tau(widths=[1, 2], errors=[1, 2, 3])
    with pytest.raises(InputError, match=r"bins must be .* at most 2, got 50"):
        metrics.width_error_r2(widths=[1, 2], errors=[1, 2])


def test_widths_that_differ_by_rounding_are_equal():
    """One width per bin: mean plus and minus it rounds differently in every row."""
    rng = np.random.default_rng(0)
    half, mean = np.repeat([0.1, 0.3], 200), 1000 * rng.normal(size=400)
    error = half * rng.random(400)
    widths = (mean + half) - (mean - half)
    assert np.unique(widths).size > 2
    plain = {"widths": 2 * half, "errors": error}
    rounded = plain | {"widths": widths}
    assert metrics.width_error_tau(**rounded) == metrics.width_error_tau(**plain)
    assert metrics.width_error_r2(**rounded) == pytest.approx(metrics.width_error_r2(**plain), abs=1e-8)
