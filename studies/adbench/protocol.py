"""ADBench's protocol: which rows, which split, which scaling.

Han, Hu, Huang, Jiang and Zhao, "ADBench: Anomaly Detection Benchmark", NeurIPS 2022, and its published data generator:
sets under 1,000 rows are resampled with replacement to 1,000, sets over 10,000 are subsampled to 10,000, 30 % are held
out by a stratified split, and features are scaled to [0, 1] on the training part. The legacy generator of numpy is used
on purpose: with the same seed it gives the same rows as ADBench.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILES = ("adbench_classical.npz", "adbench_cv_resnet18.npz", "adbench_nlp.npz")
LEAST, MOST, HELD_OUT = 1_000, 10_000, 0.3
DELTA = 0.05  # allowed failure of the bounds


@dataclass(frozen=True)
class Split:
    """Training rows without labels, test rows with labels (True: anomaly)."""

    train: NDArray[np.float64]
    test: NDArray[np.float64]
    anomaly: NDArray[np.bool_]
    resampled: bool  # with replacement: the same row can be on both sides


def folder() -> Path:
    found = os.environ.get("CAVEAT_DATA")
    if not found:
        raise SystemExit("set CAVEAT_DATA to the folder that holds adbench_classical.npz")
    return Path(found)


def names() -> dict[str, str]:
    """Key of each set -> its file. ``6_cardio`` becomes ``cardio``; embeddings keep their names."""
    keys: dict[str, str] = {}
    for file in FILES:
        if (folder() / file).exists():
            with np.load(folder() / file, allow_pickle=False) as archive:
                keys |= {key.removesuffix("__X"): file for key in archive.files if key.endswith("__X")}
    return keys


def sizes() -> dict[str, int]:
    """Key of each set -> bytes of its features, which need not be read for that."""
    found: dict[str, int] = {}
    for file in sorted(set(names().values())):
        with zipfile.ZipFile(folder() / file) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith("__X.npy")]
            found |= {member.filename.removesuffix("__X.npy"): member.file_size for member in members}
    return found


def short(key: str) -> str:
    """The name in the published tables."""
    number, _, rest = key.partition("_")
    if number.isdigit() and not rest.startswith(("bert", "roberta")):
        return rest
    return key.replace("_", " ")


def load(key: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    with np.load(folder() / names()[key], allow_pickle=False) as archive:
        return archive[f"{key}__X"].astype(np.float64), archive[f"{key}__y"].astype(np.bool_)


def split(key: str, seed: int) -> Split:
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import MinMaxScaler

    x, anomaly = load(key)
    legacy = np.random.RandomState(seed)
    few = anomaly.size < LEAST
    if few:
        rows = legacy.choice(np.arange(anomaly.size), LEAST, replace=True)
        x, anomaly = x[rows], anomaly[rows]
    elif anomaly.size > MOST:
        rows = legacy.choice(np.arange(anomaly.size), MOST, replace=False)
        x, anomaly = x[rows], anomaly[rows]
    train, test, _, held = train_test_split(
        x, anomaly, test_size=HELD_OUT, shuffle=True, stratify=anomaly, random_state=legacy
    )
    scaler = MinMaxScaler().fit(train)
    return Split(scaler.transform(train), scaler.transform(test), held, few)
