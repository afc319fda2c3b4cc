"""Time of calls: the minimum of several, as CPU time over all threads, so that other programs hardly matter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["least", "take_turns"]


def take_turns(
    calls: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Seconds of each call. The calls alternate, so that a slow phase of the machine affects all of them."""
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = clock()
            call()
            seconds[name] = min(seconds[name], clock() - start)
    return seconds


def least(call: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of one call."""
    return take_turns({"call": call}, repeats)["call"]
