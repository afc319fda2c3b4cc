"""Metrics: how well a score separates inliers from outliers, and right answers from wrong ones."""

from caveat.metrics.auroc_intervals import Placements, auroc_interval, mean_auroc_interval, paired_p_value
from caveat.metrics.balanced_selective import balanced_augrc, balanced_aurc
from caveat.metrics.binomial import proportion_interval
from caveat.metrics.calibration import Calibration, Reliability, brier, calibration, ece, nll, reliability
from caveat.metrics.conformal_detection import conformal_auroc, conformal_fpr_at_tpr
from caveat.metrics.detection import aupr, auroc, conservative_auroc, detection_error, fpr_at_tpr, roc_curve
from caveat.metrics.ood_protocol import FailureDetection, misclassification, ood_failures, ood_protocol
from caveat.metrics.selective import (
    RiskCurve,
    augrc,
    aurc,
    coverage_at_risk,
    e_augrc,
    e_aurc,
    risk_at_coverage,
    risk_curve,
)
from caveat.metrics.selective_intervals import augrc_interval, aurc_interval

__all__ = [
    "Calibration",
    "FailureDetection",
    "Placements",
    "Reliability",
    "RiskCurve",
    "augrc",
    "augrc_interval",
    "aupr",
    "aurc",
    "aurc_interval",
    "auroc",
    "auroc_interval",
    "balanced_augrc",
    "balanced_aurc",
    "brier",
    "calibration",
    "conformal_auroc",
    "conformal_fpr_at_tpr",
    "conservative_auroc",
    "coverage_at_risk",
    "detection_error",
    "e_augrc",
    "e_aurc",
    "ece",
    "fpr_at_tpr",
    "mean_auroc_interval",
    "misclassification",
    "nll",
    "ood_failures",
    "ood_protocol",
    "paired_p_value",
    "proportion_interval",
    "reliability",
    "risk_at_coverage",
    "risk_curve",
    "roc_curve",
]
