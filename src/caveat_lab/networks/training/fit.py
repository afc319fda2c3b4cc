"""Train a classifier: one call, any paradigm, a run that can be killed and resumed."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from caveat._internal.checks import as_count, as_kind, as_number, as_positive, check_known
from caveat.errors import CaveatWarning, InputError
from caveat.nn._progress import training_bar
from caveat.nn._walk import place_of
from caveat_lab.networks.training.augmentation import Augmentation
from caveat_lab.networks.training.catalogue import make_paradigm
from caveat_lab.networks.training.checkpoint import settled
from caveat_lab.networks.training.loop import OPTIMIZERS, Loop, validate
from caveat_lab.networks.training.model_folder import Epoch, Trained
from caveat_lab.networks.training.paradigm import Paradigm
from caveat_lab.networks.training.rows import Rows, as_draw, draw_fingerprint
from caveat_lab.networks.training.schedule import EarlyStopping, as_schedule

__all__ = ["fit_classifier"]

_LOOK = 1000  # training rows that are measured for a collapse where there is no validation set


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
    optimizer: str = "adam",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    schedule: str | Mapping[float, float] = "constant",
    clip: float | None = None,
    augment: Augmentation | None = None,
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
        Gives class logits (n, K). Paradigms with another branch wrap it; ``Trained.model`` is then the whole network.
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
        ``(x, y)``: measured after every epoch. Needed for early stopping.
    n_classes
        K; default: the largest label plus one.
    epochs, batch_size, learning_rate
        Passes over the data, rows of a step and step size. Losses are means over the batch.
    optimizer
        ``"adam"``, or ``"sgd"`` with Nesterov momentum.
    momentum, weight_decay
        Of the optimizer; ``"adam"`` has no momentum.
    schedule
        ``"constant"``, ``"cosine"``, or milestones {share of the steps: factor from there on}.
    clip
        Bound of the norm of the gradient; None: no bound.
    augment
        Random changes of the training images, such as ``Augmentation(flip=True, crop=4)``; None: none.
    early_stopping
        A rule, or a patience in epochs for the validation loss.
    checkpoint
        Folder for the state of the run. A run that finds one resumes from there; the state of another run is an error.
    checkpoint_seconds
        At least this long between two writes; 0 writes after every step.
    seed
        Seed of the order, outliers, hints, dropout and new weights. The model's own first weights are the caller's.
    threads, device
        Default: as torch has them; where the model is.
    progress
        Show a progress bar on standard error; default: if that is a terminal.

    Returns
    -------
    Trained
        ``model`` in eval mode, ``history`` of the epochs; ``outputs(data)`` gives what the scores read.

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
    for name, part in (("data", rows), ("validation", held_out)):
        if part is not None and part.labels is None:
            raise InputError(f"{name} must be (inputs, labels), got inputs alone.")
    assert rows.labels is not None
    seen = max(2, int(rows.labels.max()) + 1)
    classes = as_count(int(rows.labels.max()) + 1 if n_classes is None else n_classes, "n_classes", least=seen)
    if chosen.needs_outliers and outliers is None:
        raise InputError(f"paradigm '{chosen.name}' learns from outliers. Pass outliers=<array or draw(n, generator)>.")
    if not chosen.needs_outliers and outliers is not None:
        raise InputError(f"paradigm '{chosen.name}' uses no outliers. Leave them out, or choose 'oe'.")
    options: dict[str, Any] = {
        "epochs": epochs, "batch_size": batch_size, "learning_rate": learning_rate, "optimizer": optimizer,
        "momentum": momentum, "weight_decay": weight_decay, "clip": clip,
    }  # fmt: skip
    check_options({**options, "schedule": schedule})
    rule = EarlyStopping(patience=early_stopping) if isinstance(early_stopping, int) else early_stopping
    if rule is not None and held_out is None:
        raise InputError("early_stopping looks at the validation set. Pass validation=(x, y).")
    if augment is not None:
        as_kind(augment, Augmentation, "augment")
    where = place_of(model, device)
    with settled(seed, where, threads) as chance:
        net = chosen.build(model, classes).to(where)
        _check_logits(net, rows, classes, where)
        settings = {} if checkpoint is None else options | {
            "paradigm": repr(chosen), "n_classes": classes, "schedule": repr(schedule), "early_stopping": repr(rule),
            "seed": seed, "network": _shapes(net), "data": rows.fingerprint(), "outliers": draw_fingerprint(outliers),
            "validation": None if held_out is None else held_out.fingerprint(),
        } | ({} if augment is None else {"augment": repr(augment)})  # fmt: skip
        loop = Loop(
            net=net, paradigm=chosen, rows=rows, draw=as_draw(outliers) if chosen.needs_outliers else None,
            validation=held_out, schedule=as_schedule(schedule), early_stopping=rule, augment=augment, chance=chance,
            device=where, settings=settings, folder=None if checkpoint is None else Path(checkpoint),
            checkpoint_seconds=checkpoint_seconds, **options,
        )  # fmt: skip
        loop.resume()
        if not loop.resumed:
            chosen.prepare(net, rows, loop.draw, chance.loss)
        with training_bar(loop.steps, progress) as tell:
            loop.run(tell)
        net.eval()
        measured_rows = held_out or _some(rows)
        measured = validate(net, chosen, measured_rows, where)
    assert measured_rows.labels is not None
    source = "the training data" if held_out is None else "the validation set"
    _warn_of_collapse(measured, measured_rows.labels, source, uniform=1 / classes, outliers=chosen.needs_outliers)
    return Trained(
        model=net, paradigm=chosen, n_classes=classes, history=tuple(Epoch(**line) for line in loop.at.history),
        seconds=loop.at.seconds, seed=seed, stopped_early=loop.at.stopped_early, resumed=loop.resumed,
    )  # fmt: skip


def check_options(options: Mapping[str, Any]) -> None:
    """Raise InputError where an option of the training has a value that it cannot have."""
    checks: dict[str, Callable[[Any], Any]] = {
        "epochs": lambda x: as_count(x, "epochs"),
        "batch_size": lambda x: as_count(x, "batch_size"),
        "learning_rate": lambda x: as_positive(x, "learning_rate"),
        "optimizer": lambda x: check_known(x, OPTIMIZERS, "optimizer"),
        "momentum": lambda x: as_number(x, "momentum", least=0),
        "weight_decay": lambda x: as_number(x, "weight_decay", least=0),
        "clip": lambda x: None if x is None else as_positive(x, "clip"),
        "schedule": as_schedule,
    }
    for name, check in checks.items():
        if name in options:
            check(options[name])


def _check_logits(net: nn.Module, rows: Rows, classes: int, device: torch.device) -> None:
    """Run two rows, so that a model of the wrong shape is an error before an epoch is spent on it."""
    inputs = rows.take(torch.arange(min(2, rows.n)))[0].to(device)
    net.eval()
    try:
        with torch.no_grad():
            logits = net(inputs)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"the model cannot take inputs of shape {tuple(inputs.shape)}: {reason}.") from None
    if logits.shape != (len(inputs), classes):
        raise InputError(f"the model must give one logit per class, shape ({len(inputs)}, {classes}), "
                         f"got {tuple(logits.shape)}.")  # fmt: skip


def _some(rows: Rows) -> Rows:
    """At most a thousand rows, evenly spread."""
    if rows.n <= _LOOK:
        return rows
    chosen = torch.linspace(0, rows.n - 1, _LOOK).long()
    assert rows.labels is not None
    return Rows(_LOOK, rows.labels[chosen], lambda some: rows.take(chosen[some]), rows.fingerprint)


def _shapes(net: nn.Module) -> str:
    shapes = "; ".join(f"{name} {tuple(value.shape)}" for name, value in net.state_dict().items())
    return hashlib.sha256(shapes.encode()).hexdigest()


def _warn_of_collapse(
    measured: dict[str, float], labels: torch.Tensor, where: str, *, uniform: float, outliers: bool
) -> None:
    """Warn when the network learned nothing, or is far less confident than accurate."""
    n, accuracy, confidence = len(labels), measured["accuracy"], measured["confidence"]
    chance = float(torch.bincount(labels).max()) / n
    margin = 2 * (chance * (1 - chance) / n) ** 0.5
    if accuracy <= min(chance + margin, 1 - 1e-9):  # one class, always right, is not a collapse
        measurement = f"accuracy {accuracy:.3f} on {where} is not better than always predicting the most frequent class"
        reason, remedy = f": {measurement} ({chance:.3f})", "Lower learning_rate"
    elif confidence - uniform < (accuracy - uniform) / 20:  # after few steps on two classes it is a tenth
        measurement = f"mean confidence {confidence:.3f} on {where} is close to uniform ({uniform:.3f})"
        reason, remedy = f" towards uniform answers: {measurement}, accuracy is {accuracy:.3f}", "Train longer"
    else:
        return
    other = "lower the weight of the outliers' loss" if outliers else "check data and labels"
    warnings.warn(f"training collapsed{reason}. {remedy}, or {other}.", CaveatWarning, stacklevel=4)
