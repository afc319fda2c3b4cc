"""Processor time of calls: the least of several, over all threads, so that other programs hardly count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

__all__ = ["least", "take_turns"]


def take_turns(calls: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of each call. The calls take turns: what slows the machine for a while then slows them all alike."""
    seconds = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.process_time()
            call()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds


def least(call: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of one call."""
    return take_turns({"call": call}, repeats)["call"]
