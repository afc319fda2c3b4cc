"""Ways to train a classifier, and the loop that runs them."""

from caveat.nn.training.catalogue import PARADIGMS, make_paradigm
from caveat.nn.training.ceda import CEDA
from caveat.nn.training.confidnet import ConfidNet
from caveat.nn.training.cross_entropy import CrossEntropy
from caveat.nn.training.deep_gamblers import DeepGamblers
from caveat.nn.training.devries import DeVries
from caveat.nn.training.dropout_mean import dropout_mean
from caveat.nn.training.early_stopping import EarlyStopping
from caveat.nn.training.fit import fit_classifier
from caveat.nn.training.model_folder import load_model, save_model
from caveat.nn.training.oe import OutlierExposure
from caveat.nn.training.paradigm import Loss, Paradigm, Phase
from caveat.nn.training.ramps import Ramp
from caveat.nn.training.trained import Epoch, Trained

__all__ = [
    "CEDA",
    "PARADIGMS",
    "ConfidNet",
    "CrossEntropy",
    "DeVries",
    "DeepGamblers",
    "EarlyStopping",
    "Epoch",
    "Loss",
    "OutlierExposure",
    "Paradigm",
    "Phase",
    "Ramp",
    "Trained",
    "dropout_mean",
    "fit_classifier",
    "load_model",
    "make_paradigm",
    "save_model",
]
