"""Nine ways to train for low confidence on outliers, and what each can promise: MNIST at radius 0.3 and 0.4.

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
Tables 1, 4, 8 and 9, with a small network and made outliers. A cell is a method, a set of outliers and a radius.
Trained networks and the confidences behind every number are kept in the cache folder (``CAVEAT_CACHE``).
"""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import networks  # in this folder
import numpy as np
import strangers  # in this folder

from caveat import data
from caveat._internal.cache import cache_folder
from caveat._internal.files import replacing_file
from caveat.study.certification import Certification, Gates, SetCertificate, certify

HERE = Path(__file__).parent
KEPT = HERE / "results.csv"
EPSILON, WIDER = 0.3, 0.4
POINTS = 200  # of each set; the same ones for AUC, AAUC and GAUC
ATTACK: Mapping[str, Any] = {"attack": ("apgd",), "starts": ("point", "contrast", "toward_id"), "steps": 50}
CELLS = [(name, EPSILON) for name in strangers.SETS] + [(name, WIDER) for name in strangers.FIRST]
TEXT = ("method", "set")


def grid() -> list[dict[str, Any]]:
    """Every method, set and radius; results in ``results.csv`` are reused."""
    return [params | {"kept": True} for params in fresh_grid()]


def fresh_grid() -> list[dict[str, Any]]:
    """Every method, set and radius, to be computed. Methods change fastest: two workers train different ones."""
    return [
        {"method": method, "set": name, "epsilon": epsilon, "kept": False}
        for name, epsilon in CELLS
        for method in reversed(networks.METHODS)
    ]


def one(method: str, set: str, epsilon: float, kept: bool) -> dict[str, Any]:
    """The numbers of one cell, from ``results.csv`` if they stand there and may be taken, else computed."""
    before = kept_rows().get((method, set, epsilon)) if kept else None
    return before or compute(method, set, epsilon)


@cache
def kept_rows() -> dict[tuple[str, str, float], dict[str, Any]]:
    if not KEPT.exists():
        return {}
    with KEPT.open(newline="", encoding="utf-8") as stream:
        rows = [{k: v if k in TEXT else float(v) for k, v in line.items()} for line in csv.DictReader(stream)]
    return {(row["method"], row["set"], row["epsilon"]): row for row in rows}


def compute(method: str, outlier: str, epsilon: float) -> dict[str, Any]:
    """Train the method if that has not been done, certify it, attack it, and say what came out."""
    path = cell_path(method, outlier, epsilon)
    if not path.exists():
        measure(method, outlier, epsilon, path)
    found, seconds = read_cell(method, outlier, epsilon)
    (one_set,) = found.sets
    areas, band = found.sandwich(one_set), found.band(one_set)
    numbers = {
        "accuracy": found.accuracy,
        "auc": areas.clean,
        "aauc": areas.adversarial,
        "gauc": areas.guaranteed,
        "conservative_gauc": areas.conservative_guaranteed,
        "gauc_with_95_percent": band.lower,
        "gfpr95_inlier_positive": areas.guaranteed_fpr95,
        "mean_inlier_confidence": np.exp(found.inlier).mean(),
        "mean_confidence": np.exp(one_set.clean).mean(),
        "mean_upper_bound": np.exp(one_set.upper).mean(),
        "zero_gradient_share": one_set.zero_gradients,
        "training_seconds": networks.cpu_seconds(method, store()),
        "seconds": seconds,
    }
    return {"method": method, "set": outlier, "epsilon": epsilon, "n": float(one_set.n)} | {
        name: round(float(value), 5) for name, value in numbers.items()
    }


def measure(method: str, outlier: str, epsilon: float, path: Path) -> None:
    import torch

    torch.set_num_threads(1)
    model = networks.trained(method, store()).model
    towards = data.load("mnist", "train")[np.arange(0, 60_000, 60)]
    begin = time.process_time()
    found = certify(
        model, inlier=data.load("mnist", "test"), outliers={outlier: strangers.SETS[outlier]()}, epsilon=epsilon,
        points=POINTS, candidates=towards, source=method, seed=networks.SEED, **ATTACK,
    )  # fmt: skip
    (one_set,) = found.sets
    assert one_set.attacked is not None
    assert one_set.labels is not None
    with replacing_file(path) as temporary:
        np.savez(
            temporary, inlier=found.inlier, accuracy=found.accuracy, clean=one_set.clean, attacked=one_set.attacked,
            upper=one_set.upper, zero_gradients=one_set.zero_gradients, labels=one_set.labels,
            seconds=time.process_time() - begin, **_gates_of(found, one_set),
        )  # fmt: skip


def _gates_of(found: Certification, one_set: SetCertificate) -> dict[str, Any]:
    """Of CCU: what its areas are made from."""
    if found.inlier_gate is None or one_set.gates is None:
        return {}
    gates = one_set.gates
    assert gates.attacked is not None
    return {"inlier_gate": found.inlier_gate, "clean_gate": gates.clean, "attacked_gate": gates.attacked,
            "upper_gate": gates.upper}  # fmt: skip


def read_cell(method: str, outlier: str, epsilon: float) -> tuple[Certification, float]:
    """What was measured, and the CPU seconds that took."""
    letters = outlier == "EMNIST letters"
    with np.load(cell_path(method, outlier, epsilon), allow_pickle=False) as cell:
        gated = "inlier_gate" in cell
        one_set = SetCertificate(
            name=outlier, clean=cell["clean"], attacked=cell["attacked"], upper=cell["upper"],
            zero_gradients=float(cell["zero_gradients"]), labels=cell["labels"] if letters else None,
            classes=strangers.ALPHABET if letters else (),
            gates=Gates(cell["clean_gate"], cell["upper_gate"], cell["attacked_gate"]) if gated else None,
        )  # fmt: skip
        found = Certification(
            source=method, epsilon=epsilon, n_classes=10, inlier=cell["inlier"], accuracy=float(cell["accuracy"]),
            sets=(one_set,), inlier_gate=cell["inlier_gate"] if gated else None,
        )  # fmt: skip
        return found, float(cell["seconds"])


def store() -> Path:
    return cache_folder() / "certified"


def cell_path(method: str, outlier: str, epsilon: float) -> Path:
    return store() / "cells" / method / f"{outlier} {epsilon:g}.npz"
