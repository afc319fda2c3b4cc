"""Ways to train a classifier, and the loop that runs them."""

from caveat.nn.training.augmentation import Augmentation
from caveat.nn.training.branches import DeepGamblers, DeVries
from caveat.nn.training.catalogue import PARADIGMS, make_paradigm
from caveat.nn.training.ccu import CCU
from caveat.nn.training.confidnet import ConfidNet
from caveat.nn.training.dropout_mean import dropout_mean
from caveat.nn.training.exposure import ACET, CEDA, OutlierExposure
from caveat.nn.training.fit import fit_classifier
from caveat.nn.training.good import GOOD
from caveat.nn.training.joint import Joint
from caveat.nn.training.model_folder import Epoch, Trained, load_model, save_model
from caveat.nn.training.outlier_mix import OutlierMix
from caveat.nn.training.paradigm import Batch, CrossEntropy, Loss, Paradigm, Phase
from caveat.nn.training.presets import PRESETS, Preset, fit_preset
from caveat.nn.training.published import PUBLISHED_DATA, PUBLISHED_METHODS, published_preset
from caveat.nn.training.schedule import EarlyStopping, Ramp

__all__ = [
    "ACET",
    "CCU",
    "CEDA",
    "GOOD",
    "PARADIGMS",
    "PRESETS",
    "PUBLISHED_DATA",
    "PUBLISHED_METHODS",
    "Augmentation",
    "Batch",
    "ConfidNet",
    "CrossEntropy",
    "DeVries",
    "DeepGamblers",
    "EarlyStopping",
    "Epoch",
    "Joint",
    "Loss",
    "OutlierExposure",
    "OutlierMix",
    "Paradigm",
    "Phase",
    "Preset",
    "Ramp",
    "Trained",
    "dropout_mean",
    "fit_classifier",
    "fit_preset",
    "load_model",
    "make_paradigm",
    "published_preset",
    "save_model",
]
