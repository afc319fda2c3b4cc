"""Ways to train for low confidence on outliers, and what each can promise: MNIST and CIFAR-10.

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
Tables 1, 4, 8 and 9, with a small network. A cell is a task, a method, a set of outliers and a radius. Trained networks
and the confidences behind every number are kept in the cache folder (``CAVEAT_CACHE``).
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

from caveat._internal.cache import cache_folder
from caveat._internal.files import replacing_file
from caveat_lab.experiments.certification import Certification, Gates, SetCertificate, certify

HERE = Path(__file__).parent
KEPT = HERE / "results.csv"
ATTACK: Mapping[str, Any] = {"attack": ("apgd",), "starts": ("point", "contrast", "toward_id"), "steps": 50}
TEXT = ("task", "method", "set")
Key = tuple[str, str, str, float]


def grid() -> list[dict[str, Any]]:
    """Every task, method, set and radius; results in ``results.csv`` are reused."""
    return [params | {"kept": True} for params in fresh_grid()]


def fresh_grid() -> list[dict[str, Any]]:
    """Every cell, to be computed. Methods change fastest: two workers train different ones."""
    return [
        {"task": name, "method": method, "set": outlier, "epsilon": epsilon, "kept": False}
        for name, task in networks.TASKS.items()
        for outlier, epsilon in task.cells
        for method in _in_turn(task)
    ]


def _in_turn(task: networks.Task) -> list[str]:
    """The methods of a task: first those that others start from, then the slowest."""
    methods = list(task.methods)
    methods.reverse()
    return sorted(methods, key=lambda method: method not in task.starts.values())


def one(task: str, method: str, set: str, epsilon: float, kept: bool) -> dict[str, Any]:
    """The numbers of one cell, from ``results.csv`` if they stand there and may be taken, else computed."""
    before = kept_rows().get((task, method, set, epsilon)) if kept else None
    return before or compute(task, method, set, epsilon)


@cache
def kept_rows() -> dict[Key, dict[str, Any]]:
    if not KEPT.exists():
        return {}
    with KEPT.open(newline="", encoding="utf-8") as stream:
        rows = [{k: v if k in TEXT else float(v) for k, v in line.items()} for line in csv.DictReader(stream)]
    return {(row["task"], row["method"], row["set"], row["epsilon"]): row for row in rows}


def compute(task: str, method: str, outlier: str, epsilon: float) -> dict[str, Any]:
    """Train the method if that has not been done, certify it, attack it, and say what came out."""
    path = cell_path(task, method, outlier, epsilon)
    if not path.exists():
        measure(task, method, epsilon)
    found, seconds = read_cell(task, method, outlier, epsilon)
    (one_set,) = found.sets
    areas, band, attacked = found.sandwich(one_set), found.band(one_set), found.aauc_interval(one_set)
    numbers = {
        "accuracy": found.accuracy,
        "auc": areas.clean,
        "aauc": areas.adversarial,
        "aauc_lower": attacked.lower,
        "aauc_upper": attacked.upper,
        "gauc": areas.guaranteed,
        "conservative_gauc": areas.conservative_guaranteed,
        "gauc_with_95_percent": band.lower,
        "gfpr95_inlier_positive": areas.guaranteed_fpr95,
        "mean_inlier_confidence": np.exp(found.inlier).mean(),
        "mean_confidence": np.exp(one_set.clean).mean(),
        "mean_upper_bound": np.exp(one_set.upper).mean(),
        "zero_gradient_share": one_set.zero_gradients,
        "training_seconds": networks.cpu_seconds(task, method, store()),
        "seconds": seconds,
    }
    return {"task": task, "method": method, "set": outlier, "epsilon": epsilon, "n": float(one_set.n)} | {
        name: round(float(value), 5) for name, value in numbers.items()
    }


def measure(task: str, method: str, epsilon: float) -> None:
    """All sets of a method at one radius, so that the inliers pass the network once."""
    import torch

    torch.set_num_threads(1)
    what = networks.TASKS[task]
    model = networks.trained(task, method, store()).model
    names = [name for name, radius in what.cells if radius == epsilon]
    begin = time.process_time()
    found = certify(
        model, inlier=networks.images_of(task, "test"), epsilon=epsilon, points=what.points, candidates=towards(task),
        outliers={name: strangers.images_of(name, colour=what.colour) for name in names}, source=method,
        seed=networks.SEED, arithmetic="real", **ATTACK,  # as in the paper
    )  # fmt: skip
    seconds = (time.process_time() - begin) / len(names)
    for one_set in found.sets:
        path = cell_path(task, method, one_set.name, epsilon)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(path) as temporary:
            np.savez(
                temporary, inlier=found.inlier, accuracy=found.accuracy, clean=one_set.clean,
                attacked=one_set.attacked, upper=one_set.upper, zero_gradients=one_set.zero_gradients,
                labels=one_set.labels, seconds=seconds, **_gates_of(found, one_set),
            )  # fmt: skip


def towards(task: str) -> Any:
    """Training images, evenly spread, that attacks may lead to."""
    images = networks.images_of(task, "train")
    return images[np.arange(0, len(images), len(images) // 1000)]


def _gates_of(found: Certification, one_set: SetCertificate) -> dict[str, Any]:
    """Of CCU: what its areas are made from."""
    if found.inlier_gate is None or one_set.gates is None:
        return {}
    gates = one_set.gates
    assert gates.attacked is not None
    return {"inlier_gate": found.inlier_gate, "clean_gate": gates.clean, "attacked_gate": gates.attacked,
            "upper_gate": gates.upper}  # fmt: skip


def read_cell(task: str, method: str, outlier: str, epsilon: float) -> tuple[Certification, float]:
    """What was measured, and the CPU seconds that took."""
    letters = outlier == "EMNIST letters"
    with np.load(cell_path(task, method, outlier, epsilon), allow_pickle=False) as cell:
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


def cell_path(task: str, method: str, outlier: str, epsilon: float) -> Path:
    return store() / "cells" / task / method / f"{outlier} {epsilon:g}.npz"
