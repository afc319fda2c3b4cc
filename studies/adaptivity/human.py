"""How uncertain people are about each CIFAR-10 test image, and how well set sizes follow it.

CIFAR-10H: about 50 people labeled each image (Peterson, Battleday, Griffiths and Russakovsky, "Human uncertainty makes
classification more robust", ICCV 2019). The entropy of their answers does not depend on any network, so it judges
difficulty independently of the noise by which O-LAC and O-SAPS are tuned and binned.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from methods import ranks_of  # in this folder
from numpy.typing import NDArray
from scipy.special import entr

Floats = NDArray[np.float64]


def entropy(folder: str | os.PathLike[str]) -> Floats:
    """Entropy of the labels that people gave, in nats, shape (10000,), in the order of the test set."""
    with np.load(Path(folder) / "cifar10h.npz", allow_pickle=False) as file:
        counts = file["counts"].astype(np.float64)
    return np.asarray(entr(counts / counts.sum(axis=1, keepdims=True)).sum(axis=1))


def mean_correlations(
    sizes: Mapping[str, Floats], hard: Floats, *, rng: np.random.Generator, repeats: int = 1000, share: float = 0.025
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """Spearman's correlation with ``hard``, averaged over networks, with a bootstrap interval over images.

    All networks see the same images, so images are resampled and networks are not: the interval is for these networks.
    Ranks are taken once; a resampled image keeps its rank.

    Parameters
    ----------
    sizes
        Method -> set sizes, shape (networks, images).
    hard
        Difficulty of each image, shape (images,).
    rng, repeats
        Resampling.
    share
        Left out at each end.

    Returns
    -------
    dict
        "value" -> method -> (correlation, lower, upper); "difference" -> "A - B" -> the same for two methods.
    """
    n = hard.size
    target = ranks_of(hard)
    columns = {name: np.stack([ranks_of(row) for row in rows], axis=1) for name, rows in sizes.items()}
    values = {name: [_mean_weighted(np.full((1, n), 1 / n), ranks, target)] for name, ranks in columns.items()}
    for start in range(0, repeats, 100):
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(100, repeats - start)) / n
        for name, ranks in columns.items():
            values[name].append(_mean_weighted(weights, ranks, target))
    drawn = {name: np.concatenate(parts) for name, parts in values.items()}
    names = list(sizes)
    pairs = {f"{a} - {b}": drawn[a] - drawn[b] for i, a in enumerate(names) for b in names[i + 1 :]}
    return {
        "value": {k: _ends(v, share) for k, v in drawn.items()},
        "difference": {k: _ends(v, share) for k, v in pairs.items()},
    }


def _mean_weighted(weights: Floats, ranks: Floats, target: Floats) -> Floats:
    """Mean over columns of the weighted correlation of each with the target, for each row of weights."""
    mean, center = weights @ ranks, weights @ target
    cross = weights @ (ranks * target[:, None]) - mean * center[:, None]
    spread = (weights @ ranks**2 - mean**2) * (weights @ target**2 - center**2)[:, None]
    return np.asarray((cross / np.sqrt(np.maximum(spread, 1e-300))).mean(axis=1))


def _ends(drawn: Floats, share: float) -> tuple[float, float, float]:
    lower, upper = np.quantile(drawn[1:], [share, 1 - share])
    return float(drawn[0]), float(lower), float(upper)
