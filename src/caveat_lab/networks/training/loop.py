"""The training loop: phases, epochs, steps; a run that was killed anywhere resumes to the same weights."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD, Adam, Optimizer

from caveat._internal import ranking
from caveat.errors import TrainingError
from caveat.nn._modes import at_rest
from caveat.nn._progress import Tell
from caveat_lab.networks.training.augmentation import Augmentation
from caveat_lab.networks.training.checkpoint import Chance, Position, read_checkpoint, write_checkpoint
from caveat_lab.networks.training.paradigm import Batch, Paradigm, Phase
from caveat_lab.networks.training.rows import Draw, Rows
from caveat_lab.networks.training.schedule import EarlyStopping, Schedule

__all__ = ["OPTIMIZERS", "Loop", "epochs_of", "validate"]

OPTIMIZERS = ("adam", "sgd")
_BATCH = 256  # rows in one pass of the validation


def epochs_of(phases: tuple[Phase, ...], epochs: int) -> list[int]:
    """Epochs of each phase by their shares: at least one each, and ``epochs`` in all where that can be.

    Examples
    --------
    >>> epochs_of((Phase(share=0.6), Phase(share=0.3), Phase(share=0.1)), 10)
    [6, 3, 1]
    >>> epochs_of((Phase(share=0.6), Phase(share=0.3), Phase(share=0.1)), 2)
    [1, 1, 1]
    """
    total = sum(phase.share for phase in phases)
    ends = [round(epochs * sum(p.share for p in phases[: i + 1]) / total) for i in range(len(phases))]
    return [max(1, end - start) for start, end in zip([0, *ends], ends, strict=False)]


@final
@dataclass
class Loop:
    """One run. ``run`` trains ``net`` in place and leaves its place in ``at``."""

    net: nn.Module
    paradigm: Paradigm
    rows: Rows
    draw: Draw | None
    validation: Rows | None
    epochs: int
    batch_size: int
    learning_rate: float
    optimizer: str
    momentum: float
    weight_decay: float
    schedule: Schedule
    clip: float | None
    early_stopping: EarlyStopping | None
    augment: Augmentation | None
    chance: Chance
    device: torch.device
    settings: Mapping[str, Any]
    folder: Path | None
    checkpoint_seconds: float
    at: Position = field(default_factory=Position)
    resumed: bool = False

    def __post_init__(self) -> None:
        self._phases = self.paradigm.phases()
        self._epochs = epochs_of(self._phases, self.epochs)
        # A last batch of a single row would break batch normalization, so it is left out where there are others.
        self._steps = max(1, -(-self.rows.n // self.batch_size) - (self.rows.n % self.batch_size == 1))
        self._optimizer: Optimizer | None = None
        self._loaded: dict[str, Any] | None = None
        self._best: dict[str, Tensor] | None = None
        self._order_before = self.chance.order.get_state()
        self._written = time.monotonic()

    @property
    def steps(self) -> int:
        """Of all phases."""
        return self._steps * sum(self._epochs)

    def resume(self) -> None:
        """Take up the run where its checkpoint stands."""
        if self.folder is None or (state := read_checkpoint(self.folder, self.settings)) is None:
            return
        self.at, tensors, self._loaded = state
        self.net.load_state_dict(tensors["net"])
        self.chance.restore(tensors["chance"])
        self._best = tensors["best"] or None
        self.resumed = True

    def run(self, tell: Tell) -> None:
        if self.at.done:
            return
        flags = [(parameter, parameter.requires_grad) for parameter in self.net.parameters()]
        try:
            while self.at.phase < len(self._phases):
                self._run_phase(self._phases[self.at.phase], tell)
        finally:
            for parameter, flag in flags:
                parameter.requires_grad_(flag)
        self.at.done = True
        self._write()

    def _run_phase(self, phase: Phase, tell: Tell) -> None:
        at, net = self.at, self.net
        if phase.begin is not None and at.epoch == at.step == 0:
            phase.begin(net)
        with _frozen(net, phase):
            self._optimizer = self._make_optimizer()
            if self._loaded is not None:
                self._optimizer.load_state_dict(self._loaded)
                self._loaded = None
            while at.epoch < self._epochs[at.phase]:
                self._run_epoch(phase, tell)
                if self._stop(phase):
                    at.stopped_early = True
                    break
                self._write_now_and_then()
        if self._best is not None:
            net.load_state_dict(self._best)
        self._optimizer, self._best = None, None
        at.phase, at.epoch, at.best, at.waited = at.phase + 1, 0, None, 0
        self._write_now_and_then()

    def _stop(self, phase: Phase) -> bool:
        """Keep the weights of the last epoch if they are the best so far; True when the patience is used up."""
        rule, at = self.early_stopping, self.at
        if rule is None:
            return False
        monitor = phase.monitor or rule.monitor
        value = at.history[-1]["validation"][monitor]
        if rule.better(value, than=at.best, monitor=monitor):
            at.best, at.waited = value, 0
            self._best = {name: tensor.detach().clone() for name, tensor in self.net.state_dict().items()}
        else:
            at.waited += 1
        return at.waited >= rule.patience

    def _make_optimizer(self) -> Optimizer:
        own = [(factor, [p for p in parameters if p.requires_grad])
               for factor, parameters in self.paradigm.rates(self.net)]  # fmt: skip
        apart = {id(p) for _, parameters in own for p in parameters}
        groups: list[dict[str, Any]] = [
            {"params": [p for p in self.net.parameters() if p.requires_grad and id(p) not in apart]},
            *({"params": parameters, "factor": factor, "weight_decay": 0.0} for factor, parameters in own),
        ]
        if self.optimizer == "adam":
            return Adam(groups, lr=self.learning_rate, weight_decay=self.weight_decay)
        return SGD(groups, lr=self.learning_rate, weight_decay=self.weight_decay,
                   momentum=self.momentum, nesterov=self.momentum > 0)  # fmt: skip

    def _run_epoch(self, phase: Phase, tell: Tell) -> None:
        at, size = self.at, self.batch_size
        self._order_before = self.chance.order.get_state()
        order = torch.randperm(self.rows.n, generator=self.chance.order)
        before, started = sum(self._epochs[: at.phase]), time.perf_counter()
        where = f"{phase.name} {at.epoch + 1}/{self._epochs[at.phase]}"
        rate = 0.0
        while at.step < self._steps:
            done = (before + at.epoch) * self._steps + at.step
            rate = self._set_rate(phase)
            value, parts = self._step(phase, order[at.step * size : (at.step + 1) * size], done)
            for name, number in {"loss": value, **parts}.items():
                at.sums[name] = at.sums.get(name, 0.0) + number
            at.step += 1
            now = time.perf_counter()
            at.seconds, at.epoch_seconds, started = at.seconds + now - started, at.epoch_seconds + now - started, now
            tell(where, done + 1, {"loss": value, **parts})
            if at.step < self._steps:
                self._write_now_and_then()
        means = {name: total / self._steps for name, total in at.sums.items()}
        rows = self.validation
        measured = {} if rows is None else validate(self.net, self.paradigm, rows, self.device)
        at.history.append({
            "number": before + at.epoch + 1, "phase": phase.name, "loss": means.pop("loss"), "parts": means,
            "learning_rate": rate, "seconds": at.epoch_seconds, "validation": measured,
        })  # fmt: skip
        at.epoch, at.step, at.sums, at.epoch_seconds = at.epoch + 1, 0, {}, 0.0
        self._order_before = self.chance.order.get_state()

    def _set_rate(self, phase: Phase) -> float:
        assert self._optimizer is not None
        share = (self.at.epoch * self._steps + self.at.step) / (self._epochs[self.at.phase] * self._steps)
        rate = self.learning_rate * phase.rate * self.schedule(share)
        for group in self._optimizer.param_groups:
            group["lr"] = rate * group.get("factor", 1.0)
        return rate

    def _step(self, phase: Phase, rows: Tensor, done: int) -> tuple[float, dict[str, float]]:
        assert self._optimizer is not None
        inputs, labels = self.rows.take(rows)
        assert labels is not None
        if self.augment is not None:
            inputs = self.augment(inputs, self.chance.loss)
        batch = Batch(
            inputs.to(self.device),
            labels.to(self.device),
            None if self.draw is None else self.draw(len(rows), self.chance.outliers).to(self.device),
            progress=done / max(1, self.steps - 1),
            generator=self.chance.loss,
        )
        loss, parts = (phase.loss or self.paradigm.loss)(self.net, batch)
        value = float(loss.detach())
        if not abs(value) < float("inf"):
            raise TrainingError(
                f"the loss is {value} in epoch {self.at.epoch + 1}, step {self.at.step + 1} of {self._steps} "
                f"(phase '{phase.name}'). Lower learning_rate (now {self.learning_rate * phase.rate:g}), or set clip=1."
            )
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self._optimizer.step()
        return value, parts

    def _write_now_and_then(self) -> None:
        if self.folder is not None and time.monotonic() - self._written >= self.checkpoint_seconds:
            self._write()

    def _write(self) -> None:
        if self.folder is None:
            return
        # In the middle of an epoch its order is drawn again from the state before it.
        chance = self.chance.states() | {"order": self._order_before}
        kinds = {"net": self.net.state_dict(), "chance": chance, "best": self._best or {}}
        write_checkpoint(
            self.folder, kinds, settings=self.settings, position=self.at, optimizer=self._optimizer
        )  # fmt: skip
        self._written = time.monotonic()


@contextmanager
def _frozen(net: nn.Module, phase: Phase) -> Iterator[None]:
    """Train mode and gradients for everything but what the phase freezes or wants at rest."""
    frozen = list(phase.frozen(net))
    fixed = [parameter for module in frozen for parameter in module.parameters() if parameter.requires_grad]
    net.train()
    for module in (*frozen, *phase.at_rest(net)):
        module.eval()
    for parameter in fixed:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in fixed:
            parameter.requires_grad_(True)
        net.eval()


def validate(net: nn.Module, paradigm: Paradigm, rows: Rows, device: torch.device) -> dict[str, float]:
    """Cross-entropy, accuracy, mean largest probability, and AUGRC of the network's own confidence where it has one.

    The network is in eval mode meanwhile, and its modes are restored.
    """
    losses, right, tops, surest = [], [], [], []
    with at_rest(net), torch.inference_mode():
        for inputs, labels in rows.batches(_BATCH):
            assert labels is not None
            x, y = inputs.to(device), labels.to(device)
            logits = net(x.clone()).double()  # the model may write into its input, and runs twice
            losses.append(F.cross_entropy(logits, y, reduction="none"))
            right.append(logits.argmax(dim=1) == y)
            tops.append(logits.softmax(dim=1).amax(dim=1))
            own = paradigm.confidence(net, x)
            surest.append(tops[-1] if own is None else own.double())
    correct = torch.cat(right).cpu().numpy().astype(np.bool_)
    return {
        "loss": float(torch.cat(losses).mean()),
        "accuracy": float(correct.mean()),
        "confidence": float(torch.cat(tops).mean()),
        "augrc": ranking.augrc(-torch.cat(surest).cpu().numpy(), correct),
    }
