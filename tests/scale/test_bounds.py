from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError, Outputs
from caveat.conformal import RankHistogram
from caveat.metrics import auroc, fpr_at_tpr
from caveat.scale import detection, detection_bounds
from caveat.scores import Energy

values = st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=30)


def bounds_of(inlier, outlier, reference, **options):
    parts = {name: RankHistogram.of(calibration=reference, test=part) for name, part in
             (("inlier", inlier), ("outlier", outlier))}  # fmt: skip
    return detection_bounds(**parts, **options)


@given(inlier=values, outlier=values, reference=values, tpr=st.sampled_from([0.05, 0.5, 0.8, 0.95, 1.0]))
def test_the_numbers_of_all_rows_lie_between_the_bounds(inlier, outlier, reference, tpr):
    bounds = bounds_of(inlier, outlier, reference, tpr=tpr)
    assert bounds.auroc_lower <= auroc(inlier=inlier, outlier=outlier) + 1e-12
    assert auroc(inlier=inlier, outlier=outlier) <= bounds.auroc_upper + 1e-12
    assert bounds.fpr_lower <= fpr_at_tpr(inlier=inlier, outlier=outlier, tpr=tpr) <= bounds.fpr_upper


def test_bounds_meet_where_the_reference_tells_every_inlier_from_every_outlier():
    inlier, outlier = np.arange(0.0, 40, 2), np.arange(11.0, 60, 2)
    bounds = bounds_of(inlier, outlier, np.arange(60) + 0.5)
    assert bounds.auroc_lower == bounds.auroc_upper == pytest.approx(auroc(inlier=inlier, outlier=outlier), abs=1e-15)


def test_bounds_are_about_one_over_n_apart():
    rng = np.random.default_rng(0)
    bounds = bounds_of(rng.normal(size=20_000), rng.normal(size=20_000), rng.normal(size=999))
    # Inliers, outliers and reference alike: the shares of a rank are spacings, with expectation of the sum of their
    # squares 2 / (n + 2).
    assert bounds.auroc_upper - bounds.auroc_lower == pytest.approx(2 / 1001, rel=0.2)


def test_rank_sums_beyond_64_bits_are_exact():
    counts = np.array([2**40, 2**40], dtype=np.int64)
    histogram = RankHistogram(counts, "x")
    bounds = detection_bounds(inlier=histogram, outlier=histogram)
    assert (bounds.auroc_lower, bounds.auroc_upper) == (0.25, 0.75)


def test_other_references_and_no_rows_are_said():
    one, other = (RankHistogram.of(calibration=reference, test=[1.0]) for reference in ([0.0], [2.0]))
    with pytest.raises(InputError, match="same reference scores"):
        detection_bounds(inlier=one, outlier=other)
    with pytest.raises(InputError, match="outlier must count at least one row"):
        detection_bounds(inlier=one, outlier=RankHistogram.of(calibration=[0.0], test=[]))


def test_detection_over_sources_is_that_of_their_scores(inlier, outlier, train, tmp_path):
    outlier.save(tmp_path / "far")
    score, reference = Energy(), Energy().score(train)
    bounds = detection(score, inlier=inlier, outliers={"far": tmp_path / "far"}, reference=reference, rows_per_task=31)
    assert bounds["far"] == bounds_of(score.score(inlier), score.score(outlier), reference)
    assert bounds["far"].n_outlier == outlier.n


def test_ties_are_undecided():
    both = Outputs(logits=[[0.0, 0.0]] * 3)
    bounds = detection(Energy(), inlier=both, outliers={"same": both}, reference=[0.0])["same"]
    assert (bounds.auroc_lower, bounds.auroc_upper) == (0.0, 1.0)
