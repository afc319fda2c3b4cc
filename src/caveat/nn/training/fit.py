"""Train a classifier: one call, any paradigm, a run that survives being killed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from caveat._internal.checks import as_count, as_kind, as_positive, check_known
from caveat.errors import InputError
from caveat.nn._progress import training_bar
from caveat.nn._walk import place_of
from caveat.nn.training.catalogue import make_paradigm
from caveat.nn.training.chance import settled
from caveat.nn.training.early_stopping import EarlyStopping
from caveat.nn.training.loop import OPTIMISERS, Loop
from caveat.nn.training.paradigm import Paradigm
from caveat.nn.training.rows import Rows, as_draw, draw_fingerprint
from caveat.nn.training.schedule import as_schedule
from caveat.nn.training.trained import Epoch, Trained
from caveat.nn.training.validation import validate, warn_of_collapse

__all__ = ["fit_classifier"]

_LOOK = 1000  # training rows that are looked at for a collapse where there is no validation set


def fit_classifier(
    model: nn.Module,
    data: Any,
    paradigm: str | Paradigm = "cross_entropy",
    *,
    outliers: Any = None,
    validation: Any = None,
    n_classes: int | None = None,
    epochs: int = 10,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    optimiser: str = "adam",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    schedule: str | Mapping[float, float] = "constant",
    clip: float | None = None,
    early_stopping: EarlyStopping | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    seed: int = 0,
    threads: int | None = None,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> Trained:
    """Train ``model``, in place, by a paradigm.

    The same seed, data and number of threads give the same weights, bit for bit, also when the run was killed and
    started again with the same ``checkpoint``. Torch's global generator and thread count are left as they were.

    Parameters
    ----------
    model
        Gives class logits (n, K). Paradigms with a branch more wrap it; ``Trained.model`` is then the whole.
    data
        ``(x, y)`` as arrays or tensors, or a ``torch.utils.data.Dataset``. ``uint8`` arrays are images and are scaled
        to [0, 1]. Labels are class numbers of any number type, or one-hot rows.
    paradigm
        A name (``"cross_entropy"``, ``"confidnet"``, ``"devries"``, ``"deep_gamblers"``, ``"oe"``, ``"ceda"``, ...) or
        a :class:`Paradigm` with its parameters.
    outliers
        For paradigms that learn from them: an array, tensor or ``Dataset`` to draw rows from, its labels ignored, or
        ``draw(n, generator)`` that gives a tensor of n inputs.
    validation
        ``(x, y)``: looked at after every epoch. Needed for early stopping.
    n_classes
        K; default: the largest label plus one.
    epochs, batch_size, learning_rate, momentum, weight_decay, clip
        As usual; ``clip`` bounds the norm of the gradient. Losses are means over the batch.
    optimiser
        ``"adam"``, or ``"sgd"`` with Nesterov momentum.
    schedule
        ``"constant"``, ``"cosine"``, or milestones {share of the steps: factor from there on}.
    early_stopping
        A rule, or a patience in epochs for the validation loss.
    checkpoint
        Folder for the state of the run. A run that finds one goes on from there; one that finds the state of another
        run refuses.
    checkpoint_seconds
        At least this long between two writes; 0 writes after every step.
    seed
        Of everything that is drawn: order, outliers, hints, dropout, new weights. The model's own first weights are the
        caller's.
    threads, device
        Default: as torch has them; where the model is.
    progress
        Show a progress bar on standard error; default: if that is a terminal.

    Examples
    --------
    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> trained = fit_classifier(nn.Linear(2, 2), (x, y), epochs=20, learning_rate=0.1)
    >>> trained.outputs((x, y)).correct.mean() > 0.95
    np.True_
    """
    chosen = make_paradigm(paradigm) if isinstance(paradigm, str) else paradigm
    as_kind(chosen, Paradigm, "paradigm", what="a name or a Paradigm")
    rows = Rows.of(data, "data")
    held_out = None if validation is None else Rows.of(validation, "validation")
    for name, given in (("data", rows), ("validation", held_out)):
        if given is not None and given.labels is None:
            raise InputError(f"{name} must be (inputs, labels), got inputs alone.")
    assert rows.labels is not None
    seen = max(2, int(rows.labels.max()) + 1)
    classes = as_count(int(rows.labels.max()) + 1 if n_classes is None else n_classes, "n_classes", least=seen)
    if chosen.needs_outliers and outliers is None:
        raise InputError(f"paradigm '{chosen.name}' learns from outliers. Pass outliers=<array or draw(n, generator)>.")
    if not chosen.needs_outliers and outliers is not None:
        raise InputError(f"paradigm '{chosen.name}' uses no outliers. Leave them out, or choose 'oe'.")
    check_known(optimiser, OPTIMISERS, "optimiser")
    rule = EarlyStopping(patience=early_stopping) if isinstance(early_stopping, int) else early_stopping
    if rule is not None and held_out is None:
        raise InputError("early_stopping looks at the validation set. Pass validation=(x, y).")
    rate = as_positive(learning_rate, "learning_rate")
    where = place_of(model, device)

    with settled(seed, where, threads) as chance:
        net = chosen.build(model, classes).to(where)
        _check_logits(net, rows, classes, where)
        loop = Loop(
            net=net,
            paradigm=chosen,
            rows=rows,
            draw=as_draw(outliers) if chosen.needs_outliers else None,
            validation=held_out,
            epochs=as_count(epochs, "epochs"),
            batch_size=as_count(batch_size, "batch_size"),
            learning_rate=rate,
            optimiser=optimiser,
            momentum=momentum,
            weight_decay=weight_decay,
            schedule=as_schedule(schedule),
            clip=clip,
            early_stopping=rule,
            chance=chance,
            device=where,
            settings={},
            folder=None if checkpoint is None else Path(checkpoint),
            checkpoint_seconds=checkpoint_seconds,
        )
        if loop.folder is not None:
            loop.settings = {
                "paradigm": repr(chosen),
                "n_classes": classes,
                "epochs": epochs,
                "batch_size": batch_size,
                "learning_rate": rate,
                "optimiser": optimiser,
                "momentum": momentum,
                "weight_decay": weight_decay,
                "schedule": repr(schedule),
                "clip": clip,
                "early_stopping": repr(rule),
                "seed": seed,
                "network": _shapes(net),
                "data": rows.fingerprint(),
                "outliers": draw_fingerprint(outliers),
                "validation": None if held_out is None else held_out.fingerprint(),
            }
            loop.resume()
        if not loop.resumed:
            chosen.prepare(net, rows, loop.draw, chance.loss)
        with training_bar(loop.steps, progress) as tell:
            loop.run(tell)
        net.eval()
        looked_at = held_out or _some(rows)
        found = validate(net, chosen, looked_at, where)
    assert looked_at.labels is not None
    warn_of_collapse(found, looked_at.labels, "the training data" if held_out is None else "the validation set")
    return Trained(
        model=net,
        paradigm=chosen,
        n_classes=classes,
        history=tuple(Epoch(**line) for line in loop.at.history),
        seconds=loop.at.seconds,
        seed=seed,
        stopped_early=loop.at.stopped_early,
        resumed=loop.resumed,
    )


def _check_logits(net: nn.Module, rows: Rows, classes: int, device: torch.device) -> None:
    """One look at two rows, so that a model of the wrong shape is named before an epoch is spent on it."""
    inputs = rows.first(2).to(device)
    net.eval()
    try:
        with torch.no_grad():
            said = net(inputs)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the model cannot take inputs of shape {tuple(inputs.shape)}: {reason}.") from None
    if said.ndim != 2 or said.shape != (len(inputs), classes):
        raise InputError(f"the model must give one logit per class, shape ({len(inputs)}, {classes}), "
                         f"got {tuple(said.shape)}.")  # fmt: skip


def _some(rows: Rows) -> Rows:
    """At most a few thousand rows, evenly spread."""
    if rows.n <= _LOOK:
        return rows
    chosen = torch.linspace(0, rows.n - 1, _LOOK).long()
    assert rows.labels is not None
    return Rows(_LOOK, rows.labels[chosen], lambda some: rows.take(chosen[some]), rows.fingerprint)


def _shapes(net: nn.Module) -> str:
    listed = "; ".join(f"{name} {tuple(value.shape)}" for name, value in net.state_dict().items())
    return hashlib.sha256(listed.encode()).hexdigest()
