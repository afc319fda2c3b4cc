"""The torch edge: from a model to its outputs. No other package below imports torch."""

from caveat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("caveat.nn", extra="torch") from error

from caveat.nn import architectures, ease
from caveat.nn.attacks import attack_confidence
from caveat.nn.bounds import confidence_bounds, epsilon_star, export_network, in_float64
from caveat.nn.extract import extract, stream
from caveat.nn.extract_onnx import extract_onnx
from caveat.nn.noisy_mds import NoisyMDSEnsemble
from caveat.nn.odin import ODIN
from caveat.nn.rankfeat import RankFeat
from caveat.nn.training import fit_classifier, load_model

__all__ = [
    "ODIN",
    "NoisyMDSEnsemble",
    "RankFeat",
    "architectures",
    "attack_confidence",
    "confidence_bounds",
    "ease",
    "epsilon_star",
    "export_network",
    "extract",
    "extract_onnx",
    "fit_classifier",
    "in_float64",
    "load_model",
    "stream",
]
