"""The torch edge: from a model to its outputs. No other package below imports torch."""

from caveat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("caveat.nn", extra="torch") from error

from caveat.nn import ease
from caveat.nn.extract import extract, stream
from caveat.nn.extract_onnx import extract_onnx
from caveat.nn.float64 import in_float64
from caveat.nn.noisy_mds import NoisyMDSEnsemble
from caveat.nn.odin import ODIN
from caveat.nn.rankfeat import RankFeat

__all__ = [
    "ODIN",
    "NoisyMDSEnsemble",
    "RankFeat",
    "ease",
    "extract",
    "extract_onnx",
    "in_float64",
    "stream",
]
