"""OOD scores: one number per sample from the outputs of a model. The larger, the stranger."""

from caveat.scores._base import Score
from caveat.scores._persistence import load
from caveat.scores.ash import ASH, Scale
from caveat.scores.catalogue import Entry, catalogue, make
from caveat.scores.ctm import CTM, SHE, CTMMean
from caveat.scores.energy import Energy, MaxLogit
from caveat.scores.entropy import GEN, Collision, Entropy, Guessing, Renyi
from caveat.scores.fdbd import FDBD, NCI
from caveat.scores.gradnorm import GradNorm
from caveat.scores.gram import Gram
from caveat.scores.kl_matching import KLMatching
from caveat.scores.knn import KNN, NNGuide
from caveat.scores.kpca_error import KernelPCAError
from caveat.scores.mahalanobis import Mahalanobis, RelativeMahalanobis
from caveat.scores.max_logit_pnorm import MaxLogitPNorm
from caveat.scores.mds_ensemble import MDSEnsemble
from caveat.scores.monte_carlo import MCMSP, MCEntropy, MCExpectedEntropy, MCMutualInformation, MCVariance
from caveat.scores.msp import MSP, Confidence, TempScale, fit_temperature, with_temperature
from caveat.scores.openmax import OpenMax
from caveat.scores.outlier_detector import DetectorEntry, OutlierDetector, detector, detectors
from caveat.scores.pca_error import NECO, PCAError
from caveat.scores.pnml import PNML
from caveat.scores.projected import Projected, projections_of
from caveat.scores.react import DICE, ReAct
from caveat.scores.sirc import SIRC, SIRCResidual
from caveat.scores.tempered import Tempered
from caveat.scores.together import applicable, score_all
from caveat.scores.tuning import Trial, Tuned, tune
from caveat.scores.vim import Residual, ViM

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
    "Tempered",
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
