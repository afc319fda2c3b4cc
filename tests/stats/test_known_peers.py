"""Stored results of other software, checked also where it is not installed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from caveat.metrics import aupr, auroc
from caveat.stats import friedman, mid_ranks
from caveat.stats.posthoc import pairwise_p_values

KNOWN = json.loads((Path(__file__).parents[1] / "known" / "peers.json").read_text(encoding="utf-8"))
TABLE = np.array(KNOWN["table"], dtype=float)


def test_friedman_of_scipy():
    found = friedman(mid_ranks(TABLE))
    assert [found.statistic, found.p_value] == pytest.approx(KNOWN["friedman"])


@pytest.mark.parametrize(
    ("posthoc", "key", "digits"), [("conover", "conover_holm", 1e-9), ("nemenyi", "nemenyi", 2e-3)]
)
def test_pairs_of_scikit_posthocs(posthoc, key, digits):
    np.testing.assert_allclose(pairwise_p_values(TABLE, mid_ranks(TABLE), posthoc), KNOWN[key], atol=digits)


def test_wilcoxon_of_scipy():
    two = TABLE[:, [0, 3]]  # one pair: Holm changes nothing
    assert pairwise_p_values(two, mid_ranks(two), "wilcoxon")[0, 1] == pytest.approx(KNOWN["wilcoxon_0_3"])


def test_areas_of_scikit_learn():
    sides = {"inlier": KNOWN["inlier"], "outlier": KNOWN["outlier"]}
    assert auroc(**sides) == pytest.approx(KNOWN["auroc"])
    assert aupr(**sides) == pytest.approx(KNOWN["aupr_outlier"])
    assert aupr(**sides, positive="inlier") == pytest.approx(KNOWN["aupr_inlier"])
