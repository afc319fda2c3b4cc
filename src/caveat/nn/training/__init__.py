"""Ways to train a classifier, and the loop that runs them."""

from caveat.nn.training.catalogue import PARADIGMS, make_paradigm
from caveat.nn.training.cross_entropy import CrossEntropy
from caveat.nn.training.early_stopping import EarlyStopping
from caveat.nn.training.fit import fit_classifier
from caveat.nn.training.paradigm import Loss, Paradigm, Phase
from caveat.nn.training.schedule import ramp
from caveat.nn.training.trained import Epoch, Trained

__all__ = [
    "PARADIGMS",
    "CrossEntropy",
    "EarlyStopping",
    "Epoch",
    "Loss",
    "Paradigm",
    "Phase",
    "Trained",
    "fit_classifier",
    "make_paradigm",
    "ramp",
]
