from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from caveat import InputError
from caveat.metrics import Placements, auroc, auroc_interval, mean_auroc_interval, paired_p_value
from caveat.metrics.auroc_intervals import paired_p_values


def literal_delong(inlier, outlier):
    """Variance by the n x m comparison matrix."""
    pairs = np.subtract.outer(outlier, inlier)
    wins = (pairs > 0) + 0.5 * (pairs == 0)
    return wins.mean(axis=1).var(ddof=1) / len(outlier) + wins.mean(axis=0).var(ddof=1) / len(inlier)


def test_variance_equals_the_literal_matrix():
    rng = np.random.default_rng(0)
    inlier, outlier = rng.integers(0, 10, 50), rng.integers(4, 14, 30)
    placements = Placements.of(inlier=inlier, outliers=[outlier])
    assert placements.variance == pytest.approx(literal_delong(inlier, outlier))
    assert placements.auroc == pytest.approx(auroc(inlier=inlier, outlier=outlier))


def test_the_interval_covers_at_its_level():
    # two normals one apart: the true AUROC is Phi(1 / sqrt 2) = 0.7602499
    rng, trials, truth = np.random.default_rng(1), 2000, 0.7602499389065233
    hits = 0
    for _ in range(trials):
        found = auroc_interval(inlier=rng.normal(size=60), outlier=rng.normal(1, size=50), delta=0.1)
        hits += found.lower <= truth <= found.upper
    assert abs(hits / trials - 0.9) < 4 * np.sqrt(0.09 / trials) + 0.01  # DeLong is asymptotic: a point of slack


def test_the_mean_over_sets_knows_that_the_inliers_are_shared():
    # variance of the mean by simulation against the mean of the estimated variances
    rng, trials = np.random.default_rng(2), 1500
    values, variances = [], []
    for _ in range(trials):
        placements = Placements.of(
            inlier=rng.normal(size=40), outliers=[rng.normal(1, size=60), rng.normal(0.5, size=30)]
        )
        values.append(placements.auroc)
        variances.append(placements.variance)
    assert np.mean(variances) == pytest.approx(np.var(values), rel=4 * np.sqrt(2 / trials))


def test_perfect_separation_is_not_certainty():
    found = auroc_interval(inlier=np.arange(20), outlier=np.arange(20, 30))
    assert found.value == 1.0
    # ten disjoint pairs all won: the exact lower limit is (delta/2)^(1/10)
    assert found.lower == pytest.approx(0.025 ** (1 / 10))
    assert "disjoint pairs" in found.caveat


def test_the_paired_test_has_its_level_and_sees_a_difference():
    rng, trials = np.random.default_rng(3), 1000
    same, different = 0, 0
    for _ in range(trials):
        base_in, base_out = rng.normal(size=80), rng.normal(1, size=60)
        first = Placements.of(inlier=base_in + rng.normal(size=80), outliers=[base_out + rng.normal(size=60)])
        second = Placements.of(inlier=base_in + rng.normal(size=80), outliers=[base_out + rng.normal(size=60)])
        better = Placements.of(inlier=base_in, outliers=[base_out])
        same += paired_p_value(first, second) <= 0.05
        different += paired_p_value(better, second) <= 0.05
    assert abs(same / trials - 0.05) < 4 * np.sqrt(0.05 * 0.95 / trials)
    assert different / trials > 0.4


def test_identical_scores_are_tied():
    placements = Placements.of(inlier=[0.0, 1.0], outliers=[[1.0, 2.0]])
    assert paired_p_value(placements, placements) == 1.0


def test_one_sample_a_side():
    found = auroc_interval(inlier=[0.0], outlier=[1.0])
    assert (found.value, found.upper) == (1.0, 1.0)
    assert found.lower == pytest.approx(0.025)


def test_one_sample_says_nothing_of_its_side():
    # the inlier is one draw: its placement, and so the AUROC seen, is uniform on 0..1 whatever the outliers say
    rng, trials, missed = np.random.default_rng(4), 400, 0
    for _ in range(trials):
        found = auroc_interval(inlier=rng.normal(size=1), outlier=rng.normal(size=300))
        missed += not found.lower <= 0.5 <= found.upper
    assert missed / trials <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)
    assert found.method == "disjoint pairs"
    assert "one sample" in found.caveat


