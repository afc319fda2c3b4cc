"""Results of the library: frozen records with named fields, each number with its interval."""

from caveat.results.bounds import ScoreBounds
from caveat.results.comparison import Comparison
from caveat.results.estimate import Estimate, proportion_interval
from caveat.results.intervals import Intervals
from caveat.results.model_comparison import ModelComparison
from caveat.results.paired_test import PairedTest
from caveat.results.promise import Promise
from caveat.results.risk_threshold import RiskThreshold
from caveat.results.sets import PredictionSets

__all__ = [
    "Comparison",
    "Estimate",
    "Intervals",
    "ModelComparison",
    "PairedTest",
    "PredictionSets",
    "Promise",
    "RiskThreshold",
    "ScoreBounds",
    "proportion_interval",
]
