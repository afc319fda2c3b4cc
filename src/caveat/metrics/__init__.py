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
from caveat.metrics.binomial import proportion_interval
from caveat.metrics.conformal_detection import conformal_auroc, conformal_fpr_at_tpr
from caveat.metrics.coverage import coverage, covgap, worst_slab_coverage
from caveat.metrics.detection import auroc, fpr_at_tpr, roc_curve
from caveat.metrics.efficiency import better, efficiency
from caveat.metrics.regression import interval_adaptivity, width_error_r2, width_error_tau
from caveat.metrics.selective import RiskCurve, augrc, augrc_interval, aurc, risk_curve
from caveat.metrics.validation import MetricValidation, property_rate, validate_metrics

__all__ = [
    "MetricValidation",
    "Placements",
    "RiskCurve",
    "adaptivity",
    "augrc",
    "augrc_interval",
    "aurc",
    "auroc",
    "auroc_interval",
    "better",
    "conformal_auroc",
    "conformal_fpr_at_tpr",
    "coverage",
    "covgap",
    "deficit",
    "efficiency",
    "escv",
    "excess",
    "fpr_at_tpr",
    "interval_adaptivity",
    "mean_auroc_interval",
    "paired_p_value",
    "property_rate",
    "proportion_interval",
    "rank_cv",
    "rank_ss",
    "risk_curve",
    "roc_curve",
    "sscv",
    "steps_short_and_over",
    "t_cv",
    "t_ss",
    "true_ranks",
    "validate_metrics",
    "width_error_r2",
    "width_error_tau",
    "worst_slab_coverage",
]
