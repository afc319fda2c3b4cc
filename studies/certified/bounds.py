"""The densities of CCU, bounded in three ways: ``bounds.csv`` (MNIST), ``bounds_cifar10.csv``.

    CAVEAT_DATA=<folder> python studies/certified/bounds.py [MNIST or CIFAR-10]

The mixtures are fitted as CCU fits them (60 Gaussians each, a common variance, 12,000 digits and 12,000 training
outliers); no network is needed. ``ball`` is the published bound, over the ball around the box; ``box`` bounds the
distance to each center over the box; ``pairs`` bounds the ratio of each pair of Gaussians. The densities and the noise
are the same, so what differs is due to the bound alone. For CIFAR-10 the densities are those of the row CCU of the
tables, read from the cache folder, and the noise is that of the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
import torch
from numpy.typing import NDArray

from caveat import robust
from caveat.nn.training import OutlierMix
from caveat.nn.training.ccu import CCUModel
from caveat.robust.density_ratio import DensityRatio, fit_density_ratio
from caveat.study.tables import write_csv

ROWS, COMPONENTS, POINTS = 12_000, 60, 200
Vector = NDArray[np.float64]
RADII, BOUNDS = (0.0, 0.1, 0.2, 0.3), ("ball", "box", "pairs")


def rows() -> list[dict[str, Any]]:
    """GAUC of log b on uniform noise, in percent, for each radius and bound."""
    digits = networks.images_of("MNIST", "train").inputs()[:: 60_000 // ROWS]
    outliers = OutlierMix(digits)(ROWS, torch.Generator().manual_seed(0)).flatten(1).numpy()
    ratio = fit_density_ratio(
        inlier=digits.reshape(len(digits), -1), outlier=outliers, rng=np.random.default_rng(0), components=COMPONENTS,
        covariance="common", iterations=10,
    )  # fmt: skip
    test = networks.images_of("MNIST", "test").inputs()
    inlier = ratio.log_ratio(test.reshape(len(test), -1))
    noise = strangers.images_of("Uniform noise", colour=False).inputs()[:POINTS].reshape(POINTS, -1)
    return areas(ratio, inlier, noise, RADII)


def colour_rows() -> list[dict[str, Any]]:
    """The same for CIFAR-10."""
    task, model = networks.TASKS["CIFAR-10"], networks.trained("CIFAR-10", "CCU", run.store()).model
    assert isinstance(model, CCUModel)
    ratio, test = model.ratio(), networks.images_of("CIFAR-10", "test").inputs()
    noise = strangers.images_of("Uniform noise", colour=True).inputs()
    noise = noise[np.linspace(0, len(noise) - 1, task.points).round().astype(int)].reshape(task.points, -1)
    return areas(ratio, ratio.log_ratio(test.reshape(len(test), -1)), noise, (0.0, task.radius, task.wider))


def areas(ratio: DensityRatio, inlier: Vector, noise: Vector, radii: Sequence[float]) -> list[dict[str, Any]]:
    """One row for each radius."""
    found = []
    for epsilon in radii:
        row: dict[str, Any] = {"epsilon": epsilon, "n": len(noise)}
        for bound in BOUNDS:
            upper = ratio.bounds(noise, epsilon, method=bound, side="upper").upper
            row[bound] = f"{100 * robust.guaranteed_auroc(inlier=inlier, outlier_upper=upper):.1f}"
        found.append(row)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "CIFAR-10" in sys.argv:
        write_csv(colour_rows(), run.HERE / "bounds_cifar10.csv")
    else:
        write_csv(rows(), run.HERE / "bounds.csv")
