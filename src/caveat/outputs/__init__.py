"""Outputs of a model on a data set, and their files."""

from caveat.outputs.head import Head
from caveat.outputs.outputs import Outputs

__all__ = ["Head", "Outputs"]
