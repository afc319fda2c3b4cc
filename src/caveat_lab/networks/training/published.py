"""The schedules of Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix D: seven methods on MNIST, SVHN and CIFAR-10.

They are made for a GPU and for 80 Million Tiny Images as outliers, which the caller passes. Three things are not in the
appendix: how training images are augmented (they are not, here); the schedule of CEDA on SVHN and CIFAR-10 (here that
of OE); the weight of the outliers of CCU on MNIST (here that of OE, whose schedule it shares).

The authors minimize the sum of the loss over a batch of 128, here it is the mean, with a gradient 128 times smaller.
For SGD a rate r and a decay d of the sum are the rate 128 r and the decay d / 128 of the mean. Adam divides the
gradient by its size: the rate stays, and the decay is divided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from caveat._internal.checks import as_number, check_known
from caveat_lab.networks.training.ccu import CCU
from caveat_lab.networks.training.exposure import ACET, CEDA, OutlierExposure
from caveat_lab.networks.training.good import GOOD
from caveat_lab.networks.training.paradigm import CrossEntropy, Paradigm
from caveat_lab.networks.training.presets import Preset
from caveat_lab.networks.training.schedule import Share

__all__ = ["PUBLISHED_DATA", "PUBLISHED_METHODS", "published_preset"]

_BATCH = 128
PUBLISHED_METHODS = ("plain", "oe", "ceda", "acet", "ccu", "good")


@final
@dataclass(frozen=True)
class _Recipe:
    """What the methods of one data set share; epochs as the appendix counts them."""

    architecture: str
    optimizer: str
    learning_rate: float
    weight_decay: float
    epsilon: float
    kappa: float  # of OE, CCU and GOOD
    drops: tuple[int, ...]  # epochs after which the rate is divided by five
    ramp: tuple[int, int]  # of kappa, for OE, CEDA and CCU
    mixture_rate: float  # of the mixtures of CCU, as a share of the rate of the network
    acet_epochs: int
    good: Mapping[str, tuple[int, ...]]  # of GOOD: total, drops, ramps of kappa and epsilon
    epochs: int = 420


def _colour(learning_rate: float, epsilon: float) -> _Recipe:
    return _Recipe(
        "xl", "adam", learning_rate, 0.005 / _BATCH, epsilon, 1.0, (30, 100), (60, 360), 1e-5 / _BATCH / learning_rate,
        100, {"epochs": (900,), "drops": (450, 750, 850), "kappa": (-2, 298), "epsilon": (4, 204)},
    )  # fmt: skip


_RECIPES: Mapping[str, _Recipe] = {
    "mnist": _Recipe(
        "l", "sgd", 0.005, 0.05 / _BATCH, 0.3, 0.3, (50, 100, 200, 300, 350), (2, 102), 1e-5 / 0.005, 420,
        {"epochs": (420,), "drops": (50, 100, 200, 300, 350), "kappa": (2, 102), "epsilon": (10, 130)},
    ),
    "svhn": _colour(0.01 / _BATCH, 0.03),
    "cifar10": _colour(0.1 / _BATCH, 0.01),
}  # fmt: skip
PUBLISHED_DATA = tuple(_RECIPES)


def published_preset(method: str, data: str, *, quantile: float = 1.0) -> Preset:
    """The published network and schedule of a method; days on a CPU.

    GOOD on SVHN and CIFAR-10 starts from a network trained by CEDA: pass it to ``fit_preset`` as ``start``.

    Parameters
    ----------
    method
        ``"plain"``, ``"oe"``, ``"ceda"``, ``"acet"``, ``"ccu"`` (with trained mixtures) or ``"good"``.
    data
        ``"mnist"``, ``"svhn"`` or ``"cifar10"``.
    quantile
        Of GOOD: 0.8 is GOOD_80.

    Returns
    -------
    Preset
        For ``fit_preset``, with ``outliers=`` images of other things.

    Examples
    --------
    >>> preset = published_preset("good", "cifar10", quantile=0.8)
    >>> preset.architecture, preset.epochs, preset.learning_rate, preset.start
    ('xl', 900, 0.0001, 'ceda')
    >>> [round(value, 3) for value in preset.paradigm.ramped(104 / 900)]  # kappa and epsilon after epoch 104
    [0.353, 0.005]
    """
    check_known(method, PUBLISHED_METHODS, "method")
    recipe = _RECIPES[check_known(data, _RECIPES, "data")]
    as_number(quantile, "quantile", least=0, most=1)
    epochs, drops, rate, start = recipe.epochs, recipe.drops, recipe.learning_rate, ""
    name = {"plain": "Plain", "good": f"GOOD_{100 * quantile:g}"}.get(method, method.upper())
    if method == "acet":
        epochs = recipe.acet_epochs
    if method == "good":
        (epochs,), drops = recipe.good["epochs"], recipe.good["drops"]
        if recipe.optimizer == "adam":
            rate, start = 1e-4, "ceda"
    return Preset(
        what=f"{name} for {data} as published; needs outlier images and a GPU.",
        architecture=recipe.architecture,
        paradigm=_paradigm(method, recipe, epochs, quantile),
        epochs=epochs,
        batch_size=_BATCH,
        learning_rate=rate,
        optimizer=recipe.optimizer,
        weight_decay=recipe.weight_decay,
        schedule={epoch / epochs: 0.2 ** (i + 1) for i, epoch in enumerate(drops) if epoch < epochs},
        outliers=(),
        start=start,
    )


def _paradigm(method: str, recipe: _Recipe, epochs: int, quantile: float) -> Paradigm:
    def share(ends: tuple[int, ...]) -> Share:
        return ends[0] / epochs, ends[1] / epochs

    if method == "plain":
        return CrossEntropy()
    if method == "oe":
        return OutlierExposure(kappa=recipe.kappa, ramp=share(recipe.ramp))
    if method == "ceda":
        return CEDA(kappa=1.0, ramp=share(recipe.ramp))
    if method == "acet":  # two epochs without outliers, four without an attack
        return ACET(epsilon=recipe.epsilon, kappa=1.0, start=2 / epochs, attack_from=6 / epochs)
    if method == "ccu":
        return CCU(kappa=recipe.kappa, ramp=share(recipe.ramp), epsilon=recipe.epsilon, trained=True,
                   mixture_rate=recipe.mixture_rate)  # fmt: skip
    return GOOD(quantile=quantile, epsilon=recipe.epsilon, kappa=recipe.kappa, kappa_ramp=share(recipe.good["kappa"]),
                epsilon_ramp=share(recipe.good["epsilon"]))  # fmt: skip
