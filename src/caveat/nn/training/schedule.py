"""How the learning rate falls over a phase."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from caveat._internal.checks import as_kind, as_positive, as_share, check_known
from caveat.errors import InputError

__all__ = ["Schedule", "as_schedule"]

Schedule = Callable[[float], float]  # share of the steps done -> factor of the learning rate


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

    def rate(done: float) -> float:
        return next((factor for share, factor in reversed(steps) if done >= share), 1.0)

    return rate
