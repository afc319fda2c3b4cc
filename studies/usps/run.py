"""USPS digits: six transductive conformal predictors, K = 1..50, ranked by unconfidence and by observed fuzziness.

    CAVEAT_DATA=<folder with usps.npz> caveat reproduce usps

One cell per metric.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tangent import TangentDistance  # in this folder

from caveat.conformal import FullKNN
from caveat.metrics import efficiency

CRITERIA = ("U", "OF", "S", "F", "OU", "credibility")
SEED = 0

Floats = NDArray[np.float64]


def load(folder: str | os.PathLike[str]) -> tuple[Floats, Floats, NDArray[np.intp], NDArray[np.intp]]:
    """Train and test images, each with mean 0 and standard deviation 1 (004, section 7), and their labels."""
    with np.load(Path(folder) / "usps.npz", allow_pickle=False) as data:
        images = [data[key].reshape(len(data[key]), -1).astype(np.float64) for key in ("x_train", "x_test")]
        labels = [data[key].astype(np.intp) for key in ("y_train", "y_test")]
    train, test = [(x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True) for x in images]
    return train, test, *labels


def evaluate(
    train: Floats, test: Floats, y_train: NDArray[np.intp], y_test: NDArray[np.intp], *, metric: str, most: int = 50
) -> list[dict[str, float | str]]:
    """One row per measure and K. KNN-CP and KNN-SP start at K = 2 in the paper; K = 1 is given as well."""
    fitted = FullKNN(metric=TangentDistance() if metric == "tangent" else metric).fit(train, y_train, most=most)
    rows: list[dict[str, float | str]] = []
    for measure, k, p in fitted.path(test, range(1, most + 1), rng=np.random.default_rng(SEED)):
        found = efficiency(p_values=p, labels=y_test)
        rows.append({"metric": metric, "measure": measure, "K": k} | {name: found[name] for name in CRITERIA})
    return rows


def one(metric: str) -> list[dict[str, float | str]]:
    """All three measures and every K with one metric."""
    return evaluate(*load(os.environ["CAVEAT_DATA"]), metric=metric)
