"""Conformal prediction: from scores to p-values, thresholds, sets and bands with finite-sample guarantees."""

from caveat.conformal import idealised
from caveat.conformal._bag import Euclidean
from caveat.conformal.betting import mean_bounds
from caveat.conformal.boundary import boundary
from caveat.conformal.conditional_p import conditional_p_values, fpr_law
from caveat.conformal.cross_intervals import CrossIntervals
from caveat.conformal.cross_sets import CrossSets
from caveat.conformal.difficulty import EaseBins, ease, ease_of, logit_noise_ease, regression_ease
from caveat.conformal.difficulty_model import DifficultyModel
from caveat.conformal.difficulty_sets import DifficultyIntervals, DifficultySets
from caveat.conformal.e_values import e_values, select_by_e_values
from caveat.conformal.fpr_band import FPRBand
from caveat.conformal.full_knn import FullKNN
from caveat.conformal.label_clusters import LabelClusters
from caveat.conformal.label_ranks import LabelRanks
from caveat.conformal.label_shift import LabelShift, label_shift_weights
from caveat.conformal.local_levels import calibrate_shape, rank_weights
from caveat.conformal.nonconformity import APS, LAC, RAPS, SAPS, Margin, Nonconformity, TopK
from caveat.conformal.p_values import p_values
from caveat.conformal.quantile import quantile
from caveat.conformal.rank_histogram import RankHistogram
from caveat.conformal.risk import threshold_for_risk
from caveat.conformal.risk_control import control_risk
from caveat.conformal.select_cases import case_p_values, select_cases
from caveat.conformal.selection import select_outliers, select_outliers_from
from caveat.conformal.shift import ShiftWeights, shift_weights
from caveat.conformal.split_intervals import SplitIntervals
from caveat.conformal.split_sets import SplitSets
from caveat.conformal.threshold import required_n, threshold_for
from caveat.conformal.tuning import Tuned, tune_difficulty, tune_raps, tune_saps
from caveat.conformal.tuning_intervals import tune_difficulty_intervals
from caveat.conformal.violation import violation_probability
from caveat.conformal.weighted import effective_n, shift_promise, weighted_p_values, weighted_quantile

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "SAPS",
    "CrossIntervals",
    "CrossSets",
    "DifficultyIntervals",
    "DifficultyModel",
    "DifficultySets",
    "EaseBins",
    "Euclidean",
    "FPRBand",
    "FullKNN",
    "LabelClusters",
    "LabelRanks",
    "LabelShift",
    "Margin",
    "Nonconformity",
    "RankHistogram",
    "ShiftWeights",
    "SplitIntervals",
    "SplitSets",
    "TopK",
    "Tuned",
    "boundary",
    "calibrate_shape",
    "case_p_values",
    "conditional_p_values",
    "control_risk",
    "e_values",
    "ease",
    "ease_of",
    "effective_n",
    "fpr_law",
    "idealised",
    "label_shift_weights",
    "logit_noise_ease",
    "mean_bounds",
    "p_values",
    "quantile",
    "rank_weights",
    "regression_ease",
    "required_n",
    "select_by_e_values",
    "select_cases",
    "select_outliers",
    "select_outliers_from",
    "shift_promise",
    "shift_weights",
    "threshold_for",
    "threshold_for_risk",
    "tune_difficulty",
    "tune_difficulty_intervals",
    "tune_raps",
    "tune_saps",
    "violation_probability",
    "weighted_p_values",
    "weighted_quantile",
]
