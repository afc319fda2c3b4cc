"""Whole recipes for certified training, by name: network, paradigm, outliers, schedule.

``tiny``, ``quick``, ``standard``, ``long`` and ``good`` are made for two CPU cores, ``paper`` is what Bitterwolf,
Meinke and Hein (NeurIPS 2020, appendix D) ran for MNIST on a GPU; ``published`` has their other schedules. All but
``paper`` learn from outliers that are made during training.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, final

import torch
from torch import Tensor, nn

from caveat._internal.checks import check_known
from caveat.errors import InputError
from caveat_lab.networks import architectures
from caveat_lab.networks.training.fit import fit_classifier
from caveat_lab.networks.training.good import GOOD
from caveat_lab.networks.training.joint import Joint
from caveat_lab.networks.training.model_folder import Trained, load_start
from caveat_lab.networks.training.outlier_mix import OutlierMix
from caveat_lab.networks.training.paradigm import Paradigm
from caveat_lab.networks.training.rows import as_inputs, scaled

__all__ = ["PRESETS", "Preset", "fit_preset"]

_STEPS_DOWN = {0.7: 0.2, 0.9: 0.04}
_OPTIONS = ("epochs", "batch_size", "learning_rate", "optimizer", "weight_decay", "schedule")  # of fit_classifier


@final
@dataclass(frozen=True)
class Preset:
    """One recipe.

    Parameters
    ----------
    what
        What it is for, what it costs and what to expect.
    architecture
        A name of ``networks.architectures``, or ``"mlp"`` for two hidden layers of 128 units.
    paradigm
        With its parameters.
    epochs, batch_size, learning_rate, optimizer, weight_decay, schedule
        As in ``fit_classifier``.
    rows
        Maximum number of training images, evenly spread over the data; None: all.
    outliers
        Kinds of the mix; empty: the caller passes outliers.
    start
        Method whose trained network the caller passes as ``start``; empty: a new network will do.

    Examples
    --------
    >>> PRESETS["tiny"].architecture, PRESETS["tiny"].paradigm.name
    ('mlp', 'good')
    """

    what: str
    architecture: str
    paradigm: Paradigm
    epochs: int
    batch_size: int = 128
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    weight_decay: float = 0.0
    schedule: Mapping[float, float] = field(default_factory=lambda: dict(_STEPS_DOWN))
    rows: int | None = None
    outliers: tuple[str, ...] = ("uniform", "smooth", "permuted", "blocks")
    start: str = ""


_PAPER_EPOCHS = 420
# The authors' code minimizes the sum of the loss over a batch of 128 samples, here it is the mean with a gradient 128
# times smaller: the published learning rate 0.005 / 128 is multiplied by 128, the weight decay 0.05 divided by it.
_PAPER_RATE, _PAPER_DECAY = 0.005, 0.05 / 128

PRESETS: Mapping[str, Preset] = {
    "tiny": Preset(
        what="GOOD on 8 x 8 digits in seconds, for demonstrations and tests.",
        architecture="mlp",
        paradigm=GOOD(kappa=0.3, kappa_ramp=(0.1, 0.4)),
        epochs=60,
        batch_size=130,
        learning_rate=2e-3,
        outliers=("uniform", "permuted"),
    ),
    "quick": Preset(
        what="GOOD in half a minute on two cores: accuracy 95 to 96 % on MNIST, noise certified at radius 0.3.",
        architecture="xs",
        paradigm=GOOD(kappa=1.0, interval_init=True),
        epochs=10,
        rows=12_000,
    ),
    "standard": Preset(
        what="A classifier with a certified detector in two minutes: accuracy 98.8 % and the strongest certificates.",
        architecture="xs",
        paradigm=Joint(),
        epochs=5,
    ),
    "long": Preset(
        what="The same with a stricter detector, then the classifier alone for as long: accuracy 99 %.",
        architecture="xs",
        paradigm=Joint(kappa=1.0, kappa_ramp=(0.0, 0.25), epsilon_ramp=(0.0, 0.25), classifier_share=0.5),
        epochs=10,
    ),
    "good": Preset(
        what="GOOD on all images in two minutes, for those who want a single network: accuracy 98 %.",
        architecture="xs",
        paradigm=GOOD(kappa=0.3, interval_init=True),
        epochs=8,
    ),
    "paper": Preset(
        what="The published network and schedule for MNIST; days on a CPU. Give it images of other things as outliers.",
        architecture="l",
        paradigm=GOOD(
            kappa=0.3,
            kappa_ramp=(2 / _PAPER_EPOCHS, 102 / _PAPER_EPOCHS),
            epsilon_ramp=(10 / _PAPER_EPOCHS, 130 / _PAPER_EPOCHS),
        ),
        epochs=_PAPER_EPOCHS,
        learning_rate=_PAPER_RATE,
        weight_decay=_PAPER_DECAY,
        optimizer="sgd",
        schedule={epoch / _PAPER_EPOCHS: 0.2 ** (i + 1) for i, epoch in enumerate((50, 100, 200, 300, 350))},
        outliers=(),
    ),
}


def fit_preset(
    preset: str | Preset,
    data: tuple[Any, Any],
    *,
    outliers: Any = None,
    start: nn.Module | str | os.PathLike[str] | None = None,
    seed: int = 0,
    **how: Any,
) -> Trained:
    """Train by a recipe.

    Parameters
    ----------
    preset
        A name of ``PRESETS``, or a recipe of your own (``dataclasses.replace`` changes one).
    data
        Images and labels, ``(x, y)``: bytes, or floats in [0, 1], as ``fit_classifier`` takes them.
    outliers
        In place of the recipe's own.
    start
        A network to train further, which is copied; or a folder that ``caveat train`` wrote or a ``.safetensors`` file,
        whose weights must fit the recipe's network. No weight is drawn anew then. None: a new network.
    seed
        Seed of the network's first weights and of training.
    **how
        Further arguments of ``fit_classifier``: ``validation``, ``checkpoint``, ``threads``, ``progress``.

    Returns
    -------
    Trained
        The trained network.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from caveat_lab import data
    >>> images = data.digits()
    >>> short = replace(PRESETS["tiny"], epochs=12)
    >>> trained = fit_preset(short, (images.inputs(), images.labels))
    >>> trained.paradigm.name, len(trained.history)
    ('good', 12)
    """
    recipe = PRESETS[check_known(preset, PRESETS, "preset")] if isinstance(preset, str) else preset
    inputs, labels = as_inputs(data[0], "data inputs"), torch.as_tensor(data[1])
    if inputs.ndim != 4:
        raise InputError(f"a preset trains on images (n, channels, height, width), got shape {tuple(inputs.shape)}.")
    if recipe.rows is not None and recipe.rows < len(inputs):
        some = torch.linspace(0, len(inputs) - 1, recipe.rows).round().long()
        inputs, labels = inputs[some], labels[some]
    if outliers is None and recipe.paradigm.needs_outliers:
        if not recipe.outliers:
            name = f"preset '{preset}'" if isinstance(preset, str) else "this preset"
            raise InputError(f"{name} makes no outliers of its own. Pass outliers=<images of other things>.")
        outliers = OutlierMix(scaled(inputs), recipe.outliers)
    if recipe.start and start is None:
        raise InputError(f"this preset trains a network further. Pass start=<a network trained by '{recipe.start}'>.")
    classes = int(labels.max()) + 1
    paradigm = recipe.paradigm
    if isinstance(start, nn.Module):
        model = copy.deepcopy(start)
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = _network(recipe.architecture, inputs, classes)
        if start is not None:
            load_start(model, start)
    if start is not None and isinstance(paradigm, GOOD):
        paradigm = replace(paradigm, interval_init=False)  # the weights of start are kept
    return fit_classifier(
        model,
        (inputs, labels),
        paradigm,
        outliers=outliers,
        n_classes=classes,
        seed=seed,
        **{name: getattr(recipe, name) for name in _OPTIONS},
        **how,
    )


def _network(name: str, inputs: Tensor, classes: int) -> nn.Module:
    shape = tuple(inputs.shape[1:])
    if name != "mlp":
        return architectures.make(name, in_shape=shape, classes=classes)
    hidden = (nn.Linear(prod(shape), 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(128, classes))
