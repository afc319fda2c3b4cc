"""How long to train on CIFAR-10, and from which start, on training data only: ``pilot.csv``.

    CAVEAT_DATA=<folder> python studies/certified/pilot.py

2,000 of the 50,000 training images and 1,000 of the 8,000 photographs shown in training are held out; the test sets
are not read. AAUC is that of a short attack on 100 photographs: 30 steps of APGD from the point and from higher
contrast.
"""

from __future__ import annotations

import time
from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
import torch

from caveat._internal.result_tables import write_csv
from caveat_lab.experiments.certification import certify
from caveat_lab.networks.training import CEDA, GOOD, OutlierExposure, Preset, fit_preset

HELD_OUT, PHOTOGRAPHS, KAPPA, RAMP = 2000, 7000, 0.3, (0.05, 0.3)


def recipes() -> dict[str, tuple[Preset, str]]:
    """Name -> the recipe, and the network that it trains further."""

    def good(epochs: int, rows: int, **how: Any) -> Preset:
        paradigm = GOOD(quantile=0.8, epsilon=0.01, kappa=KAPPA, **how)
        return networks.short_preset(paradigm, "", epochs=epochs, rows=rows, outliers=())

    def other(paradigm: Any) -> Preset:
        return networks.short_preset(paradigm, "", epochs=6, rows=48_000, outliers=())

    return {
        "CEDA, 6 epochs": (other(CEDA(kappa=KAPPA, ramp=RAMP)), ""),
        "OE, 6 epochs": (other(OutlierExposure(kappa=KAPPA, ramp=RAMP)), ""),
        "GOOD_80 from CEDA, 20,000 x 4": (good(4, 20_000, **networks.PUBLISHED_RAMPS), "CEDA, 6 epochs"),
        "GOOD_80 anew, 20,000 x 8": (good(8, 20_000, interval_init=True), ""),
        "GOOD_80 anew, 40,000 x 4": (good(4, 40_000, interval_init=True), ""),
    }


def rows() -> list[dict[str, Any]]:
    """One for each recipe."""
    train, shown = networks.images_of("CIFAR-10", "train"), strangers.photographs(trained=True)
    out = np.zeros(len(train), dtype=bool)
    out[np.linspace(0, len(train) - 1, HELD_OUT).round().astype(int)] = True
    held_out, models, measured = train[np.flatnonzero(out)], dict[str, Any](), []
    for name, (recipe, start) in recipes().items():
        begin = time.process_time()
        models[name] = fit_preset(
            recipe, (train.pixels[~out], train.labels[~out]), outliers=shown[:PHOTOGRAPHS].inputs(), threads=1, seed=0,
            progress=False, start=models.get(start), checkpoint=run.store() / "pilot" / name,
        ).model  # fmt: skip
        spent = time.process_time() - begin
        result = certify(
            models[name], inlier=held_out, outliers={"photographs": shown[PHOTOGRAPHS:]}, epsilon=0.01, points=100,
            attack=("apgd",), starts=("point", "contrast"), steps=30, source=name, arithmetic="real",
        )  # fmt: skip
        (one,) = result.sets
        areas = result.sandwich(one)
        shares = {
            "accuracy": result.accuracy, "confidence": np.exp(result.inlier).mean(), "auc": areas.clean,
            "aauc": areas.adversarial, "gauc": areas.guaranteed,
        }  # fmt: skip
        measured.append(
            {"recipe": name} | {k: f"{value:.3f}" for k, value in shares.items()} | {"cpu seconds": f"{spent:.0f}"}
        )
    return measured


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_csv(rows(), run.HERE / "pilot.csv")
