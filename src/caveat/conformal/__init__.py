"""Conformal prediction: from scores to p-values, thresholds and sets with finite-sample guarantees."""

from caveat.conformal.p_values import p_values
from caveat.conformal.quantile import quantile
from caveat.conformal.split_sets import SplitSets

__all__ = ["SplitSets", "p_values", "quantile"]
