from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import betabinom

from caveat.conformal import p_values

STUDY = Path(__file__).parents[2] / "studies" / "fpr_fluctuation"


@pytest.fixture(scope="module")
def fluctuation(study):
    return study("fpr_fluctuation", "fluctuation")


@pytest.fixture(scope="module")
def paper_size(study):
    return study("fpr_fluctuation", "paper_size")


def check(numbers: dict[str, float]) -> None:
    splits = numbers["splits"]
    assert abs(numbers["mean_rate"] - numbers["beta_mean"]) < 4 * numbers["beta_sd"] / np.sqrt(splits)
    assert abs(numbers["sd_rate"] / numbers["beta_sd"] - 1) < 4 / np.sqrt(2 * splits)
    share = numbers["share_above_t_theory"]
    assert abs(numbers["share_above_t"] - share) < 4 * np.sqrt(share * (1 - share) / splits)
    assert numbers["distance"] < 1.95 / np.sqrt(splits)  # Kolmogorov: exceeded with probability 0.001
    assert numbers["auroc_lower"] < numbers["auroc_all"] < numbers["auroc_upper"]
    delta = numbers["delta"]
    assert abs(numbers["bands_missed"] - delta) < 4 * np.sqrt(delta * (1 - delta) / splits)


def test_beta_binomial_law(fluctuation):
    counts = np.array([0, 3, 17, 40])
    assert fluctuation.beta_binomial_cdf(counts, 40, 5, 12) == pytest.approx(betabinom(40, 5, 12).cdf(counts))


def test_the_law_holds_for_any_continuous_score(fluctuation):
    rng = np.random.default_rng(0)
    numbers, calibration = fluctuation.study(rng.normal(size=4000), rng.normal(2, size=500), splits=300)
    assert calibration.size == numbers.roc_n
    check(vars(numbers))


def check_size(size: dict[str, float]) -> None:
    """The law of the paper's size, seen through the finite rest."""
    assert (size["n"], size["sets"], size["law_a"], size["law_b"]) == (10_000, 53, 1000, 9001)
    assert abs(size["mean_rate"] - 1000 / 10_001) < 4 * size["law_sd"] / np.sqrt(53)
    assert abs(size["sd_of_draws"] / size["law_sd"] - 1) < 4 / np.sqrt(2 * size["draws"])


def test_committed_numbers_and_figures():
    numbers = json.loads((STUDY / "numbers.json").read_text())
    check(numbers["cifar10"])
    for design, rest in (("mnist", 58_000), ("ranks", 521_131)):
        assert numbers[design]["rest"] == rest
        check_size(numbers[design])
    assert numbers["mnist"]["distance"] < 1.95 / np.sqrt(numbers["mnist"]["draws"])
    for name in ("law.svg", "roc.svg"):
        assert 1000 < (STUDY / name).stat().st_size < 200_000


def test_disjoint_sets_are_counted_as_p_values_count_them(paper_size, fluctuation):
    found = paper_size.disjoint(3_000, n=500, sets=6)
    numbers = np.random.default_rng(0).random(3_000)
    rates = []
    for i in range(6):
        inside = np.zeros(3_000, dtype=bool)
        inside[500 * i : 500 * (i + 1)] = True
        p = p_values(calibration=numbers[inside], test=numbers[~inside])
        rates.append(np.mean(p <= fluctuation.T))
    assert found.mean_rate == pytest.approx(np.mean(rates), rel=1e-12)
    assert found.sd_rate == pytest.approx(np.std(rates, ddof=1), rel=1e-12)


def test_draws_from_a_finite_pool_follow_the_beta_binomial_law(paper_size):
    size = paper_size.from_pool(np.random.default_rng(1).normal(size=4_000), n=1_000, sets=53, draws=500)
    assert size.distance < 1.95 / np.sqrt(500)
    assert abs(size.sd_of_draws / size.law_sd - 1) < 4 / np.sqrt(2 * 500)
    assert size.law_sd > 1.1 * np.sqrt(0.1 * 0.9 / 1_001)  # the finite rest adds to the spread


@pytest.mark.slow
@pytest.mark.skipif("CAVEAT_DATA" not in os.environ, reason="needs CAVEAT_DATA")
def test_committed_numbers_are_what_the_script_computes(fluctuation, paper_size):
    numbers, _ = fluctuation.study(*fluctuation.load(Path(os.environ["CAVEAT_DATA"])))
    committed = json.loads((STUDY / "numbers.json").read_text())
    assert vars(numbers) == pytest.approx(committed["cifar10"], rel=1e-6)
    ranks, kept = vars(paper_size.disjoint()), committed["ranks"]
    assert ranks.pop("rates") == kept.pop("rates")
    assert ranks == pytest.approx(kept | {"distance": np.nan}, rel=1e-6, nan_ok=True)
