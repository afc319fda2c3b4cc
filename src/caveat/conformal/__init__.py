"""Conformal prediction: from scores to p-values, thresholds and sets with finite-sample guarantees."""

from caveat.conformal import idealised
from caveat.conformal.difficulty import EaseBins, ease, ease_of, logit_noise_ease, regression_ease
from caveat.conformal.difficulty_intervals import DifficultyIntervals
from caveat.conformal.difficulty_model import DifficultyModel, MaskedReconstruction
from caveat.conformal.difficulty_sets import DifficultySets
from caveat.conformal.full_knn import FullKNN
from caveat.conformal.metric_spaces import Euclidean, TangentDistance
from caveat.conformal.nonconformity import APS, LAC, RAPS, SAPS, Margin, Nonconformity, TopK
from caveat.conformal.p_values import p_values
from caveat.conformal.quantile import quantile
from caveat.conformal.split_intervals import SplitIntervals
from caveat.conformal.split_sets import SplitSets
from caveat.conformal.tuning import Tuned, tune_difficulty, tune_raps, tune_saps

__all__ = [
    "APS",
    "LAC",
    "RAPS",
    "SAPS",
    "DifficultyIntervals",
    "DifficultyModel",
    "DifficultySets",
    "EaseBins",
    "Euclidean",
    "FullKNN",
    "Margin",
    "MaskedReconstruction",
    "Nonconformity",
    "SplitIntervals",
    "SplitSets",
    "TangentDistance",
    "TopK",
    "Tuned",
    "ease",
    "ease_of",
    "idealised",
    "logit_noise_ease",
    "p_values",
    "quantile",
    "regression_ease",
    "tune_difficulty",
    "tune_raps",
    "tune_saps",
]
