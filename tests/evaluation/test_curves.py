"""Curves of a study, against literal definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from caveat.conformal import FPRBand
from caveat.evaluation.curves import TAIL, histogram, risk_points, roc_band
from caveat.metrics import risk_curve, roc_curve
from caveat.metrics.selective import Steps

scores = arrays(np.float64, st.integers(3, 30), elements=st.integers(0, 8).map(float))  # many ties


def slow_band(band, outlier, x):
    """Over every threshold: the largest share of outliers caught where the bound of the rate is at most x."""
    cuts = [*np.unique(np.concatenate([band.inlier, outlier])), np.inf]
    caught = [float(np.mean(outlier >= t)) for t in cuts]
    rates = {"tpr": band.empirical(cuts), "lower": band.upper(cuts), "upper": band.lower(cuts)}
    return {
        name: [max([c for c, r in zip(caught, rate, strict=True) if r <= at * (1 + 1e-12)], default=0.0) for at in x]
        for name, rate in rates.items()
    }


@given(inlier=scores, outlier=scores)
def test_the_band_of_a_roc_curve_is_what_it_says(inlier, outlier):
    band = FPRBand(inlier, delta=0.1, two_sided=True)
    found = roc_band(band, outlier, points=8)
    expected = slow_band(band, outlier, found.fpr)
    for name in ("tpr", "lower", "upper"):
        np.testing.assert_allclose(getattr(found, name), expected[name], atol=1e-12)
    assert (found.lower <= found.tpr).all()
    assert (found.tpr <= found.upper).all()


def test_the_curve_agrees_with_the_roc_curve():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(size=300), rng.normal(1, size=200)
    found = roc_band(FPRBand(inlier, two_sided=True), outlier)
    fpr, tpr = roc_curve(inlier=inlier, outlier=outlier)
    expected = [tpr[fpr <= x + 1e-12].max() for x in found.fpr]
    np.testing.assert_allclose(found.tpr, expected)
    assert (found.fpr[0], found.fpr[-1], found.tpr[-1]) == (0.0, 1.0, 1.0)


def test_the_band_keeps_its_promise():
    # True rates of a normal score: FPR(t) = 1 - Phi(t). The whole band must hold in at least 90 % of 400 draws.
    from scipy.special import ndtri

    rng = np.random.default_rng(1)
    outlier = np.sort(rng.normal(1, size=150))
    held = 0
    for _ in range(400):
        found = roc_band(FPRBand(rng.normal(size=60), delta=0.1, two_sided=True), outlier, points=21)
        threshold = -ndtri(found.fpr)  # the true false-positive rate there is x
        truth = 1 - np.searchsorted(outlier, threshold, side="left") / outlier.size
        held += bool(((found.lower <= truth + 1e-12) & (truth <= found.upper + 1e-12)).all())
    assert held / 400 > 0.9 - 3 * np.sqrt(0.9 * 0.1 / 400)


@given(values=scores, seed=st.integers(0, 5))
def test_risk_points_lie_on_the_curve_and_reach_both_ends(values, seed):
    correct = np.random.default_rng(seed).random(values.size) < 0.6
    curve = risk_curve(score=values, correct=correct)
    x, risk = risk_points(Steps.of(values, correct), points=7)
    known = dict(zip(curve.coverage.tolist(), curve.selective.tolist(), strict=True))
    assert [known[at] for at in x.tolist()] == risk.tolist()
    assert x[0] == 0.0
    assert x[-1] == 1.0


def test_histograms_share_edges_and_lose_nobody():
    rng = np.random.default_rng(0)
    samples = {"": rng.normal(size=500), "a": rng.normal(3, size=200), "b": rng.normal(-4, size=100)}
    found = histogram(samples)
    assert found.edges.size == 41
    np.testing.assert_allclose(np.diff(found.edges), np.diff(found.edges)[0])
    for name, values in samples.items():
        assert found.shares[name].sum() == pytest.approx(1)
        inside = np.histogram(values.clip(found.edges[0], found.edges[-1]), found.edges)[0] / values.size
        np.testing.assert_allclose(found.shares[name], inside, atol=1.5 / values.size)
        assert np.mean((values < found.edges[0]) | (values > found.edges[-1])) <= 2 * TAIL


def test_far_outliers_do_not_squeeze_the_inliers_into_one_bar():
    rng = np.random.default_rng(0)
    found = histogram({"": rng.normal(size=500), "far": rng.normal(1e4, 10, size=200)})
    assert (found.shares[""] > 0).sum() > 10
    assert (np.diff(found.edges) > 0).all()


@pytest.mark.parametrize("value", [0.0, 5.0, 1e17])
def test_a_constant_score_has_a_histogram(value):
    found = histogram({"": np.full(5, value), "a": np.full(3, value)})
    assert found.shares["a"].sum() == 1
    assert found.edges[0] < value < found.edges[-1]
