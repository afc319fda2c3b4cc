"""Measuring sorts every set once; the numbers must be those of the public functions, each with its own sort."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest

from caveat import Outputs, evaluate
from caveat.conformal import FPRBand
from caveat.errors import CaveatWarning
from caveat.evaluation.curves import roc_band
from caveat.evaluation.records import Answers, Curve, Detection, Scores, Selective
from caveat.metrics import (
    aupr,
    auroc_interval,
    conformal_auroc,
    fpr_at_tpr,
    ood_failures,
    risk_curve,
    selective_intervals,
)


@pytest.fixture(scope="module", params=[False, True], ids=["distinct", "tied"])
def measured(request):
    rng = np.random.default_rng(0)

    def said(n, strength):
        labels = rng.integers(4, size=n)
        logits = strength * np.eye(4)[labels] + rng.normal(size=(n, 4))
        return Outputs(logits=np.round(logits) if request.param else logits, labels=labels)

    sets = {"near": said(80, 1.0), "far": said(120, 0.0)}
    with warnings.catch_warnings():  # rounded rows of two sets are equal by chance
        warnings.simplefilter("ignore", CaveatWarning)
        result = evaluate(inlier=said(300, 2.0), calibration=said(100, 2.0), outliers=sets, scores=["msp", "energy"])
    scores = {(str(r.method), r.role, r.block.outlier): r.values for r in result.of(Scores)}
    correct = next(r.correct for r in result.of(Answers) if r.role == "inlier").astype(bool)
    return result, scores, correct


def close(found, expected):
    """The same estimate, up to the last bits of sums in another order."""
    for name, value in dataclasses.asdict(expected).items():
        assert getattr(found, name) == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), name


def test_detection_is_that_of_the_public_functions(measured):
    result, scores, _ = measured
    assert len(result.of(Detection)) == 4
    for record in result.of(Detection):
        name = str(record.method)
        sides = {"inlier": scores[name, "inlier", ""], "outlier": scores[name, "outlier", record.block.outlier]}
        close(record.auroc, auroc_interval(**sides))
        close(record.auroc_guaranteed, conformal_auroc(**sides, method="betting", two_sided=True))
        assert record.aupr.value == pytest.approx(aupr(**sides))
        assert record.fpr95_outlier_positive.value == pytest.approx(fpr_at_tpr(**sides))
        assert record.fpr95_inlier_positive.value == pytest.approx(fpr_at_tpr(**sides, positive="inlier"))


def test_selective_risk_is_that_of_the_public_functions(measured):
    result, scores, correct = measured
    assert len(result.of(Selective)) == 6
    for record in result.of(Selective):
        name, outlier = str(record.method), record.block.outlier
        inside, rows = scores[name, "inlier", ""], {}
        if outlier:
            outside = scores[name, "outlier", outlier]
            rows["score"], rows["correct"] = ood_failures(inlier=inside, correct=correct, outlier=outside)
        else:
            rows = {"score": inside, "correct": correct}
            close(record.auroc_of_errors, auroc_interval(inlier=inside[correct], outlier=inside[~correct]))
        for metric, expected in selective_intervals(**rows).items():
            close(getattr(record, metric), expected)


def test_curves_are_those_of_the_public_functions(measured):
    result, scores, correct = measured
    for record in result.of(Curve):
        if record.kind == "roc":
            inside = scores[record.name, "inlier", ""]
            expected = roc_band(FPRBand(inside, two_sided=True), scores[record.name, "outlier", record.block.outlier])
            np.testing.assert_array_equal((record.y, record.lower, record.upper), expected[1:])
        if record.kind == "risk" and not record.block.outlier:
            curve = risk_curve(score=scores[record.name, "inlier", ""], correct=correct)
            points = dict(zip(curve.coverage.tolist(), curve.selective.tolist(), strict=True))
            assert [points[x] for x in record.x.tolist()] == record.y.tolist()


def test_nothing_is_drawn_for_selective_intervals(measured):
    result, _, _ = measured
    assert {record.augrc.method for record in result.of(Selective)} == {"influence function"}
