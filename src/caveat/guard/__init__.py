"""The decision that ships: gates with promises, verdicts with reasons, files, ONNX and drift alarms."""

from caveat.guard.guard import Guard
from caveat.guard.verdicts import Verdicts
from caveat.guard.watch import Watch

__all__ = ["Guard", "Verdicts", "Watch"]
