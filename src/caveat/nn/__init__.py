"""The torch edge: from a model to what it said. Nothing below this package knows torch."""

from caveat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("caveat.nn", extra="torch") from error

from caveat.nn import ease
from caveat.nn.extract import extract
from caveat.nn.extract_onnx import extract_onnx
from caveat.nn.odin import ODIN
from caveat.nn.rankfeat import RankFeat
from caveat.nn.stream import stream

__all__ = ["ODIN", "RankFeat", "ease", "extract", "extract_onnx", "stream"]
