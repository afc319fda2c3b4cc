"""The methods of the study: for each task one network, one training set, the same outliers; only the loss differs.

Every training writes checkpoints to a folder and resumes from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import strangers  # in this folder

from caveat_lab import data
from caveat_lab.data import Images
from caveat_lab.networks.training import (
    ACET,
    CCU,
    CEDA,
    GOOD,
    PRESETS,
    CrossEntropy,
    OutlierExposure,
    Paradigm,
    Preset,
    Trained,
    fit_preset,
)  # fmt: skip

SEED = 0
SEEDS = {("MNIST", "joint"): 1}  # of the tables, where it is not SEED: the first network that this preset has trained
QUANTILES = (20, 40, 60, 80, 90, 95)  # of the paper, between GOOD_0 and GOOD_100
MIXTURE_RATE = 0.2  # of trained mixtures, as a share of the network's; chosen by mixtures.py


def short_preset(paradigm: Paradigm, what: str, *, epochs: int = 3, rows: int | None = None, **more: Any) -> Preset:
    """Train the small network, for a few epochs."""
    return Preset(what=what, architecture="xs", paradigm=paradigm, epochs=epochs, rows=rows, **more)


METHODS: Mapping[str, Preset] = {
    "Plain": short_preset(CrossEntropy(), "cross-entropy"),
    "CEDA": short_preset(CEDA(kappa=1.0, ramp=(0.05, 0.3)), "low largest probability on outliers"),
    "OE": short_preset(OutlierExposure(kappa=0.3, ramp=(0.05, 0.3)), "uniform answers to outliers"),
    "ACET": short_preset(ACET(), "low confidence on attacked outliers", epochs=6, rows=10_000),
    "CCU": short_preset(CCU(components=60, rows=12_000), "gated by two mixtures of Gaussians"),
    "CCU, trained": short_preset(
        CCU(components=60, rows=12_000, trained=True, mixture_rate=MIXTURE_RATE), "the mixtures trained along"
    ),
    "GOOD_0": short_preset(GOOD(quantile=0.0, interval_init=True), "L_CUB at the outliers, no ball"),
    **{
        f"GOOD_{q}": short_preset(
            GOOD(quantile=q / 100, kappa=1.0, interval_init=True), f"the easier {q} % certified", epochs=10, rows=12_000
        )
        for q in QUANTILES
    },
    "GOOD_100": PRESETS["quick"],
    "joint": PRESETS["long"],
}

_ROWS = 20_000
_KAPPA = 0.3  # with 1, as published, a few epochs end at a mean confidence of 0.23 on training images
_RAMP = (0.05, 0.3)
# As published, in shares of 900 epochs: epsilon from epoch 4 to 204, kappa from a virtual epoch -2 to 298.
PUBLISHED_RAMPS: dict[str, Any] = {"kappa_ramp": (-2 / 900, 298 / 900), "epsilon_ramp": (4 / 900, 204 / 900)}


def _colour(paradigm: Paradigm, what: str, *, epochs: int = 4, rows: int | None = _ROWS) -> Preset:
    return short_preset(paradigm, what, epochs=epochs, rows=rows, outliers=())


def _good(q: int, **how: Any) -> GOOD:
    return GOOD(quantile=q / 100, epsilon=0.01, kappa=_KAPPA, **how)


COLOUR_QUANTILES = (0, *QUANTILES, 100)
COLOUR_METHODS: Mapping[str, Preset] = {
    "Plain": _colour(CrossEntropy(), "cross-entropy"),
    "CEDA": _colour(CEDA(kappa=_KAPPA, ramp=_RAMP), "low largest probability on outliers"),
    "OE": _colour(OutlierExposure(kappa=_KAPPA, ramp=_RAMP), "uniform answers to outliers"),
    "ACET": _colour(ACET(epsilon=0.01, kappa=_KAPPA, steps=10, start=0.0, attack_from=0.0),
                    "from OE, attacked outliers", epochs=1),
    "CCU": _colour(CCU(components=30, rows=8_000, epsilon=0.01, kappa=_KAPPA, ramp=_RAMP),
                   "gated by two mixtures of Gaussians"),
    **{
        f"GOOD_{q}": _colour(_good(q, **PUBLISHED_RAMPS), f"the easier {q} % certified, from CEDA", epochs=2)
        for q in COLOUR_QUANTILES
    },
}  # fmt: skip
# Six epochs of all images; GOOD as a new network whose first weights keep bounds small. Chosen by pilot.py.
LONGER_METHODS: Mapping[str, Preset] = {
    name: _colour(COLOUR_METHODS[name].paradigm, COLOUR_METHODS[name].what, epochs=6, rows=None)
    for name in ("Plain", "CEDA", "OE")
} | {"GOOD_80": _colour(_good(80, interval_init=True), "the easier 80 % certified", epochs=8)}


@final
@dataclass(frozen=True)
class Task:
    """What is classified, which outliers are shown, at which radii, by which methods."""

    data: str
    radius: float
    wider: float
    methods: Mapping[str, Preset]
    sets: Mapping[str, Callable[[], Images]]
    first: tuple[str, ...]
    further: tuple[str, ...]
    starts: Mapping[str, str]  # method -> the method whose network it trains further
    points: int  # of each set; the same ones for AUC, AAUC and GAUC. The paper has 1,000 for AAUC

    @property
    def colour(self) -> bool:
        return self.sets is strangers.COLOUR_SETS

    @property
    def cells(self) -> list[tuple[str, float]]:
        """Sets and radii."""
        return [(name, self.radius) for name in self.sets] + [(name, self.wider) for name in self.first]


_COLOUR = (strangers.COLOUR_SETS, strangers.COLOUR_FIRST, strangers.COLOUR_FURTHER)
TASKS: Mapping[str, Task] = {
    "MNIST": Task("mnist", 0.3, 0.4, METHODS, strangers.SETS, strangers.FIRST, strangers.FURTHER, {}, 1000),
    "CIFAR-10": Task(
        "cifar10", 0.01, 0.03, COLOUR_METHODS, *_COLOUR,
        {"ACET": "OE"} | dict.fromkeys((f"GOOD_{q}" for q in COLOUR_QUANTILES), "CEDA"), 200,
    ),
    "CIFAR-10 longer": Task("cifar10", 0.01, 0.03, LONGER_METHODS, *_COLOUR, {}, 200),
}  # fmt: skip


@cache
def images_of(task: str, split: str) -> Images:
    """Training or test images of a task."""
    return data.load(TASKS[task].data, split)


def trained(task: str, name: str, store: Path, *, seed: int | None = None) -> Trained:
    """Train a method, or go on, or read it back. The CPU seconds of a training that was not interrupted are kept."""
    seed = SEEDS.get((task, name), SEED) if seed is None else seed
    what, folder = TASKS[task], folder_of(task, name, store, seed)
    images, recipe = images_of(task, "train"), what.methods[name]
    more: dict[str, Any] = {}
    if what.colour and recipe.paradigm.needs_outliers:
        more["outliers"] = strangers.photographs(trained=True).inputs()
    if name in what.starts:
        more["start"] = trained(task, what.starts[name], store, seed=seed).model
    begin = time.process_time()
    result = fit_preset(
        recipe, (images.pixels, images.labels), seed=seed, threads=1, checkpoint=folder, progress=False, **more
    )
    if not result.resumed:
        spent = {"cpu": round(time.process_time() - begin, 1), "wall": round(result.seconds, 1)}
        (folder / "seconds.json").write_text(json.dumps(spent) + "\n", encoding="utf-8")
    return result


def folder_of(task: str, name: str, store: Path, seed: int = SEED) -> Path:
    """Where a trained network is kept."""
    return store / "models" / task / (name if seed == SEED else f"{name} seed {seed}")


def cpu_seconds(task: str, name: str, store: Path) -> float:
    """What the training took; NaN if it was interrupted."""
    path = folder_of(task, name, store, SEEDS.get((task, name), SEED)) / "seconds.json"
    return float(json.loads(path.read_text(encoding="utf-8"))["cpu"]) if path.exists() else float("nan")
