from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, plots
from caveat.evaluation.curves import histogram as common_bins


def test_heights_are_the_shares_in_common_bins():
    rng = np.random.default_rng(0)
    inlier, far = rng.normal(size=300), rng.normal(2, size=100)
    ax = plots.histogram(inlier=inlier, outliers={"far": far})
    bins = common_bins({"inlier": inlier, "far": far})
    for patch, shares in zip(ax.patches, bins.shares.values(), strict=True):
        np.testing.assert_allclose(patch.get_data().values, shares)
        np.testing.assert_allclose(patch.get_data().edges, bins.edges)
    assert [patch.get_fill() for patch in ax.patches] == [True, False]


def test_the_legend_has_the_shares_at_or_above_the_threshold(legend):
    # 2 and 3 of four inliers; 2 and 9 of three outliers: the threshold itself is rejected
    ax = plots.histogram(inlier=[0, 1, 2, 3], outliers=[1, 2, 9], threshold=2)
    assert legend(ax) == ["inliers: 50.0 % rejected", "outliers: 66.7 % caught", "threshold 2"]


def test_far_outliers_leave_room_for_the_inliers():
    rng = np.random.default_rng(0)
    inlier = rng.normal(size=1000)
    ax = plots.histogram(inlier=inlier, outliers={"far": np.exp(rng.normal(9, 2, size=500))})
    low, high = ax.transAxes.inverted().transform(ax.transData.transform([[-1, 0], [1, 0]]))[:, 0]
    assert high - low > 0.05  # on an even axis: less than a thousandth
    assert ax.xaxis.get_major_locator()().size >= 6
    there = ax.transData.transform([[x, 0.0] for x in (-50.0, 0.0, 3.0, 1e9)])
    np.testing.assert_allclose(ax.transData.inverted().transform(there)[:, 0], [-50, 0, 3, 1e9], atol=1e-6)


@pytest.mark.parametrize("threshold", [-40.0, 40.0])
def test_a_threshold_beyond_the_bins_is_seen(threshold):
    ax = plots.histogram(inlier=[0, 1, 2], outliers=[2, 3], threshold=threshold)
    low, high = ax.get_xlim()
    assert low <= threshold <= high


def test_a_constant_score_can_be_drawn():
    plots.histogram(inlier=[1.0, 1], outliers={"a": [1.0], "b": [1.0]}).figure.draw_without_rendering()


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(InputError, match="outliers must be .*at least one"):
        plots.histogram(inlier=[1.0], outliers={})
    with pytest.raises(InputError, match="outliers b has NaN"):
        plots.histogram(inlier=[1.0], outliers={"a": [1.0], "b": [np.nan]})
    with pytest.raises(InputError, match="threshold must be a finite number"):
        plots.histogram(inlier=[1.0], outliers=[2.0], threshold=np.inf)
