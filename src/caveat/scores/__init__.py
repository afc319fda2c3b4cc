"""Scores: from what a model said to how strange a sample is. The larger, the stranger."""

from caveat.scores._base import Score
from caveat.scores.catalogue import Entry, catalogue, make
from caveat.scores.energy import Energy
from caveat.scores.knn import KNN
from caveat.scores.mahalanobis import Mahalanobis
from caveat.scores.msp import MSP
from caveat.scores.together import applicable, score_all

__all__ = ["KNN", "MSP", "Energy", "Entry", "Mahalanobis", "Score", "applicable", "catalogue", "make", "score_all"]
