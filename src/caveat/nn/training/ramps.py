"""A weight or a radius that grows while a network learns.

A certified loss at full strength from the first step makes a network give up: it answers the uniform distribution to
everything and never recovers. So the weight of the loss (kappa) and the radius of the ball (epsilon) start at zero and
rise in a straight line. Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from caveat._internal.checks import as_number
from caveat.errors import InputError

__all__ = ["Ramp", "Share"]

Share = tuple[float, float]  # start and stop, in shares of all steps


@final
@dataclass(frozen=True)
class Ramp:
    """Zero until ``start``, then a straight line to ``value`` at ``stop``, then ``value``.

    Parameters
    ----------
    value
        What is reached.
    start, stop
        Shares of all training steps, 0 <= start <= stop <= 1. A start below 0 is a virtual one: the line has already
        risen when training begins (the appendix starts kappa "at epoch -2" on CIFAR-10).
    name
        What it is of, for the message when something is wrong with it.

    Examples
    --------
    >>> ramp = Ramp(0.3, start=0.1, stop=0.6)
    >>> [round(ramp(progress), 2) for progress in (0.0, 0.1, 0.35, 0.6, 1.0)]
    [0.0, 0.0, 0.15, 0.3, 0.3]
    """

    value: float
    start: float = 0.0
    stop: float = 0.0
    name: str = "value"

    def __post_init__(self) -> None:
        as_number(self.value, self.name, least=0)
        if not -1 <= self.start <= self.stop <= 1:
            raise InputError(f"the ramp of {self.name} must start at -1 or later, before it stops, and stop by 1, "
                             f"got start {self.start!r} and stop {self.stop!r}.")  # fmt: skip

    def __call__(self, progress: float) -> float:
        """The value after this share of all steps."""
        if progress >= self.stop:
            return self.value
        if progress <= self.start:
            return 0.0
        return self.value * (progress - self.start) / (self.stop - self.start)