def test_a_paired_difference_without_variance_is_not_certain():
    # one score perfect, one constant: d = 1/2 everywhere; Hoeffding: 2 exp(-q / 8), q = 30 pairs
    perfect = Placements.of(inlier=np.arange(40), outliers=[np.arange(50, 80)])
    constant = Placements.of(inlier=np.zeros(40), outliers=[np.zeros(30)])
    assert paired_p_value(perfect, constant) == pytest.approx(2 * np.exp(-30 / 8))
    # three sets, d = 1/3 everywhere: placements that are equal but for rounding have no variance; q = 60
    first, second = (Placements.of(inlier=np.arange(70), outliers=[np.arange(90, 150)] * 2 + [np.full(60, last)])
                     for last in (90.0, -1.0))  # fmt: skip
    assert paired_p_value(first, second) == pytest.approx(2 * np.exp(-60 / 18))


def test_bad_input():
    with pytest.raises(InputError, match="outliers must be a list with at least one entry"):
        Placements.of(inlier=[0.0], outliers=[])
    small, large = (Placements.of(inlier=np.arange(n), outliers=[[1.0]]) for n in (2, 3))
    with pytest.raises(InputError, match="only on the same samples"):
        paired_p_value(small, large)
    with pytest.raises(InputError, match="delta must be strictly between"):
        mean_auroc_interval(small, delta=0)


@pytest.mark.parametrize("apart", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("sizes", [(40, 30), (300, 200, 5), (2, 3, 70, 2)])
def test_the_paired_test_is_the_literal_one_however_near_the_scores_are(apart, sizes):
    rng = np.random.default_rng(len(sizes))
    first = [rng.normal(i > 0, size=n) for i, n in enumerate(sizes)]
    second = [values + apart * rng.normal(size=values.size) for values in first]
    one, other = (Placements.of(inlier=parts[0], outliers=parts[1:]) for parts in (first, second))
    gaps = [
        np.longdouble(a) - b for a, b in zip((one.inlier, *one.outliers), (other.inlier, *other.outliers), strict=True)
    ]
    means = [gap.mean() for gap in gaps]
    shares = [1, *[len(gaps) - 1] * (len(gaps) - 1)]
    variance = sum(((gap - mean) ** 2).sum() / (gap.size - 1) / gap.size / share**2
                   for gap, mean, share in zip(gaps, means, shares, strict=True))  # fmt: skip
    expected = 1.0 if variance == 0 else 2 * ndtr(-abs(float(np.mean(means[1:]) / np.sqrt(variance))))
    assert paired_p_value(one, other) == pytest.approx(expected, rel=1e-9)


def test_the_squared_deviations_sum_to_the_variance():
    rng = np.random.default_rng(0)
    for sizes in ((5, 4), (1, 6), (30, 1, 20)):
        parts = [rng.normal(size=n) for n in sizes]
        placed = Placements.of(inlier=parts[0], outliers=parts[1:])
        assert placed.deviations @ placed.deviations == pytest.approx(placed.variance, rel=1e-12)


@pytest.mark.parametrize("rows_per_block", [1, 2, 100])
@pytest.mark.parametrize("sizes", [(40, (30, 20)), (1, (30,)), (25, (1, 8))])
def test_all_pairs_at_once_have_the_p_values_of_each_pair(sizes, rows_per_block, monkeypatch):
    rng, (inside, outside) = np.random.default_rng(3), sizes
    placed = [Placements.of(inlier=rng.normal(size=inside), outliers=[rng.normal(0.3 * i, 1, size=m) for m in outside])
              for i in range(6)]  # fmt: skip
    placed += [placed[0], Placements.of(inlier=np.zeros(inside), outliers=[np.ones(m) for m in outside]),
               Placements.of(inlier=np.zeros(inside), outliers=[np.zeros(m) for m in outside])]  # fmt: skip
    monkeypatch.setattr("caveat._internal.blocks.BLOCK_BYTES", 8 * (inside + sum(outside)) * rows_per_block)
    expected = [paired_p_value(a, b) for a, b in itertools.combinations(placed, 2)]
    np.testing.assert_allclose(paired_p_values(placed), expected, rtol=1e-12)
    assert paired_p_values(placed[:1]).size == paired_p_values([]).size == 0
    with pytest.raises(InputError, match="same"):
        paired_p_values([placed[0], Placements.of(inlier=[0.0, 1.0], outliers=[[2.0]])])
