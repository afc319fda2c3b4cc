"""Nine ways to train for low confidence on outliers, and what each can promise: MNIST at radius 0.3 and 0.4.

    CAVEAT_DATA=<folder> python studies/certified/run.py --store <folder>

Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust Detection of Out-of-Distribution Data", NeurIPS 2020,
Tables 1, 4, 8 and 9, with a small network and made outliers. Every training and every cell (method, set, radius) is
kept in the store: a run that was stopped goes on, and ``--only Plain --only joint`` does some methods only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import layout  # beside this file
import networks  # beside this file
import numpy as np
import strangers  # beside this file

from caveat import data
from caveat._files import replacing_file
from caveat.study.certification import Certification, SetCertificate, certify

HERE = Path(__file__).parent
EPSILON, WIDER = 0.3, 0.4
POINTS = 200  # of each set; the same ones for AUC, AAUC and GAUC
ATTACK: dict[str, Any] = {"attack": ("apgd",), "starts": ("point", "contrast", "toward_id"), "steps": 50}
CELLS = [(name, EPSILON) for name in strangers.SETS] + [(name, WIDER) for name in strangers.FIRST]


def cell_path(store: Path, method: str, outlier: str, epsilon: float) -> Path:
    return store / "cells" / method / f"{outlier} {epsilon:g}.npz"


def evaluate(method: str, store: Path) -> None:
    """Every missing cell of one method."""
    import torch

    open_cells = [(name, eps) for name, eps in CELLS if not cell_path(store, method, name, eps).exists()]
    if not open_cells:
        return
    torch.set_num_threads(1)
    model = networks.trained(method, store).model
    test = data.load("mnist", "test")
    towards = data.load("mnist", "train")[np.arange(0, 60_000, 60)]
    for outlier, epsilon in open_cells:
        begin = time.process_time()
        found = certify(
            model, inlier=test, outliers={outlier: strangers.SETS[outlier]()}, epsilon=epsilon, points=POINTS,
            candidates=towards, source=method, seed=networks.SEED, **ATTACK,
        )  # fmt: skip
        (one,) = found.sets
        assert one.attacked is not None
        assert one.labels is not None
        with replacing_file(cell_path(store, method, outlier, epsilon)) as temporary:
            np.savez(
                temporary, inlier=found.inlier, accuracy=found.accuracy, clean=one.clean, attacked=one.attacked,
                upper=one.upper, zero_gradients=one.zero_gradients, labels=one.labels,
                seconds=time.process_time() - begin,
            )  # fmt: skip
        spent = time.process_time() - begin
        print(f"{method} on {outlier} at {epsilon:g}: {found.sandwich(one)}, {spent:.0f} CPU s", flush=True)


def collect(method: str, store: Path, epsilon: float) -> tuple[Certification, float]:
    """What is in the store about one method at one radius, and the CPU seconds it took."""
    sets, seconds, inlier, accuracy = [], 0.0, np.zeros(1), np.nan
    for outlier, eps in CELLS:
        path = cell_path(store, method, outlier, eps)
        if eps != epsilon or not path.exists():
            continue
        with np.load(path, allow_pickle=False) as cell:
            inlier, accuracy = cell["inlier"], float(cell["accuracy"])
            seconds += float(cell["seconds"])
            letters = outlier == "EMNIST letters"
            sets.append(SetCertificate(
                name=outlier, clean=cell["clean"], attacked=cell["attacked"], upper=cell["upper"],
                zero_gradients=float(cell["zero_gradients"]), labels=cell["labels"] if letters else None,
                classes=tuple("abcdefghijklmnopqrstuvwxyz") if letters else (),
            ))  # fmt: skip
    found = Certification(
        source=method, epsilon=epsilon, n_classes=10, inlier=inlier, accuracy=accuracy, sets=tuple(sets)
    )
    return found, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True, help="Trainings and cells are kept here.")
    parser.add_argument("--out", type=Path, default=HERE, help="Tables and figures go here.")
    parser.add_argument("--only", action="append", choices=list(networks.METHODS), help="Methods; default: all.")
    parser.add_argument("--tables", action="store_true", help="Only write tables from what is in the store.")
    given = parser.parse_args()
    if not given.tables:
        for method in given.only or networks.METHODS:
            evaluate(method, given.store)
    found, spent = {}, {}
    for epsilon in (EPSILON, WIDER):
        for method in networks.METHODS:
            certification, seconds = collect(method, given.store, epsilon)
            if certification.sets:
                found[method, epsilon] = certification
                spent[method, f"{epsilon:g}"] = seconds
    seconds = {
        method: {
            "training": networks.cpu_seconds(method, given.store),
            **{f"evaluation at {eps}": round(value, 1) for (name, eps), value in spent.items() if name == method},
        }
        for method in dict.fromkeys(name for name, _ in spent)
    }
    (given.out / "seconds.json").write_text(json.dumps(seconds, indent=1) + "\n", encoding="utf-8")
    layout.write(found, given.out)


if __name__ == "__main__":
    main()
