from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, norm

from caveat.conformal import FPRBand
from caveat.errors import InputError
from caveat.metrics import auroc, conformal_auroc, conformal_fpr_at_tpr, fpr_at_tpr

METHODS = ["exact", "simes", "dkwm", "asymptotic"]
scores = st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=30)


def test_auroc_by_hand():
    # b = (0.5, 0.8). Outlier 3 has k = 0: FPR in [0, 0.5]. Outlier 1.5 has k = 1: [1 - 0.8, 0.8]. AUROC (1 + 1/2) / 2.
    found = conformal_auroc(inlier=[1.0, 2.0], outlier=[3.0, 1.5], method=[0.5, 0.8])
    assert (found.value, found.lower, found.upper) == pytest.approx((0.75, 1 - (0.5 + 0.8) / 2, 1 - (0.0 + 0.2) / 2))
    assert found.level == pytest.approx(1 - 0.45)


def test_a_tie_counts_half_of_each_side():
    # Outlier 2 ties with inlier 2: k = 1 at it and 0 above it. FPR+ is the mean of 0.8 and 0.5, FPR- of 0.2 and 0.
    found = conformal_auroc(inlier=[1.0, 2.0], outlier=[2.0], method=[0.5, 0.8])
    assert (found.value, found.lower, found.upper) == pytest.approx((0.75, 1 - 0.65, 1 - 0.1))


@pytest.mark.parametrize("method", METHODS)
def test_auroc_is_one_minus_the_mean_of_the_band(method):
    rng = np.random.default_rng(0)
    inlier, outlier = rng.normal(size=300), rng.normal(1, size=77)
    found = conformal_auroc(inlier=inlier, outlier=outlier, delta=0.1, method=method)
    band = FPRBand(inlier, delta=0.1, method=method)
    assert found.lower == pytest.approx(1 - band.upper(outlier).mean())
    assert found.upper == pytest.approx(1 - band.lower(outlier).mean())
    assert found.value == pytest.approx(auroc(inlier=inlier, outlier=outlier))
    assert found.level == band.level


@given(scores, scores, st.sampled_from(["exact", "simes", "dkwm"]), st.sampled_from(["sample", "population"]))
@settings(max_examples=80, deadline=None)
def test_brackets_the_empirical_numbers(inlier, outlier, method, ood):
    found = conformal_auroc(inlier=inlier, outlier=outlier, method=method, ood=ood)
    assert found.value == pytest.approx(auroc(inlier=inlier, outlier=outlier))
    assert 0 <= found.lower <= found.value + 1e-12
    assert found.value - 1e-12 <= found.upper <= 1
    for positive in ("outlier", "inlier"):
        rate = conformal_fpr_at_tpr(inlier=inlier, outlier=outlier, method=method, ood=ood, positive=positive, tpr=0.8)
        assert rate.value == fpr_at_tpr(inlier=inlier, outlier=outlier, tpr=0.8, positive=positive)
        assert 0 <= rate.lower <= rate.value <= rate.upper <= 1


@given(scores, scores)
@settings(max_examples=40, deadline=None)
def test_sees_only_the_order(inlier, outlier):
    plain = conformal_auroc(inlier=inlier, outlier=outlier)
    bent = conformal_auroc(inlier=np.exp(inlier), outlier=np.exp(outlier))
    assert (plain.lower, plain.upper) == (bent.lower, bent.upper)


def test_population_is_wider_than_sample_and_two_sided_than_one():
    rng = np.random.default_rng(1)
    sides = {"inlier": rng.normal(size=400), "outlier": rng.normal(1, size=400)}
    for metric in (conformal_auroc, conformal_fpr_at_tpr):
        narrow, wide, both = metric(**sides), metric(**sides, ood="population"), metric(**sides, two_sided=True)
        for other in (wide, both):
            assert other.lower < narrow.lower
            assert narrow.upper < other.upper
            assert other.level == pytest.approx(0.95, abs=1e-6)
        assert "each side" in narrow.method
        assert "each side" not in both.method


