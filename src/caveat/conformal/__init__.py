"""Conformal prediction: from scores to p-values, thresholds and sets with finite-sample guarantees."""

from caveat.conformal import idealised
from caveat.conformal.nonconformity import APS, LAC, RAPS, SAPS, Margin, Nonconformity, TopK
from caveat.conformal.p_values import p_values
from caveat.conformal.quantile import quantile
from caveat.conformal.split_sets import SplitSets

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "SAPS",
    "Margin",
    "Nonconformity",
    "SplitSets",
    "TopK",
    "idealised",
    "p_values",
    "quantile",
]
