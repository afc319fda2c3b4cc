"""Ways to train a classifier, and the loop that runs them."""

from caveat_lab.networks.training.augmentation import Augmentation
from caveat_lab.networks.training.branches import DeepGamblers, DeVries
from caveat_lab.networks.training.catalogue import PARADIGMS, make_paradigm
from caveat_lab.networks.training.ccu import CCU
from caveat_lab.networks.training.confidnet import ConfidNet
from caveat_lab.networks.training.dropout_mean import dropout_mean
from caveat_lab.networks.training.exposure import ACET, CEDA, OutlierExposure
from caveat_lab.networks.training.fit import fit_classifier
from caveat_lab.networks.training.good import GOOD
from caveat_lab.networks.training.joint import Joint
from caveat_lab.networks.training.model_folder import Epoch, Trained, load_model, save_model
from caveat_lab.networks.training.outlier_mix import OutlierMix
from caveat_lab.networks.training.paradigm import Batch, CrossEntropy, Loss, Paradigm, Phase
from caveat_lab.networks.training.presets import PRESETS, Preset, fit_preset
from caveat_lab.networks.training.published import PUBLISHED_DATA, PUBLISHED_METHODS, published_preset
from caveat_lab.networks.training.schedule import EarlyStopping, Ramp

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
