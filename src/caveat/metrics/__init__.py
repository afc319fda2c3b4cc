"""Metrics: how well a score separates inliers from outliers, and right answers from wrong ones."""

from caveat.metrics.auroc_intervals import Placements, auroc_interval, mean_auroc_interval, paired_p_value
from caveat.metrics.binomial import proportion_interval
from caveat.metrics.conformal_detection import conformal_auroc, conformal_fpr_at_tpr
from caveat.metrics.detection import auroc, fpr_at_tpr, roc_curve
from caveat.metrics.selective import RiskCurve, augrc, augrc_interval, aurc, risk_curve

__all__ = [
    "Placements",
    "RiskCurve",
    "augrc",
    "augrc_interval",
    "aurc",
    "auroc",
    "auroc_interval",
    "conformal_auroc",
    "conformal_fpr_at_tpr",
    "fpr_at_tpr",
    "mean_auroc_interval",
    "paired_p_value",
    "proportion_interval",
    "risk_curve",
    "roc_curve",
]
