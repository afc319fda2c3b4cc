"""Run the 13 detectors on every set and seed, and keep the test scores. Resumable: what is there is not run again.

    CAVEAT_DATA=<folder> python studies/adbench/run.py --store <folder> --jobs 2

Each run is one small file, written under a temporary name and renamed, so an interrupted study loses one run. Quick
detectors go first, over all sets and seeds; the slow ones follow seed by seed. The tables are made from the files by ``tables.py``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("OMP_NUM_THREADS", "1")

import protocol  # beside this file

# Cheapest first. PyOD's defaults throughout, as ADBench runs them.
DETECTORS = {
    "IForest": "iforest",
    "COPOD": "copod",
    "ECOD": "ecod",
    "PCA": "pca",
    "HBOS": "hbos",
    "KNN": "knn",
    "LOF": "lof",
    "CBLOF": "cblof",
    "OCSVM": "ocsvm",
    "DeepSVDD": "deep_svdd",
    "DAGMM": "",
    "COF": "cof",
    "SOD": "sod",
}
SLOW = {"DeepSVDD", "DAGMM", "COF", "SOD"}  # one seed after the other, so that a table of one seed is there early
SEEDED = {"IForest", "CBLOF", "DeepSVDD", "PCA"}


def make(name: str, seed: int, train: NDArray[np.float64]) -> Any:
    if name in ("DAGMM", "DeepSVDD"):
        import torch

        torch.set_num_threads(1)  # the study is parallel over runs
    if name == "DAGMM":
        from dagmm import DAGMM

        return DAGMM(seed=seed)
    detector = getattr(importlib.import_module(f"pyod.models.{DETECTORS[name]}"), name)
    options: dict[str, Any] = {"random_state": seed} if name in SEEDED else {}
    if name == "DeepSVDD":
        options |= {"n_features": train.shape[1], "verbose": 0}
    if name == "PCA":
        # PyOD divides by the variance of each direction: one without variance makes every score infinite.
        options["n_components"] = int(np.linalg.matrix_rank(train - train.mean(axis=0)))
    return detector(**options)


def one(key: str, name: str, seed: int, store: Path) -> str:
    """Fit on the training part, score the test part in one batch as ADBench does, and keep the scores."""
    target = store / f"{key}__{name}__{seed}.npz"
    if target.exists():
        return ""
    warnings.filterwarnings("ignore")
    part = protocol.split(key, seed)
    started = time.perf_counter()
    np.random.seed(seed)  # noqa: NPY002  (some detectors draw from the global generator; ADBench seeds it)
    failure = ""
    try:
        scores = make(name, seed, part.train).fit(part.train).decision_function(part.test)
    except Exception as error:  # the table shows which detector failed on which set, and why
        scores, failure = np.full(part.anomaly.size, np.nan), f"{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as stream:
        np.savez(stream, scores=np.asarray(scores, dtype=np.float64), anomaly=part.anomaly,
                 seconds=seconds, failure=failure, resampled=part.resampled)  # fmt: skip
    temporary.replace(target)
    return f"{key} {name} seed {seed}: {seconds:.1f} s {failure}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--detectors", nargs="+", default=list(DETECTORS), choices=list(DETECTORS))
    parser.add_argument("--sets", nargs="+", help="keys such as 6_cardio; default all")
    asked = parser.parse_args()
    asked.store.mkdir(parents=True, exist_ok=True)
    from joblib import Parallel, delayed

    size = {key: protocol.load(key)[0].size for key in asked.sets or protocol.names()}
    keys = sorted(size, key=size.__getitem__)
    quick = [(key, name, seed) for name in asked.detectors if name not in SLOW for seed in asked.seeds for key in keys]
    slow = [(key, name, seed) for seed in asked.seeds for name in asked.detectors if name in SLOW for key in keys]
    work = quick + slow
    work = [job for job in work if not (asked.store / "{}__{}__{}.npz".format(*job)).exists()]
    print(f"{len(work)} runs to do", flush=True)
    told = Parallel(n_jobs=asked.jobs, return_as="generator_unordered", batch_size=1)(
        delayed(one)(*job, asked.store) for job in work
    )
    for done, line in enumerate(told, start=1):
        print(f"{done}/{len(work)} {line}", flush=True)


if __name__ == "__main__":
    main()
