"""What a model said about a data set, and its files."""

from caveat.outputs.head import Head
from caveat.outputs.outputs import Outputs

__all__ = ["Head", "Outputs"]
