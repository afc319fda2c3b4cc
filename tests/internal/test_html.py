"""What a notebook shows of a result: short, escaped, with its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from caveat._internal.html import small_table
from caveat.conformal import FPRBand
from caveat.evaluation import evaluate
from caveat.metrics import risk_curve
from caveat.results import Estimate, PredictionSets
from caveat.stats import compare

RNG = np.random.default_rng(0)
RESULTS = {
    "Estimate": (Estimate(0.91, 0.89, 0.93, level=0.95, n=100, method="DeLong"), "0.89 to 0.93"),
    "PredictionSets": (PredictionSets(np.eye(3, dtype=bool), alpha=0.1, level=0.9), "size 1"),
    "Comparison": (compare([[1, 2], [1, 2], [1, 2], [1, 3], [1, 2], [1, 2]], methods=["<a>", "b"]), "&lt;a&gt;"),
    "RiskCurve": (risk_curve(score=np.arange(10.0), correct=np.arange(10) < 8), "20.00 %"),
    "FPRBand": (FPRBand(RNG.normal(size=200)), "at most"),
}


@pytest.mark.parametrize(("result", "key_word"), RESULTS.values(), ids=RESULTS)
def test_a_result_shows_its_numbers(result, key_word):
    shown = result._repr_html_()
    assert key_word in shown
    assert shown.startswith("<table>")
    assert len(shown) < 3000


def test_names_are_escaped():
    assert "<script>" not in small_table("<script>", [("<script>", "<script>")], head=("<script>",), note="<script>")


def test_an_evaluation_shows_its_decision(make_outputs):
    found = evaluate(inlier=make_outputs(n=300), outliers={"far <b>": make_outputs(n=50, seed=3, shift=4.0)},
                     scores=["msp", "energy"])  # fmt: skip
    shown = found._repr_html_()
    assert "reject when" in shown
    assert "far &lt;b&gt;" in shown
    assert len(shown) < 5000
