from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import betabinom

STUDY = Path(__file__).parents[2] / "studies" / "fpr_fluctuation"


@pytest.fixture(scope="module")
def fluctuation(study):
    return study("fpr_fluctuation", "fluctuation")


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
    assert calibration.size == numbers.n
    check(vars(numbers))


def test_committed_numbers_and_figures():
    check(json.loads((STUDY / "numbers.json").read_text()))
    for name in ("law.svg", "roc.svg"):
        assert 1000 < (STUDY / name).stat().st_size < 200_000


@pytest.mark.slow
@pytest.mark.skipif("CAVEAT_DATA" not in os.environ, reason="needs CAVEAT_DATA")
def test_committed_numbers_are_what_the_script_computes(fluctuation):
    numbers, _ = fluctuation.study(*fluctuation.load(Path(os.environ["CAVEAT_DATA"])))
    assert vars(numbers) == pytest.approx(json.loads((STUDY / "numbers.json").read_text()), rel=1e-6)
