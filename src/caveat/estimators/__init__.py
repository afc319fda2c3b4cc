"""Conformal prediction around scikit-learn estimators: sets for a classifier, intervals for a regressor."""

from caveat.estimators.classifier import ConformalClassifier
from caveat.estimators.regressor import ConformalRegressor
from caveat.estimators.wrapping import wrap

__all__ = ["ConformalClassifier", "ConformalRegressor", "wrap"]
