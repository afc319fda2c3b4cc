"""What changes during a run: ramps of weights and radii, the learning rate, and the rule that ends it early."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from caveat._internal.checks import as_kind, as_number, as_positive, as_share, check_known
from caveat._internal.params import check_params, choice, count, number
from caveat.errors import InputError

__all__ = ["EarlyStopping", "Ramp", "Schedule", "Share", "as_schedule"]

Share = tuple[float, float]  # start and stop, in shares of all steps
Schedule = Callable[[float], float]  # share of the steps done -> factor of the learning rate
_MONITORS = {"loss": 1, "augrc": 1, "accuracy": -1}  # sign: 1 where lower is better


@final
@dataclass(frozen=True)
class Ramp:
    """A weight or a radius: zero until ``start``, then a straight line to ``value`` at ``stop``, then ``value``.

    A certified loss at full strength from the first step makes a network answer the uniform distribution to everything,
    from which it never recovers. Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix D.

    Parameters
    ----------
    value
        What is reached.
    start, stop
        Shares of all training steps, 0 <= start <= stop <= 1. A start below 0 is a virtual one: the line has already
        risen when training begins (the appendix starts kappa "at epoch -2" on CIFAR-10).
    name
        Name of the parameter for messages.

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
        """The value after this share of all steps.

        Parameters
        ----------
        progress
            From 0 to 1.

        Returns
        -------
        float
            The value.
        """
        if progress >= self.stop:
            return self.value
        if progress <= self.start:
            return 0.0
        return self.value * (progress - self.start) / (self.stop - self.start)


def as_schedule(schedule: str | Mapping[float, float]) -> Schedule:
    """``"constant"``, ``"cosine"`` (half a wave down to 0), or milestones {share of the steps: factor from there on}.

    Examples
    --------
    >>> rate = as_schedule({0.7: 0.2, 0.9: 0.04})
    >>> [rate(share) for share in (0.0, 0.69, 0.7, 0.95)]
    [1.0, 1.0, 0.2, 0.04]
    >>> [round(as_schedule("cosine")(share), 2) for share in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    if isinstance(schedule, str):
        check_known(schedule, ("constant", "cosine"), "schedule")
        return (lambda done: 1.0) if schedule == "constant" else (lambda done: (1 + math.cos(math.pi * done)) / 2)
    as_kind(schedule, Mapping, "schedule", what="'constant', 'cosine' or milestones {share: factor}")
    try:
        steps = sorted((float(share), float(factor)) for share, factor in schedule.items())
    except (TypeError, ValueError):
        raise InputError(f"schedule milestones must be numbers {{share: factor}}, got {schedule!r}.") from None
    for share, factor in steps:
        as_share(share, "a milestone of schedule")
        as_positive(factor, f"the factor of schedule at {share:g}")
    return lambda done: next((factor for share, factor in reversed(steps) if done >= share), 1.0)


@final
@dataclass(frozen=True)
class EarlyStopping:
    """Ends a phase after ``patience`` epochs without a better value, and restores the weights of the best one.

    Parameters
    ----------
    monitor
        Of the validation set: ``"loss"`` (cross-entropy), ``"augrc"`` (of the network's own confidence where it has
        one, else of its largest probability) or ``"accuracy"``.
    patience
        Epochs to wait for a better value.
    least
        By how much a value must be better to count.

    Examples
    --------
    >>> EarlyStopping("augrc", patience=3).better(0.04, than=0.05)
    True
    """

    monitor: str = choice("loss", _MONITORS)
    patience: int = count(5)
    least: float = number(0.0, least=0)

    def __post_init__(self) -> None:
        check_params(self)

    def better(self, value: float, *, than: float | None, monitor: str | None = None) -> bool:
        """Whether ``value`` beats the best so far; every value beats None.

        Parameters
        ----------
        value
            The new value.
        than
            The best so far, or None.
        monitor
            What the values measure; None: ``self.monitor``.

        Returns
        -------
        bool
            True where it is better by more than ``least``.
        """
        return than is None or _MONITORS[monitor or self.monitor] * (than - value) > self.least
