"""Chance in training: one generator per purpose, all from one seed, and torch's global state left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

__all__ = ["Chance", "settled"]

_PURPOSES = ("order", "outliers", "loss")


@final
@dataclass(frozen=True, eq=False)
class Chance:
    """Generators for the order of the rows, the draw of outliers and the loss; dropout uses torch's global one."""

    order: torch.Generator
    outliers: torch.Generator
    loss: torch.Generator
    device: torch.device

    def states(self) -> dict[str, Tensor]:
        found = {purpose: getattr(self, purpose).get_state() for purpose in _PURPOSES}
        found["global"] = torch.get_rng_state()
        if self.device.type == "cuda":
            found["cuda"] = torch.cuda.get_rng_state(self.device)
        return found

    def restore(self, states: dict[str, Tensor]) -> None:
        for purpose in _PURPOSES:
            getattr(self, purpose).set_state(states[purpose])
        torch.set_rng_state(states["global"])
        if "cuda" in states and self.device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], self.device)


@contextmanager
def settled(seed: int, device: torch.device, threads: int | None) -> Iterator[Chance]:
    """Seeded generators and the wished number of threads inside; everything global as before afterwards."""
    words = np.random.SeedSequence(seed).generate_state(len(_PURPOSES) + 1, np.uint64)
    seeds = [int(word >> np.uint64(1)) for word in words]  # torch wants less than 2^63
    before = torch.get_num_threads()
    gpus = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seeds[-1])
        order, outliers, loss = (torch.Generator().manual_seed(value) for value in seeds[:-1])
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            yield Chance(order, outliers, loss, device)
        finally:
            torch.set_num_threads(before)
