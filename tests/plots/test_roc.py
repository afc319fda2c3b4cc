from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, plots
from caveat.conformal import FPRBand


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    return {"inlier": rng.normal(size=300), "outlier": rng.normal(1.5, size=200)}


def test_curve_by_hand(legend):
    # threshold 3 catches 1 of 2 outliers and no inlier; 1 catches the other one and 1 of 2 inliers
    ax = plots.roc(inlier=[0, 1], outlier=[1, 3])
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[0, 0], [0, 0.5], [0.5, 1], [1, 1]])
    assert legend(ax) == ["AUROC 0.875"]


def test_the_band_holds_the_curve_and_is_that_of_fpr_band(scores):
    ax = plots.roc(**scores, delta=0.1)
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    fpr, tpr = ax.lines[0].get_xydata().T
    assert band.get_paths()[0].contains_points(np.stack([fpr, tpr], axis=1)[5:-5:10], radius=1e-3).all()
    # the lower side at a false-positive rate: outliers above the lowest threshold whose upper bound is at most the rate
    exact = FPRBand(scores["inlier"], delta=0.1, two_sided=True)
    cuts = np.sort(scores["inlier"])
    allowed = cuts[exact.upper(np.nextafter(cuts, np.inf)) <= 0.25][0]
    wanted = np.mean(scores["outlier"] > allowed)
    drawn = corners[np.abs(corners[:, 0] - 0.25) < 1e-9, 1]
    assert np.isclose(drawn, wanted).any()


def test_a_smaller_delta_gives_a_wider_band(scores):
    def area(delta):
        x, y = plots.roc(**scores, delta=delta).collections[0].get_paths()[0].vertices.T
        return abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 2

    assert area(0.01) > area(0.2) > 0


def test_curves_on_one_axes_differ_without_color(scores, legend):
    ax = None
    for name in "abcd":
        ax = plots.roc(**scores, label=name, ax=ax)
    curves = [line for line in ax.lines if line.get_linewidth() > 1]
    # is_dashed is not public: the dash pattern is told apart by what linestyle the line was given
    assert len({str(line._unscaled_dash_pattern) for line in curves}) == 4
    assert [text.split(":")[0] for text in legend(ax)] == list("abcd")
    assert len(ax.lines) == 5  # the diagonal is drawn once


def test_nan_is_named():
    with pytest.raises(InputError, match="outlier has NaN"):
        plots.roc(inlier=[0.0], outlier=[np.nan])
