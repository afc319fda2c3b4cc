from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, plots
from caveat.conformal import FPRBand


def drawn_at(line, t):
    """What a step line shows at t: the value of the first point at or right of it."""
    x, y = line.get_data()
    assert line.get_drawstyle() == "steps-pre"
    return y[np.searchsorted(x, t, side="left")]


def test_the_lines_show_the_band_at_every_threshold():
    inlier = np.array([0.0, 1, 1, 2, 5, 5, 5, 8])
    band = FPRBand(inlier, delta=0.1)
    ax = plots.fpr_band(band)
    t = np.array([-0.2, 0.0, 0.5, 1.0, 1.5, 5.0, 7.9, 8.0, 8.2])
    for line, rate in zip(ax.lines, (band.upper, band.empirical, band.lower), strict=True):
        np.testing.assert_allclose(drawn_at(line, t), rate(t))


def test_the_legend_says_what_holds_and_for_which_side(legend):
    assert legend(plots.fpr_band(FPRBand(np.arange(50), delta=0.1)))[-1] == "90 % band, each side"
    assert legend(plots.fpr_band(FPRBand(np.arange(50), delta=0.1, two_sided=True)))[-1] == "90 % band"


def test_infinite_scores_are_left_out_and_only_they_are_refused():
    ax = plots.fpr_band(FPRBand([0.0, 1, np.inf]))
    assert np.isfinite(ax.get_xlim()).all()
    assert drawn_at(ax.lines[1], 1.02) == pytest.approx(1 / 3)
    with pytest.raises(InputError, match="finite inlier scores"):
        plots.fpr_band(FPRBand([np.inf, -np.inf]))


def test_a_large_band_is_thinned_by_less_than_a_pixel():
    inlier = np.random.default_rng(0).normal(size=20_000)
    band = FPRBand(inlier, method="dkwm")
    ax = plots.fpr_band(band)
    t = np.linspace(*ax.get_xlim(), 5000)
    for line, rate in zip(ax.lines, (band.upper, band.empirical, band.lower), strict=True):
        assert line.get_xdata().size < 5000
        assert np.abs(drawn_at(line, t) - rate(t)).max() <= 1 / 1999 + 1e-9


def test_equal_scores_can_be_drawn():
    ax = plots.fpr_band(FPRBand([3.0] * 20))
    assert ax.get_xlim() == (2, 4)
