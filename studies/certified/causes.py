"""Two causes of differences from the paper on MNIST, tested: ``causes.csv``.

    CAVEAT_DATA=<folder> python studies/certified/causes.py

``GOOD_100, photographs`` is GOOD_100 with 8,000 TinyImageNet images in grey as training outliers, like the photographs
of the paper, in place of noise and rearranged digits. ``OE, longer`` is OE with 20 epochs in place of 3. Everything
else is as in the tables: the same samples, the same attack. ``o`` is the mean confidence on that letter, ``o place``
its place among 26, 1 for the most confident. Trains what is not in the cache folder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
import torch

from caveat._internal.result_tables import write_csv
from caveat_lab.experiments.certification import Certification, certify
from caveat_lab.networks.training import Preset, fit_preset

LETTERS = "EMNIST letters"
TASK = networks.TASKS["MNIST"]


def recipes() -> dict[str, tuple[Preset, Any]]:
    """Name -> the recipe, and its training outliers; None: those of the tables."""
    photographs = strangers.in_grey(strangers.photographs(trained=True)).inputs()
    return {
        "GOOD_100, photographs": (replace(networks.METHODS["GOOD_100"], outliers=()), photographs),
        "OE, longer": (replace(networks.METHODS["OE"], epochs=20), None),
    }


def rows() -> list[dict[str, Any]]:
    """One for each network and set: those of the tables, then the two others."""
    digits, found = networks.images_of("MNIST", "train"), []
    for method in ("GOOD_100", "OE"):
        measured = [run.read_cell("MNIST", method, name, TASK.radius)[0] for name in TASK.first]
        found += [_row(method, one) for one in measured]
    for method, (recipe, outliers) in recipes().items():
        model = fit_preset(
            recipe, (digits.pixels, digits.labels), outliers=outliers, seed=networks.SEED, threads=1, progress=False,
            checkpoint=run.store() / "causes" / method,
        ).model  # fmt: skip
        measured = certify(
            model, inlier=networks.images_of("MNIST", "test"), epsilon=TASK.radius, points=TASK.points,
            candidates=run.towards("MNIST"), source=method, seed=networks.SEED, arithmetic="real",
            outliers={name: strangers.images_of(name, colour=False) for name in TASK.first}, **run.ATTACK,
        )  # fmt: skip
        found += [_row(method, replace(measured, sets=(one,))) for one in measured.sets]
    return found


def _row(method: str, measured: Certification) -> dict[str, Any]:
    """Shares in percent."""
    (one,) = measured.sets
    areas, interval = measured.sandwich(one), measured.aauc_interval(one)
    shares = {
        "accuracy": measured.accuracy, "auc": areas.clean, "aauc": areas.adversarial, "aauc_lower": interval.lower,
        "aauc_upper": interval.upper, "gauc": areas.guaranteed, "mean upper bound": np.exp(one.upper).mean(),
    }  # fmt: skip
    row = {"method": method, "set": one.name, "n": one.n} | {k: f"{100 * v:.1f}" for k, v in shares.items()}
    if one.name != LETTERS:
        return row | {"o": "", "o place": ""}
    by_letter = {name: mean for name, (mean, _) in one.by_class().items()}
    order = sorted(by_letter, key=by_letter.__getitem__, reverse=True)
    return row | {"o": f"{100 * by_letter['o']:.1f}", "o place": order.index("o") + 1}


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_csv(rows(), run.HERE / "causes.csv")
