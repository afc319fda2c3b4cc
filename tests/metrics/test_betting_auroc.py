"""``conformal_auroc(method="betting")``: the bounds of this one number."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from caveat import InputError
from caveat.conformal import mean_bounds
from caveat.conformal.hoeffding import hoeffding_lower
from caveat.metrics import auroc, conformal_auroc

STUDY = Path(__file__).parents[2] / "studies" / "betting_auroc" / "betting_auroc.py"
_spec = importlib.util.spec_from_file_location("betting_auroc", STUDY)
study = importlib.util.module_from_spec(_spec)
sys.modules["betting_auroc"] = study  # dataclasses look their module up
_spec.loader.exec_module(study)
CASES = {case.name: case for case in study.cases()}
scores = st.lists(st.integers(-6, 6).map(float), min_size=1, max_size=30)


def test_it_bounds_the_mean_share_of_outliers_above_an_inlier():
    # Outliers 1 and 3. Inlier 0: both above, 1. Inlier 1: one tie, one above, 3/4. Inlier 2: 1/2. Inlier 4: none.
    found = conformal_auroc(inlier=[0, 1, 2, 4], outlier=[1, 3], delta=0.3, method="betting", rng=5)
    assert found == mean_bounds([1, 0.75, 0.5, 0], delta=0.3, rng=5)
    assert found.value == pytest.approx(2.25 / 4)


@given(inlier=scores, outlier=scores, ood=st.sampled_from(["sample", "population"]), both=st.booleans())
@settings(max_examples=40)
def test_the_interval_holds_the_auroc_and_sees_only_the_order(inlier, outlier, ood, both):
    options = {"delta": 0.2, "method": "betting", "ood": ood, "two_sided": both}
    found = conformal_auroc(inlier=inlier, outlier=outlier, **options)
    assert found.value == pytest.approx(auroc(inlier=inlier, outlier=outlier))
    assert 0 <= found.lower <= found.value <= found.upper <= 1
    assert found == conformal_auroc(inlier=np.exp(inlier), outlier=np.exp(outlier), **options)


def test_it_is_about_half_as_long_as_the_band():
    rng = np.random.default_rng(0)
    for n in (100, 1000):
        inlier, outlier = rng.normal(size=n), rng.normal(1.5, size=300)
        band, bet = (conformal_auroc(inlier=inlier, outlier=outlier, method=m) for m in ("exact", "betting"))
        assert 0.3 < (bet.upper - bet.lower) / (band.upper - band.lower) < 0.7


def test_a_population_of_outliers_spends_half_of_delta_on_them():
    rng = np.random.default_rng(1)
    sides = {"inlier": rng.normal(size=300), "outlier": rng.normal(2, size=80), "method": "betting"}
    found = conformal_auroc(**sides, delta=0.1, ood="population")
    given_outliers = conformal_auroc(**sides, delta=0.05)
    assert found.lower == hoeffding_lower(given_outliers.lower, 80, 0.05)
    assert found.upper == 1 - hoeffding_lower(1 - given_outliers.upper, 80, 0.05)
    assert (found.n, found.level, found.method) == (380, 0.9, "betting and Hoeffding, each side")
    both = conformal_auroc(**sides, delta=0.1, ood="population", two_sided=True)
    assert both.lower == hoeffding_lower(conformal_auroc(**sides, delta=0.025).lower, 80, 0.025)
    band = conformal_auroc(**sides | {"method": "exact"}, delta=0.1, ood="population")
    assert band.lower < found.lower


@pytest.mark.parametrize("shift", [0.0, 2.5])
def test_population_auroc_is_covered(shift):
    rng, trials, delta = np.random.default_rng(2), 400, 0.2
    true = norm.cdf(shift / np.sqrt(2))
    found = [
        conformal_auroc(inlier=rng.normal(size=60), outlier=rng.normal(shift, size=25), delta=delta, method="betting",
                        ood="population") for _ in range(trials)
    ]  # fmt: skip
    allowed = delta + 4 * math.sqrt(delta * (1 - delta) / trials)
    assert np.mean([f.lower > true for f in found]) < allowed
    assert np.mean([f.upper < true for f in found]) < allowed


def check(case, n, delta, draws, **options):
    line = study.simulate(case, n, delta, draws, **options)
    assert max(line.lower_failed, line.upper_failed) <= delta + 4 * math.sqrt(delta * (1 - delta) / draws)
    return line


@pytest.mark.parametrize("name", ["normal, .9", "rounded scores", "1 outlier"])
def test_the_promise_holds(name):
    line = check(CASES[name], 50, 0.1, 300)
    assert line.gap < line.band_gap


def test_sorted_inliers_do_no_harm():
    check(CASES["normal, .5"], 100, 0.1, 300, sort=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize(("n", "draws"), [(20, 2000), (50, 2000), (100, 2000), (500, 1000), (2000, 500), (10_000, 200)])
def test_the_promise_holds_for_all_kinds_of_scores(name, delta, n, draws):
    line = check(CASES[name], n, delta, draws)
    assert line.gap < line.band_gap or "outlier" in name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["normal, .9", "heavy tails (Cauchy)", "5 outliers"])
@pytest.mark.parametrize("n", [20, 500])
def test_sorted_inliers_do_no_harm_of_any_kind(name, n):
    check(CASES[name], n, 0.1, 2000, sort=True)


def test_ends():
    perfect = conformal_auroc(inlier=np.zeros(200), outlier=[1.0], delta=0.05, method="betting")
    assert (perfect.value, perfect.upper) == (1.0, 1.0)
    assert 0.97 < perfect.lower < 0.05 ** (1 / 200)
    constant = conformal_auroc(inlier=np.zeros(200), outlier=[0.0, 0.0], method="betting")
    assert constant.lower < constant.value == 0.5 < constant.upper
    assert conformal_auroc(inlier=[-np.inf, 0.0], outlier=[np.inf], method="betting").value == 1.0


def test_errors():
    with pytest.raises(InputError, match="unknown method 'bettin'. Did you mean 'betting'"):
        conformal_auroc(inlier=[1.0], outlier=[1.0], method="bettin")
    with pytest.raises(InputError, match="unknown ood"):
        conformal_auroc(inlier=[1.0], outlier=[1.0], method="betting", ood="populaton")
    with pytest.raises(InputError, match="outlier must be a non-empty vector"):
        conformal_auroc(inlier=[1.0], outlier=[], method="betting")
