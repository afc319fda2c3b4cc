"""Metrics: how well a score separates inliers from outliers, and right answers from wrong ones."""

from caveat.metrics.adaptivity import (
    adaptivity,
    deficit,
    escv,
    excess,
    rank_cv,
    rank_ss,
    sscv,
    steps_short_and_over,
    t_cv,
    t_ss,
    true_ranks,
)
from caveat.metrics.auroc_intervals import Placements, auroc_interval, mean_auroc_interval, paired_p_value
from caveat.metrics.calibration import Calibration, Reliability, accuracy, brier, calibration, ece, nll, reliability
from caveat.metrics.conformal_detection import conformal_auroc, conformal_fpr_at_tpr
from caveat.metrics.coverage import CoverageVerdict, coverage, coverage_verdict, covgap, worst_slab_coverage
from caveat.metrics.detection import aupr, auroc, conservative_auroc, detection_error, fpr_at_tpr, roc_curve
from caveat.metrics.efficiency import better, efficiency
from caveat.metrics.ood_protocol import FailureDetection, misclassification, ood_failures, ood_protocol
from caveat.metrics.regression import interval_adaptivity, width_error_r2, width_error_tau
from caveat.metrics.selective import (
    RiskCurve,
    augrc,
    aurc,
    balanced_augrc,
    balanced_aurc,
    coverage_at_risk,
    e_augrc,
    e_aurc,
    risk_at_coverage,
    risk_curve,
)
from caveat.metrics.selective_intervals import augrc_interval, aurc_interval, selective_intervals
from caveat.results import proportion_interval

__all__ = [
    "Calibration",
    "CoverageVerdict",
    "FailureDetection",
    "Placements",
    "Reliability",
    "RiskCurve",
    "accuracy",
    "adaptivity",
    "augrc",
    "augrc_interval",
    "aupr",
    "aurc",
    "aurc_interval",
    "auroc",
    "auroc_interval",
    "balanced_augrc",
    "balanced_aurc",
    "better",
    "brier",
    "calibration",
    "conformal_auroc",
    "conformal_fpr_at_tpr",
    "conservative_auroc",
    "coverage",
    "coverage_at_risk",
    "coverage_verdict",
    "covgap",
    "deficit",
    "detection_error",
    "e_augrc",
    "e_aurc",
    "ece",
    "efficiency",
    "escv",
    "excess",
    "fpr_at_tpr",
    "interval_adaptivity",
    "mean_auroc_interval",
    "misclassification",
    "nll",
    "ood_failures",
    "ood_protocol",
    "paired_p_value",
    "proportion_interval",
    "rank_cv",
    "rank_ss",
    "reliability",
    "risk_at_coverage",
    "risk_curve",
    "roc_curve",
    "selective_intervals",
    "sscv",
    "steps_short_and_over",
    "t_cv",
    "t_ss",
    "true_ranks",
    "width_error_r2",
    "width_error_tau",
    "worst_slab_coverage",
]
