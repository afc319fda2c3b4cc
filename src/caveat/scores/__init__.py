"""Scores: from what a model said to how strange a sample is. The larger, the stranger."""

from caveat.scores._base import Score
from caveat.scores._persistence import load
from caveat.scores._projections import projections_of
from caveat.scores.ash import ASH
from caveat.scores.catalogue import Entry, catalogue, make
from caveat.scores.dice import DICE
from caveat.scores.energy import Energy
from caveat.scores.fdbd import FDBD
from caveat.scores.gradnorm import GradNorm
from caveat.scores.knn import KNN
from caveat.scores.mahalanobis import Mahalanobis
from caveat.scores.msp import MSP
from caveat.scores.nci import NCI
from caveat.scores.nnguide import NNGuide
from caveat.scores.pnml import PNML
from caveat.scores.projected import Projected
from caveat.scores.react import ReAct
from caveat.scores.scale import Scale
from caveat.scores.together import applicable, score_all

__all__ = [
    "ASH",
    "DICE",
    "FDBD",
    "KNN",
    "MSP",
    "NCI",
    "PNML",
    "Energy",
    "Entry",
    "GradNorm",
    "Mahalanobis",
    "NNGuide",
    "Projected",
    "ReAct",
    "Scale",
    "Score",
    "applicable",
    "catalogue",
    "load",
    "make",
    "projections_of",
    "score_all",
]
