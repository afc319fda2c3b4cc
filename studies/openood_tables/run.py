"""AUROC of OpenOOD's detectors with its conformal bounds, in three forms: as published, exact band, betting.

    CAVEAT_DATA=<folder> caveat reproduce openood-tables

Layout of Tables 1 and 3 of "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction", on a
ResNet-20 for CIFAR-10 whose features are stored: 14 of the 18 detectors need no more than features, logits and head.
Near: TinyImageNet. Far: the seven other sets. As in OpenOOD 1,000 test images are held out (the temperature is fitted
on them) and n = 9,000 remain. One cell per detector.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat import Head, Outputs
from caveat.conformal import boundary
from caveat.metrics import auroc, conformal_auroc
from caveat.scores import make

FEATURES, HEAD = "cifar10_resnet20_jpeg75_features.npz", "cifar10_resnet20_head.npz"
NEAR = ("tinyimagenet",)
FAR = ("dtd", "gtsrb", "mnist", "fashion", "emnist_letters", "notmnist", "uniform_noise")
HELD_OUT = 1_000
SIZES = (500, 1_000, 2_000, 4_000, 9_000)  # of the inliers; the tables take the last
DELTAS = {1: 0.01, 3: 0.05}  # by table
DETECTORS = {  # name in the paper -> ours, default settings
    "OpenMax": "openmax", "MSP": "msp", "TempScale": "tempscale", "MDS": "mahalanobis", "EBO": "energy",
    "GradNorm": "gradnorm", "ReAct": "react", "MLS": "max_logit", "KLM": "kl_matching", "VIM": "vim", "KNN": "knn",
    "DICE": "dice", "ASH": "ash", "SHE": "she",
}  # fmt: skip


@cache
def load() -> tuple[Outputs, Outputs, Outputs, dict[str, Outputs]]:
    """Training, held-out and test outputs, and those of the outliers."""
    folder = Path(os.environ["CAVEAT_DATA"])
    with np.load(folder / HEAD, allow_pickle=False) as stored:
        head = Head(stored["head_weight"], stored["head_bias"])
    with np.load(folder / FEATURES, allow_pickle=False) as stored:

        def outputs(name: str, **labels: Any) -> Outputs:
            features = stored[f"feat_{name}"].astype(np.float32)
            return Outputs(features=features, logits=stored[f"logits_{name}"], head=head, **labels)

        train, test = (outputs(name, labels=stored[f"y_{name}"].astype(int)) for name in ("train", "test"))
        return train, test[:HELD_OUT], test[HELD_OUT:], {name: outputs(name) for name in (*NEAR, *FAR)}


def one(detector: str) -> list[dict[str, Any]]:
    """AUROC and bounds of one detector on every outlier set, for every delta and number of inliers."""
    train, held_out, test, outliers = load()
    score = make(DETECTORS[detector])
    if score.fits_on:
        score.fit(held_out if score.held_out else train)
    inlier = score.score(test)
    order = np.random.default_rng(0).permutation(inlier.size)
    rows = []
    for name, outputs in outliers.items():
        outlier = score.score(outputs)
        for delta in DELTAS.values():
            for n in SIZES:
                part = inlier if n == inlier.size else inlier[order[:n]]
                rows.append({"set": name, "ood": "near" if name in NEAR else "far", "delta": delta, "n": n}
                            | bounds(part, outlier, delta))  # fmt: skip
    return rows


def bounds(inlier: NDArray[Any], outlier: NDArray[Any], delta: float) -> dict[str, float]:
    """AUROC in percent and its bounds: the published form, the exact band and betting."""
    both: dict[str, Any] = {"inlier": inlier, "outlier": outlier, "delta": delta}
    exact, betting = conformal_auroc(**both), conformal_auroc(**both, method="betting")
    found = {
        "auroc": auroc(inlier=inlier, outlier=outlier),
        "published_lower": conformal_auroc(**both, method=published_form(inlier.size, delta)).lower,
        "published_upper": conformal_auroc(**both, method="dkwm").upper,
        "exact_lower": exact.lower, "exact_upper": exact.upper,
        "betting_lower": betting.lower, "betting_upper": betting.upper,
    }  # fmt: skip
    return {name: 100 * float(value) for name, value in found.items()}


@cache
def published_form(n: int, delta: float) -> NDArray[np.float64]:
    """The boundary of the published conservative numbers: the smaller of two, each at delta."""
    return np.minimum(boundary(n, delta, "simes"), boundary(n, delta, "asymptotic"))
