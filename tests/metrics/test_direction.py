from __future__ import annotations

import pytest
from caveat.report.study_verdicts import METRICS

from caveat.metrics.direction import higher_is_better


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("auroc", "AUROC", "mean_conformal_auroc", "near AUROC", "aupr", "ROC-AUC", "accuracy", "ACC", "t_ss"), True),
        (
            ("fpr95_outlier_positive", "FPR@95", "FPR95", "aurc", "E-AURC", "misclassification_augrc", "ece", "nll"),
            False,
        ),
        (("brier", "error rate", "selective risk", "t_cv", "SSCV", "mean_size"), False),
        (("value", "coverage", "msp", "", "auroc error", "seconds?", "score"), None),
    ],
)
def test_direction_by_name(names, expected):
    assert {name: higher_is_better(name) for name in names} == dict.fromkeys(names, expected)


def test_the_metrics_that_reports_compare_point_the_same_way():
    for name, metric in METRICS.items():
        if metric.higher_is_better is not None:
            assert higher_is_better(name) == metric.higher_is_better
