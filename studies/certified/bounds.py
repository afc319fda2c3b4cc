"""The densities of CCU, bounded in three ways and in two metrics: ``bounds.csv`` (MNIST), ``bounds_cifar10.csv``.

    CAVEAT_DATA=<folder> python studies/certified/bounds.py [MNIST or CIFAR-10]

The mixtures are fitted as CCU fits them (60 Gaussians each, a common variance, 12,000 digits and 12,000 training
outliers); no network is needed. ``ball`` is the published bound, over the ball around the box; ``box`` bounds the
distance to each center over the box; ``pairs`` bounds the ratio of each pair of Gaussians. The densities and the noise
are the same, so what differs is due to the bound alone. For CIFAR-10 the densities are those of the row CCU of the
tables, read from the cache folder, and the noise is that of the tables.

``mahalanobis`` is the published bound in the published metric ||C^(-1/2) (x - y)||: densities fitted to the same data
in the coordinates C^(-1/2) x, bounded over the smallest ball that holds the box. C is the covariance of the inliers;
the paper regularizes it and does not say how. Here no eigenvalue is below a share of the largest, given in the name.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
import torch
from numpy.typing import NDArray

from caveat._internal.result_tables import write_csv
from caveat_lab import robust
from caveat_lab.networks.training import CCU, OutlierMix
from caveat_lab.networks.training.ccu import CCUModel
from caveat_lab.robust.density_ratio import DensityRatio, fit_density_ratio

ROWS, COMPONENTS, POINTS = 12_000, 60, 200
Vector = NDArray[np.float64]
RADII, BOUNDS = (0.0, 0.1, 0.2, 0.3), ("ball", "box", "pairs")
FLOORS = (1e-6, 1e-4, 1e-2)  # least eigenvalue of C as a share of the largest


def rows() -> list[dict[str, Any]]:
    """GAUC of log b on uniform noise, in percent, for each radius and bound."""
    digits = networks.images_of("MNIST", "train").inputs()[:: 60_000 // ROWS]
    outliers = OutlierMix(digits)(ROWS, torch.Generator().manual_seed(0)).flatten(1).numpy()
    digits = digits.reshape(len(digits), -1)
    how = {"components": COMPONENTS, "iterations": 10}
    test = networks.images_of("MNIST", "test").inputs()
    noise = strangers.images_of("Uniform noise", colour=False).inputs()[:POINTS].reshape(POINTS, -1)
    ratio = fitted(digits, outliers, **how)
    return areas(ratio, in_metrics(digits, outliers, **how), test.reshape(len(test), -1), noise, RADII)


def colour_rows() -> list[dict[str, Any]]:
    """The same for CIFAR-10."""
    task, model = networks.TASKS["CIFAR-10"], networks.trained("CIFAR-10", "CCU", run.store()).model
    assert isinstance(model, CCUModel)
    ratio, test = model.ratio(), networks.images_of("CIFAR-10", "test").inputs()
    noise = strangers.images_of("Uniform noise", colour=True).inputs()
    noise = noise[np.linspace(0, len(noise) - 1, task.points).round().astype(int)].reshape(task.points, -1)
    recipe = networks.COLOUR_METHODS["CCU"].paradigm
    assert isinstance(recipe, CCU)
    images, photographs = networks.images_of("CIFAR-10", "train").inputs(), strangers.photographs(trained=True).inputs()
    metrics = in_metrics(
        images[:: len(images) // recipe.rows][: recipe.rows].reshape(recipe.rows, -1),
        photographs.reshape(len(photographs), -1), components=recipe.components, iterations=recipe.iterations,
    )  # fmt: skip
    return areas(ratio, metrics, test.reshape(len(test), -1), noise, (0.0, task.radius, task.wider))


def fitted(inlier: Vector, outlier: Vector, **how: Any) -> DensityRatio:
    return fit_density_ratio(inlier=inlier, outlier=outlier, rng=np.random.default_rng(0), covariance="common", **how)


def in_metrics(inlier: Vector, outlier: Vector, **how: Any) -> dict[str, DensityRatio]:
    """The densities in Mahalanobis metrics of the inliers, by the least eigenvalue."""
    values, vectors = np.linalg.eigh(np.cov(inlier.T, dtype=np.float64))
    found = {}
    for floor in FLOORS:
        root = vectors / np.sqrt(np.maximum(values, floor * values[-1])) @ vectors.T
        ratio = fitted(inlier @ root, outlier @ root, **how)
        found[f"mahalanobis {floor:g}"] = DensityRatio(ratio.inside, ratio.outside, transform=root)
    return found


def areas(
    ratio: DensityRatio, metrics: Mapping[str, DensityRatio], test: Vector, noise: Vector, radii: Sequence[float]
) -> list[dict[str, Any]]:
    """One row for each radius."""
    ways = [(bound, bound, ratio) for bound in BOUNDS] + [(name, "ball", metrics[name]) for name in metrics]
    inlier = {name: one.log_ratio(test) for name, _, one in ways}
    found = []
    for epsilon in radii:
        row: dict[str, Any] = {"epsilon": epsilon, "n": len(noise)}
        for name, bound, one in ways:
            upper = one.bounds(noise, epsilon, method=bound, side="upper").upper
            row[name] = f"{100 * robust.guaranteed_auroc(inlier=inlier[name], outlier_upper=upper):.1f}"
        found.append(row)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    if "CIFAR-10" in sys.argv:
        write_csv(colour_rows(), run.HERE / "bounds_cifar10.csv")
    else:
        write_csv(rows(), run.HERE / "bounds.csv")