def test_population_auroc_is_the_worst_and_the_best_of_the_dkw_ball():
    # The outliers may really be the sample with a share epsilon of its strangest moved to minus infinity, or of its
    # least strange to plus infinity; literally, in grains of 1 / 100,000 of the mass.
    rng, delta = np.random.default_rng(8), 0.1
    inlier, outlier = rng.normal(size=80), np.sort(rng.normal(1, size=30))
    found = conformal_auroc(inlier=inlier, outlier=outlier, delta=delta, ood="population")
    band = FPRBand(inlier, delta=delta / 2)
    grains = np.repeat(outlier, 100_000 // 30)
    moved = round(np.sqrt(np.log(2 / delta) / 60) * grains.size)
    worst, best = np.append(grains[:-moved], [-np.inf] * moved), np.append(grains[moved:], [np.inf] * moved)
    assert found.lower == pytest.approx(1 - band.upper(worst).mean(), abs=1e-4)
    assert found.upper == pytest.approx(1 - band.lower(best).mean(), abs=1e-4)


def test_population_fpr_takes_the_threshold_from_binomial_order_statistics():
    rng, delta, tpr = np.random.default_rng(9), 0.1, 0.8
    inlier, outlier = rng.normal(size=300), np.sort(rng.normal(1, size=60))
    found = conformal_fpr_at_tpr(inlier=inlier, outlier=outlier, tpr=tpr, delta=delta, ood="population")
    band, rank = FPRBand(inlier, delta=delta / 2), np.arange(1, 61)
    # The r-th smallest is below the 0.2-quantile if r or more of 60 are: P(Bin(60, 0.2) >= r) >= 0.95.
    below = rank[binom.sf(rank - 1, 60, 0.2) >= 1 - delta / 2].max()
    above = rank[binom.sf(rank - 1, 60, 0.8) >= 1 - delta / 2].max()  # the same from the other end
    assert found.upper == float(band.upper(outlier[below - 1]))
    assert found.lower == float(band.lower(outlier[60 - above]))


def test_population_share_of_accepted_outliers_is_clopper_pearson():
    rng, delta, tpr = np.random.default_rng(10), 0.1, 0.8
    inlier, outlier = rng.normal(size=300), rng.normal(1, size=60)
    found = conformal_fpr_at_tpr(
        inlier=inlier, outlier=outlier, tpr=tpr, positive="inlier", delta=delta, ood="population"
    )
    least, most = FPRBand(inlier, delta=delta / 2).threshold_range(1 - tpr)
    low, high = (outlier <= least).sum(), (outlier <= most).sum()
    assert found.lower == pytest.approx(beta(low, 61 - low).ppf(delta / 2))
    assert found.upper == pytest.approx(beta(high + 1, 60 - high).ppf(1 - delta / 2))


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_population_auroc_is_covered(shift):
    # Gaussian scores: AUROC = Phi(shift / sqrt(2)). Bounds of each side at delta = 0.2.
    rng, trials, delta = np.random.default_rng(2), 600, 0.2
    true = norm.cdf(shift / np.sqrt(2))
    low = high = 0
    for _ in range(trials):
        found = conformal_auroc(
            inlier=rng.normal(size=60), outlier=rng.normal(shift, size=25), delta=delta, ood="population"
        )
        low += found.lower > true
        high += found.upper < true
    allowed = delta + 4 * np.sqrt(delta * (1 - delta) / trials)
    assert max(low, high) / trials < allowed


def test_sample_auroc_is_covered_as_often_as_promised():
    # The outliers are fixed; only inliers vary. True AUROC of these outliers: mean of Phi(s_j).
    rng, trials, delta = np.random.default_rng(3), 1500, 0.2
    outlier = np.array([0.3])  # one threshold only: the band cannot be wrong elsewhere
    true = norm.cdf(outlier).mean()
    wrong = sum(
        conformal_auroc(inlier=rng.normal(size=50), outlier=outlier, delta=delta).lower > true for _ in range(trials)
    )
    assert wrong / trials < delta
    several = rng.normal(1, size=30)
    true = norm.cdf(several).mean()
    both = [
        conformal_auroc(inlier=rng.normal(size=50), outlier=several, delta=delta, two_sided=True) for _ in range(400)
    ]
    assert np.mean([not e.lower <= true <= e.upper for e in both]) < delta + 4 * np.sqrt(0.16 / 400)


# FPR@TPR95 of "Exploring the Link ...", tables 4 and 5, n = 9000, percent: marginal and corrected.
@pytest.mark.parametrize(
    ("delta", "marginal", "corrected"),
    [(0.01, 46.77, 48.98), (0.01, 34.54, 36.65), (0.01, 95.84, 98.07), (0.05, 46.77, 48.58), (0.05, 84.55, 86.37)],
)
def test_published_corrections(delta, marginal, corrected):
    flagged = round(90 * marginal)
    found = conformal_fpr_at_tpr(
        inlier=np.arange(9000.0), outlier=np.full(10, 9000.0 - flagged), delta=delta, method="asymptotic"
    )
    assert 100 * found.value == pytest.approx(marginal, abs=0.006)
    assert 100 * found.upper == pytest.approx(corrected, abs=0.04)
    if delta == 0.01:
        assert found.level == pytest.approx(1 - 0.01263, abs=1e-5)
        assert "below the 0.99 asked for" in found.caveat


def test_fpr_outlier_positive_is_the_band_at_the_threshold():
    rng = np.random.default_rng(4)
    inlier, outlier = rng.normal(size=200), rng.normal(2, size=100)
    found = conformal_fpr_at_tpr(inlier=inlier, outlier=outlier, tpr=0.9, delta=0.1)
    t = np.sort(outlier)[10]  # 90 of 100 at or above
    band = FPRBand(inlier, delta=0.1)
    assert (found.lower, found.upper) == (float(band.lower(t)), float(band.upper(t)))


def test_fpr_inlier_positive_by_hand():
    # b = (0.3, 0.6, 0.8, 0.9), keep 60 %: at most 40 % of inliers above. FPR+ is <= 0.4 for k = 0 only, so the
    # threshold is at most the largest inlier, 4. FPR- is 0, 0.1, 0.2, 0.4, 0.7 for k = 0..4; above 0.4 only at k = 4,
    # so the threshold is at least the smallest inlier, 1.
    found = conformal_fpr_at_tpr(
        inlier=[1, 2, 3, 4], outlier=[0.5, 1.5, 2.5, 4.5], tpr=0.6, positive="inlier", method=[0.3, 0.6, 0.8, 0.9]
    )
    assert (found.value, found.lower, found.upper) == (0.75, 0.25, 0.75)


@pytest.mark.parametrize("positive", ["outlier", "inlier"])
@pytest.mark.parametrize("ood", ["sample", "population"])
def test_fpr_is_covered(positive, ood):
    # Inliers N(0, 1), outliers N(2, 1), TPR 0.8. In "sample" the outliers are fixed and their share is counted on them.
    rng, trials, delta, tpr = np.random.default_rng(5), 500, 0.2, 0.8
    fixed = rng.normal(2, size=40)
    if positive == "outlier":
        population = norm.sf(2 + norm.ppf(1 - tpr))
        sample = norm.sf(np.sort(fixed)[8])  # 32 of 40 at or above
    else:
        population = norm.cdf(norm.ppf(tpr) - 2)
        sample = (fixed <= norm.ppf(tpr)).mean()
    true = sample if ood == "sample" else population
    low = high = 0
    for _ in range(trials):
        outlier = fixed if ood == "sample" else rng.normal(2, size=40)
        found = conformal_fpr_at_tpr(
            inlier=rng.normal(size=80), outlier=outlier, tpr=tpr, positive=positive, delta=delta, ood=ood
        )
        low += found.lower > true
        high += found.upper < true
    assert max(low, high) / trials < delta + 4 * np.sqrt(delta * (1 - delta) / trials)


def test_tpr_one():
    sides = {"inlier": np.arange(100.0), "outlier": [150.0, 40.0]}
    found = conformal_fpr_at_tpr(**sides, tpr=1.0)
    assert found.value == 0.6
    open_ended = conformal_fpr_at_tpr(**sides, tpr=1.0, ood="population")
    assert open_ended.upper == 1  # the next outlier may be anywhere below
    assert 0 < open_ended.lower < 0.6
    kept = conformal_fpr_at_tpr(**sides, tpr=1.0, positive="inlier")
    assert (kept.value, kept.upper) == (0.5, 1.0)  # no finite threshold is known to keep every inlier


def test_edge_cases():
    constant = conformal_auroc(inlier=np.zeros(20), outlier=np.zeros(5))
    assert constant.value == 0.5
    assert constant.lower < 0.5 < constant.upper
    single = conformal_auroc(inlier=[0.0], outlier=[1.0], delta=0.1)
    assert (single.value, single.lower, single.upper) == pytest.approx((1.0, 0.1, 1.0), abs=1e-6)
    assert conformal_auroc(inlier=[0.0], outlier=[1.0], ood="population").lower == 0.0
    assert conformal_auroc(inlier=[-np.inf, 0.0], outlier=[np.inf]).value == 1.0


@pytest.mark.parametrize("positive", ["outlier", "inlier"])
@pytest.mark.parametrize("ood", ["sample", "population"])
def test_only_the_order_counts_and_infinite_scores_have_a_place_in_it(positive, ood):
    rng = np.random.default_rng(0)
    inlier, outlier = rng.integers(0, 9, 60).astype(float), rng.integers(4, 12, 40).astype(float)
    stretched = [np.where(s == 0, -np.inf, np.where(s >= 8, np.inf, s)) for s in (inlier, outlier)]
    clipped = [np.minimum(s, 8) for s in (inlier, outlier)]
    first, second = (conformal_fpr_at_tpr(inlier=a, outlier=b, tpr=0.6, positive=positive, ood=ood)
                     for a, b in (stretched, clipped))  # fmt: skip
    assert first == second


def test_errors():
    with pytest.raises(InputError, match="inlier has NaN, first at row 0"):
        conformal_auroc(inlier=[np.nan], outlier=[1.0])
    with pytest.raises(InputError, match="outlier must be a non-empty vector"):
        conformal_auroc(inlier=[1.0], outlier=[])
    with pytest.raises(InputError, match="unknown ood 'populaton'. Did you mean 'population'"):
        conformal_auroc(inlier=[1.0], outlier=[1.0], ood="populaton")
    with pytest.raises(InputError, match="tpr must be above 0 and at most 1"):
        conformal_fpr_at_tpr(inlier=[1.0], outlier=[1.0], tpr=0)
