"""One run of ADBench: a detector on a set with a seed. The cells of ``plan.toml`` and ``fresh.toml``.

    CAVEAT_DATA=<folder> caveat reproduce adbench [--fresh] --jobs 2

``plan.toml`` reuses the runs in ``runs.csv`` and computes only the missing ones; ``fresh.toml``
computes all 2,097, which takes hours. Quick detectors come first, over all sets and seeds, then the slow ones seed by
seed; within both, small sets first.
"""

from __future__ import annotations

import os
import time
import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("OMP_NUM_THREADS", "1")

import protocol  # in this folder
from kept import kept as kept_runs  # in this folder
from kept import published  # in this folder

from caveat import InputError, Outputs
from caveat.metrics import auroc, conformal_auroc
from caveat.scores import OutlierDetector

# Name in the published tables -> name in caveat.scores.detectors(). Cheapest first; default settings throughout.
QUICK = {
    "IForest": "iforest", "COPOD": "copod", "ECOD": "ecod", "PCA": "pca", "HBOS": "hbos", "KNN": "knn", "LOF": "lof",
    "CBLOF": "cblof", "OCSVM": "ocsvm",
}  # fmt: skip
SLOW = {"COF": "cof", "DAGMM": "dagmm", "DeepSVDD": "deep_svdd", "SOD": "sod"}
DETECTORS = QUICK | SLOW
OLD_PCA = "PCA, signs of U"  # PyOD's PCA as the paper had it, see pca_signs.py; on the paper's sets alone
SEEDS = (1, 2, 3)


def options(name: str, train: NDArray[np.float64]) -> dict[str, Any]:
    """Settings where the default does not work."""
    if name in ("PCA", OLD_PCA):
        from sklearn.decomposition import PCA
        from sklearn.preprocessing import StandardScaler

        # PyOD divides by the variance of each direction: one without any makes every score infinite (cardio).
        some = PCA().fit(StandardScaler().fit_transform(train)).explained_variance_ratio_ > 0
        return {} if some.all() else {"n_components": int(some.sum())}
    return {}


def build(name: str, train: NDArray[np.float64], seed: int) -> OutlierDetector:
    if name == "DeepSVDD":
        import deep_svdd  # in this folder: PyOD's, to the last bit, in a fraction of the time

        return OutlierDetector(deep_svdd.QuickDeepSVDD(n_features=train.shape[1], random_state=seed, verbose=0))
    if name == OLD_PCA:
        import pca_signs  # in this folder

        return OutlierDetector(pca_signs.PCASignsOfU(**options(name, train)))
    return OutlierDetector(DETECTORS[name], options(name, train))


def grid() -> list[dict[str, Any]]:
    """Every set, detector and seed; runs made before are taken from ``runs.csv``."""
    return [params | {"kept": True} for params in fresh_grid()]


def fresh_grid() -> list[dict[str, Any]]:
    """Every set, detector and seed, to be computed; on the paper's sets PCA a second time, with its old signs."""
    size = protocol.sizes()
    keys = sorted(size, key=size.__getitem__)
    quick = [(key, name, seed) for name in QUICK for seed in SEEDS for key in keys]
    paper = {name for name, _ in published()}
    quick += [(key, OLD_PCA, seed) for seed in SEEDS for key in keys if protocol.short(key) in paper]
    slow = [(key, name, seed) for seed in SEEDS for name in SLOW for key in keys]
    return [{"key": key, "detector": name, "seed": seed, "kept": False} for key, name, seed in quick + slow]


def one(key: str, detector: str, seed: int, kept: bool) -> dict[str, Any]:
    """The row of one run, from ``runs.csv`` if it stands there and may be taken, else computed."""
    before = known().get((protocol.short(key), detector, seed)) if kept else None
    return before or compute(key, detector, seed)


@cache
def known() -> dict[tuple[str, str, int], dict[str, Any]]:
    return {(row["set"], row["detector"], row["seed"]): row for row in kept_runs()}


def compute(key: str, name: str, seed: int) -> dict[str, Any]:
    """Fit on the training part, score the test part in one batch as ADBench does, and measure."""
    warnings.filterwarnings("ignore")
    if name == "DeepSVDD":
        import torch

        torch.set_num_threads(1)  # the study is parallel over runs
    part = protocol.split(key, seed)
    started = time.perf_counter()
    np.random.seed(seed)  # noqa: NPY002  (some detectors draw from the global generator; ADBench seeds it)
    failure = ""
    try:
        score = build(name, part.train, seed)
        scores = score.fit(Outputs(features=part.train), rng=seed).score(Outputs(features=part.test))
    except InputError as error:  # a detector failed: the table shows which, on which set, and why
        failure = str(error)
    seconds = time.perf_counter() - started
    row = {
        "set": protocol.short(key), "detector": name, "seed": seed,
        "n": int((~part.anomaly).sum()), "m": int(part.anomaly.sum()), "auroc": np.nan, "lower": np.nan,
        "upper": np.nan, "resampled": part.resampled, "seconds": seconds, "failure": failure,
    }  # fmt: skip
    if not failure:
        parts = {"inlier": scores[~part.anomaly], "outlier": scores[part.anomaly]}
        bound = conformal_auroc(**parts, delta=protocol.DELTA)
        row |= {"auroc": auroc(**parts), "lower": bound.lower, "upper": bound.upper}
    return row
