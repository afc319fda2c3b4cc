"""Scores: from what a model said to how strange a sample is. The larger, the stranger."""

from caveat.scores._base import Score
from caveat.scores._persistence import load
from caveat.scores._projections import projections_of
from caveat.scores.ash import ASH
from caveat.scores.catalogue import Entry, catalogue, make
from caveat.scores.collision import Collision
from caveat.scores.confidence import Confidence
from caveat.scores.ctm import CTM, CTMMean
from caveat.scores.dice import DICE
from caveat.scores.energy import Energy
from caveat.scores.entropy import Entropy
from caveat.scores.fdbd import FDBD
from caveat.scores.gen import GEN
from caveat.scores.gradnorm import GradNorm
from caveat.scores.gram import Gram
from caveat.scores.guessing import Guessing
from caveat.scores.kl_matching import KLMatching
from caveat.scores.knn import KNN
from caveat.scores.kpca_error import KernelPCAError
from caveat.scores.mahalanobis import Mahalanobis
from caveat.scores.max_logit import MaxLogit
from caveat.scores.max_logit_pnorm import MaxLogitPNorm
from caveat.scores.mds_ensemble import MDSEnsemble
from caveat.scores.monte_carlo import MCMSP, MCEntropy, MCExpectedEntropy, MCMutualInformation, MCVariance
from caveat.scores.msp import MSP
from caveat.scores.nci import NCI
from caveat.scores.neco import NECO
from caveat.scores.nnguide import NNGuide
from caveat.scores.openmax import OpenMax
from caveat.scores.outlier_detector import DetectorEntry, OutlierDetector, detector, detectors
from caveat.scores.pca_error import PCAError
from caveat.scores.pnml import PNML
from caveat.scores.projected import Projected
from caveat.scores.react import ReAct
from caveat.scores.relative_mahalanobis import RelativeMahalanobis
from caveat.scores.renyi import Renyi
from caveat.scores.residual import Residual
from caveat.scores.scale import Scale
from caveat.scores.she import SHE
from caveat.scores.sirc import SIRC, SIRCResidual
from caveat.scores.temperature import TempScale, fit_temperature, with_temperature
from caveat.scores.together import applicable, score_all
from caveat.scores.tuning import Trial, Tuned, tune
from caveat.scores.vim import ViM

__all__ = [
    "ASH",
    "CTM",
    "DICE",
    "FDBD",
    "GEN",
    "KNN",
    "MCMSP",
    "MSP",
    "NCI",
    "NECO",
    "PNML",
    "SHE",
    "SIRC",
    "CTMMean",
    "Collision",
    "Confidence",
    "DetectorEntry",
    "Energy",
    "Entropy",
    "Entry",
    "GradNorm",
    "Gram",
    "Guessing",
    "KLMatching",
    "KernelPCAError",
    "MCEntropy",
    "MCExpectedEntropy",
    "MCMutualInformation",
    "MCVariance",
    "MDSEnsemble",
    "Mahalanobis",
    "MaxLogit",
    "MaxLogitPNorm",
    "NNGuide",
    "OpenMax",
    "OutlierDetector",
    "PCAError",
    "Projected",
    "ReAct",
    "RelativeMahalanobis",
    "Renyi",
    "Residual",
    "SIRCResidual",
    "Scale",
    "Score",
    "TempScale",
    "Trial",
    "Tuned",
    "ViM",
    "applicable",
    "catalogue",
    "detector",
    "detectors",
    "fit_temperature",
    "load",
    "make",
    "projections_of",
    "score_all",
    "tune",
    "with_temperature",
]
