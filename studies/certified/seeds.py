"""The joint model from three seeds, certified on all 10,000 images of clothes: ``seeds.csv``.

    CAVEAT_DATA=<folder> python studies/certified/seeds.py [seeds]

Trains what is not in the cache folder, about five minutes of CPU time for each seed.
"""

from __future__ import annotations

import sys
from typing import Any

import networks  # in this folder
import run  # in this folder
import strangers  # in this folder

from caveat._internal.result_tables import write_csv
from caveat_lab.experiments.certification import certify

SEEDS = (0, 1, 2)
SETS = ("Fashion-MNIST",)


def one_seed(seed: int) -> dict[str, Any]:
    """Accuracy, and for each set AUC, GAUC and the lower end of its band; shares."""
    task = networks.TASKS["MNIST"]
    found = certify(
        networks.trained("MNIST", "joint", run.store(), seed=seed).model, inlier=networks.images_of("MNIST", "test"),
        outliers={name: strangers.images_of(name, colour=False) for name in SETS}, epsilon=task.radius, points=None,
        attack=(), source="joint", arithmetic="real",
    )  # fmt: skip
    numbers: dict[str, Any] = {"seed": seed, "accuracy": f"{found.accuracy:.4f}"}
    for one in found.sets:
        for name, value in {"auc": found.auc(one), "gauc": found.gauc(one), "band": found.band(one).lower}.items():
            numbers[f"{one.name} {name}"] = f"{value:.5f}"
    return numbers


if __name__ == "__main__":
    seeds = [int(text) for text in sys.argv[1:]] or SEEDS
    write_csv([one_seed(seed) for seed in seeds], run.HERE / "seeds.csv")
