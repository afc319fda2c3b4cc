"""The densities of CCU on MNIST, bounded in three ways: ``bounds.csv``.

    CAVEAT_DATA=<folder> python studies/certified/bounds.py

The mixtures are fitted as CCU fits them (60 Gaussians each, a common variance, 12,000 digits and 12,000 training
outliers); no network is needed. ``ball`` is the published bound, over the ball around the box; ``box`` bounds the
distance to each center over the box; ``pairs`` bounds the ratio of each pair of Gaussians. The densities and the noise
are the same, so what differs is due to the bound alone.
"""

from __future__ import annotations

from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
import torch

from caveat import robust
from caveat.nn.training import OutlierMix
from caveat.robust.density_ratio import fit_density_ratio
from caveat.study.tables import write_csv

ROWS, COMPONENTS, POINTS = 12_000, 60, 200
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
    found = []
    for epsilon in RADII:
        row: dict[str, Any] = {"epsilon": epsilon, "n": POINTS}
        for bound in BOUNDS:
            upper = ratio.bounds(noise, epsilon, method=bound, side="upper").upper
            row[bound] = f"{100 * robust.guaranteed_auroc(inlier=inlier, outlier_upper=upper):.1f}"
        found.append(row)
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_csv(rows(), run.HERE / "bounds.csv")
