"""Conformal prediction: from scores to p-values, thresholds, sets and bands with finite-sample guarantees."""

from caveat.conformal.boundary import boundary
from caveat.conformal.conditional_p import conditional_p_values, fpr_law
from caveat.conformal.fpr_band import FPRBand
from caveat.conformal.p_values import p_values
from caveat.conformal.quantile import quantile
from caveat.conformal.selection import select_outliers, select_outliers_from
from caveat.conformal.shape import calibrate_shape, rank_weights
from caveat.conformal.split_sets import SplitSets
from caveat.conformal.threshold import required_n, threshold_for
from caveat.conformal.violation import violation_probability

__all__ = [
    "FPRBand",
    "SplitSets",
    "boundary",
    "calibrate_shape",
    "conditional_p_values",
    "fpr_law",
    "p_values",
    "quantile",
    "rank_weights",
    "required_n",
    "select_outliers",
    "select_outliers_from",
    "threshold_for",
    "violation_probability",
]
