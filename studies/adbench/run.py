"""Run the 13 detectors on every set and seed, and keep the test scores. Resumable: what is there is not run again.

    CAVEAT_DATA=<folder> python studies/adbench/run.py --store <folder> --jobs 2

Each run is one small file, written under a temporary name and renamed, so an interrupted study loses one run. Quick
detectors go first, over all sets and seeds; the slow ones follow seed by seed. The tables are made from the files by
``tables.py``, which also keeps them in ``runs.csv``: what stands there is not run again, on any machine.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("OMP_NUM_THREADS", "1")

import protocol  # beside this file
import tables  # beside this file

from caveat import InputError, Outputs
from caveat.scores import OutlierDetector

# Name in the published tables -> name in caveat.scores.detectors(). Cheapest first; default settings throughout.
QUICK = {
    "IForest": "iforest", "COPOD": "copod", "ECOD": "ecod", "PCA": "pca", "HBOS": "hbos", "KNN": "knn", "LOF": "lof",
    "CBLOF": "cblof", "OCSVM": "ocsvm",
}  # fmt: skip
SLOW = {"COF": "cof", "DAGMM": "dagmm", "DeepSVDD": "deep_svdd", "SOD": "sod"}
DETECTORS = QUICK | SLOW


def options(name: str, train: NDArray[np.float64]) -> dict[str, Any]:
    """Settings beside the defaults, where a default cannot work."""
    if name == "PCA":
        from sklearn.decomposition import PCA
        from sklearn.preprocessing import StandardScaler

        # PyOD divides by the variance of each direction: one without any makes every score infinite (cardio).
        some = PCA().fit(StandardScaler().fit_transform(train)).explained_variance_ratio_ > 0
        return {} if some.all() else {"n_components": int(some.sum())}
    return {}


def build(name: str, train: NDArray[np.float64], seed: int) -> OutlierDetector:
    if name == "DeepSVDD":
        import deep_svdd  # beside this file: PyOD's, to the last bit, in a fraction of the time

        return OutlierDetector(deep_svdd.QuickDeepSVDD(n_features=train.shape[1], random_state=seed, verbose=0))
    return OutlierDetector(DETECTORS[name], options(name, train), seed=seed)


def one(key: str, name: str, seed: int, store: Path) -> str:
    """Fit on the training part, score the test part in one batch as ADBench does, and keep the scores."""
    target = store / f"{key}__{name}__{seed}.npz"
    if target.exists():
        return ""
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
        scores = score.fit(Outputs(features=part.train)).score(Outputs(features=part.test))
    except InputError as error:  # what a detector says when it cannot: the table shows which, on which set, and why
        scores, failure = np.full(part.anomaly.size, np.nan), str(error)
    seconds = time.perf_counter() - started
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    with temporary.open("wb") as stream:
        np.savez(stream, scores=scores, anomaly=part.anomaly, seconds=seconds, failure=failure,
                 resampled=part.resampled)  # fmt: skip
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
    quick = [(key, name, seed) for name in asked.detectors if name in QUICK for seed in asked.seeds for key in keys]
    slow = [(key, name, seed) for seed in asked.seeds for name in asked.detectors if name in SLOW for key in keys]
    before = {(row["set"], row["detector"], row["seed"]) for row in tables.kept()}
    work = [
        (key, name, seed)
        for key, name, seed in quick + slow
        if (protocol.short(key), name, seed) not in before and not (asked.store / f"{key}__{name}__{seed}.npz").exists()
    ]
    print(f"{len(work)} runs to do", flush=True)
    told = Parallel(n_jobs=asked.jobs, return_as="generator_unordered", batch_size=1)(
        delayed(one)(*job, asked.store) for job in work
    )
    for done, line in enumerate(told, start=1):
        print(f"{done}/{len(work)} {line}", flush=True)


if __name__ == "__main__":
    main()
