"""The tables of OpenOOD in layout, and the caps that name impossible published cells."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.stats import spearmanr

from caveat.conformal import boundary
from caveat.metrics import conformal_auroc


@pytest.fixture(scope="module")
def caps(study):
    return study("openood_tables", "caps")


@pytest.fixture(scope="module")
def rows(studies):
    with (studies / "openood_tables" / "results.csv").open(encoding="utf-8", newline="") as stream:
        text = ("detector", "set", "ood")
        return [{k: v if k in text else float(v) for k, v in row.items()} for row in csv.DictReader(stream)]


def test_all_published_cells_are_there(caps):
    cells = caps.published()
    assert len({(c["table"], c["dataset"], c["ood"], c["detector"]) for c in cells}) == len(cells) == 2 * 6 * 18
    by_key = {(c["table"], c["dataset"], c["ood"], c["detector"]): c for c in cells}
    for (table, *rest), cell in by_key.items():
        assert cell["auroc"] == by_key[4 - table, *rest]["auroc"]  # Tables 1 and 3 have the same AUROCs
        assert cell["conservative"] < cell["auroc"]


def test_seventeen_bounds_of_table_1_are_above_the_cap_of_the_form_that_fits_table_4_and_none_of_table_3(caps):
    found = caps.impossible()
    assert {cell["table"] for cell in found} == {1}
    low = {(c["dataset"], c["ood"], c["detector"]) for c in found if c["side"] == "conservative"}
    assert low == {("ImageNet-200", "far", name) for name in (
        "OpenMax", "MSP", "TempScale", "ODIN", "EBO", "ReAct", "MLS", "KLM", "VIM", "KNN", "DICE", "ASH")}  # fmt: skip
    high = {(c["dataset"], c["ood"], c["detector"]) for c in found if c["side"] == "permissive"}
    assert high == {(dataset, ood, "RankFeat") for dataset in ("CIFAR-100", "ImageNet-200")
                    for ood in ("near", "far")} | {("CIFAR-10", "far", "RankFeat")}  # fmt: skip


def test_the_order_of_the_detectors_changes_between_the_papers_own_columns(caps, study):
    names = list(study("openood_tables").DETECTORS)
    cells = {(c["dataset"], c["ood"], c["detector"]): c["auroc"] for c in caps.published() if c["table"] == 1}
    near, far = (
        spearmanr(*([cells[dataset, ood, name] for name in names] for dataset in ("CIFAR-10", "CIFAR-100"))).statistic
        for ood in ("near", "far")
    )
    assert (near, far) == (pytest.approx(0.29, abs=0.005), pytest.approx(0.61, abs=0.005))


def test_twelve_bounds_are_above_the_cap_of_the_bands_that_the_paper_names(caps):
    """The caption of Table 1: Monte Carlo below, DKWM above. Simes alone allows all conservative bounds."""
    everything = caps.impossible(method="monte_carlo")
    assert len(everything) == 12
    assert {cell["table"] for cell in everything} == {1}
    found = [cell for cell in everything if cell["side"] == "conservative"]
    assert len(found) == 7
    assert {cell["dataset"] for cell in found} == {"ImageNet-200"}
    assert {cell["side"] for cell in caps.impossible(method="simes")} == {"permissive"}


@pytest.mark.slow
def test_other_draws_of_the_monte_carlo_boundary_leave_at_least_four_impossible(caps):
    bound = boundary(caps.N, 0.01, "monte_carlo", rng=np.random.default_rng(4))
    found = {
        row["detector"] for row in caps.published() if row["table"] == 1
        and row["auroc"] - row["conservative"] > caps.conservative_cap(row["auroc"], bound) + caps.STEP + caps.ROUNDING
    }  # fmt: skip
    assert found == {"OpenMax", "ReAct", "KLM", "VIM"}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delta", [0.01, 0.05])
def test_no_scores_exceed_the_caps(caps, seed, delta):
    """Scores of several shapes, two outlier sets averaged: corrections stay below the caps."""
    rng = np.random.default_rng(seed)
    n = 400
    inlier = rng.normal(size=n)
    sets = [rng.normal(rng.normal(1, 1), rng.gamma(1) + 0.01, size=300), rng.choice([-9.0, 9.0], size=300)]
    bound = np.minimum(boundary(n, delta, "simes"), boundary(n, delta, "asymptotic"))
    low = [conformal_auroc(inlier=inlier, outlier=outlier, delta=delta, method=bound) for outlier in sets]
    high = [conformal_auroc(inlier=inlier, outlier=outlier, delta=delta, method="dkwm") for outlier in sets]
    for chosen in ([0], [1], [0, 1]):
        value = 100 * np.mean([low[i].value for i in chosen])
        lower, upper = (100 * np.mean([getattr(x[i], side) for i in chosen])
                        for x, side in ((low, "lower"), (high, "upper")))  # fmt: skip
        assert value - lower <= caps.conservative_cap(value, bound) + 100 / n + 1e-9
        assert upper - value <= caps.permissive_cap(value, delta, n) + 100 / n + 1e-9


def test_committed_bounds_are_in_order_and_betting_is_about_half_as_far(rows):
    assert len(rows) == 14 * 8 * 2 * 5
    for row in rows:
        assert row["published_lower"] <= row["auroc"] <= row["published_upper"]
        assert row["exact_lower"] <= row["auroc"] <= row["exact_upper"]
        assert row["betting_lower"] <= row["auroc"] <= row["betting_upper"]
    for delta, n in {(row["delta"], row["n"]) for row in rows}:
        near = [row for row in rows if (row["delta"], row["n"], row["ood"]) == (delta, n, "near")]
        gap = {form: np.mean([row["auroc"] - row[f"{form}_lower"] for row in near])
               for form in ("published", "exact", "betting")}  # fmt: skip
        assert gap["exact"] < gap["published"]
        assert gap["betting"] < 0.65 * gap["exact"]


def test_committed_corrections_obey_the_caps(caps, rows):
    for delta in (0.01, 0.05):
        bound = np.minimum(boundary(caps.N, delta, "simes"), boundary(caps.N, delta, "asymptotic"))
        for row in rows:
            if row["delta"] == delta and row["n"] == caps.N:
                low, high = row["auroc"] - row["published_lower"], row["published_upper"] - row["auroc"]
                rounded = 0.0011  # three decimals in the file
                assert low <= caps.conservative_cap(row["auroc"], bound) + caps.STEP + rounded
                assert high <= caps.permissive_cap(row["auroc"], delta) + caps.STEP + rounded


@pytest.mark.slow
def test_a_cell_gives_the_committed_rows(study, data, rows):
    found = study("openood_tables").one("MLS")
    committed = [row for row in rows if row["detector"] == "MLS"]
    for row, kept in zip(found, committed, strict=True):
        assert (row["set"], row["delta"], row["n"]) == (kept["set"], kept["delta"], kept["n"])
        for name in ("auroc", "published_lower", "published_upper", "exact_lower", "betting_lower"):
            assert row[name] == pytest.approx(kept[name], abs=2e-3)
