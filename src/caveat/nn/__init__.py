"""The torch edge: from a model to what it said. Nothing below this package knows torch."""

from caveat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("caveat.nn", extra="torch") from error

from caveat.nn import ease
from caveat.nn.extract import extract
from caveat.nn.stream import stream

__all__ = ["ease", "extract", "stream"]
