"""The state of a run: its random generators, its position, and one file with all of it that cannot run code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from caveat._internal.files import from_json, path_errors, replacing_file
from caveat.errors import InputError, MissingExtraError

__all__ = ["Chance", "Position", "read_checkpoint", "read_tensors", "settled", "write_checkpoint", "write_tensors"]

_NAME, _FORMAT = "checkpoint.safetensors", "caveat-checkpoint"
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
        states = {purpose: getattr(self, purpose).get_state() for purpose in _PURPOSES}
        states["global"] = torch.get_rng_state()
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states

    def restore(self, states: dict[str, Tensor]) -> None:
        for purpose in _PURPOSES:
            getattr(self, purpose).set_state(states[purpose])
        torch.set_rng_state(states["global"])
        if "cuda" in states and self.device.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"], self.device)


@contextmanager
def settled(seed: int, device: torch.device, threads: int | None) -> Iterator[Chance]:
    """Seeded generators and this number of threads inside; the global state is restored afterwards."""
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


@final
@dataclass
class Position:
    """The place in the run: the numbers of its state."""

    phase: int = 0
    epoch: int = 0  # within the phase
    step: int = 0  # within the epoch
    sums: dict[str, float] = field(default_factory=dict)  # of loss and parts, over the steps of this epoch
    best: float | None = None
    waited: int = 0
    seconds: float = 0.0  # of training, over all starts
    epoch_seconds: float = 0.0
    stopped_early: bool = False
    done: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)


def write_checkpoint(
    folder: Path, kinds: Mapping[str, Mapping[str, Tensor]], *, settings: Mapping[str, Any], position: Position,
    optimizer: Optimizer | None,
) -> None:  # fmt: skip
    """Write the tensors by kind (net, chance, best), the position and the optimizer's state."""
    tensors = {f"{kind}.{name}": value for kind, named in kinds.items() for name, value in named.items()}
    about: dict[str, Any] = {"settings": dict(settings), "position": vars(position)}
    if optimizer is not None:
        state = optimizer.state_dict()
        about |= {"groups": state["param_groups"], "numbers": {}}
        for number, values in state["state"].items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"optimizer.{number}.{name}"] = value
                else:
                    about["numbers"][f"{number}.{name}"] = value
    write_tensors(folder / _NAME, tensors, {"format": _FORMAT, "about": json.dumps(about)})


def read_checkpoint(
    folder: Path, settings: Mapping[str, Any]
) -> tuple[Position, dict[str, dict[str, Tensor]], dict[str, Any] | None] | None:
    """Position, tensors by kind (net, chance, best) and the optimizer's state; None where there is no checkpoint.

    A checkpoint of another run (other settings, other data) is an error that names what differs.
    """
    path = folder / _NAME
    if not path.exists():
        return None
    tensors, metadata = read_tensors(path)
    if metadata.get("format") != _FORMAT:
        raise InputError(f"{path} is not a checkpoint of Caveat. Choose another folder.")
    about = from_json(metadata.get("about", ""), str(path))
    before, now = about["settings"], json.loads(json.dumps(dict(settings)))
    for key in sorted(key for key in now | before if now.get(key) != before.get(key)):
        raise InputError(f"{folder} holds a checkpoint of another run: {key} was {before.get(key)!r}, "
                         f"now {now.get(key)!r}. Choose another folder, or remove it.")  # fmt: skip
    kinds: dict[str, dict[str, Tensor]] = {"net": {}, "chance": {}, "best": {}, "optimizer": {}}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        kinds[kind][rest] = value
    state = None
    if "groups" in about:
        state = {"param_groups": about["groups"], "state": {}}
        for name, value in {**kinds["optimizer"], **about["numbers"]}.items():
            number, _, rest = name.partition(".")
            state["state"].setdefault(int(number), {})[rest] = value
    del kinds["optimizer"]
    return Position(**about["position"]), kinds, state


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Tensors and text in one safetensors file, written under another name and renamed."""
    try:
        from safetensors.torch import save_file
    except ImportError:
        raise MissingExtraError("writing a model", extra="torch") from None
    # A copy each: two names may share memory (tied weights), which the format refuses.
    owned = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with replacing_file(path) as temporary:
        save_file(owned, temporary, metadata=dict(metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and text of a safetensors file; a damaged one gets one sentence."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise MissingExtraError("reading a model", extra="torch") from None
    with path_errors(path, "read"), path.open("rb"):
        pass  # a clearer message than that of safetensors for a path that cannot be opened
    try:
        with safe_open(path, framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, dict(opened.metadata() or {})  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is damaged or not a safetensors file ({error}). Write it again.") from None
