"""USPS digits: six transductive conformal predictors, K = 1..50, on the original and on a shuffled split.

    CAVEAT_DATA=<folder with usps.npz> caveat reproduce usps

One cell per metric and split: the ten criteria of efficiency, and error rates, which tell whether the p-values are
valid. Validity needs exchangeable examples; the original training and test digits are not. "repeated" are many random
splits of fewer digits, for error rates with a standard error.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tangent import TangentDistance  # in this folder

from caveat._internal.blocks import row_blocks
from caveat._internal.streams import stream
from caveat.conformal import FullKNN
from caveat.metrics import efficiency

LEVELS = (0.01, 0.05, 0.1, 0.2)  # significance levels of the error rates
EPSILON = 0.05  # significance level of the criteria of sets
SEED = 0
REPEATS, SOME_TRAIN, SOME_TEST, SOME_K = 30, 1500, 500, (2, 10, 20)  # of the repeated splits

Floats = NDArray[np.float64]
Digits = tuple[Floats, Floats, NDArray[np.intp], NDArray[np.intp]]


def load(folder: str | os.PathLike[str]) -> Digits:
    """Train and test images, each with mean 0 and standard deviation 1 (004, section 7), and their labels."""
    with np.load(Path(folder) / "usps.npz", allow_pickle=False) as data:
        images = [data[key].reshape(len(data[key]), -1).astype(np.float64) for key in ("x_train", "x_test")]
        labels = [data[key].astype(np.intp) for key in ("y_train", "y_test")]
    train, test = [(x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True) for x in images]
    return train, test, *labels


def shuffled(train: Floats, test: Floats, y_train: NDArray[np.intp], y_test: NDArray[np.intp]) -> Digits:
    """The same digits and sizes, drawn at random: training and test examples are exchangeable."""
    x, y = np.concatenate([train, test]), np.concatenate([y_train, y_test])
    order = stream(SEED, "usps split").permutation(len(x))
    first, last = order[: len(train)], order[len(train) :]
    return x[first], x[last], y[first], y[last]


class Lookup:
    """A symmetric metric between given images whose distances are computed once. Its objects are row numbers."""

    def __init__(self, images: Floats, metric: Any) -> None:
        state = metric.prepare(images)
        # Tangent distances are float32 numbers: nothing is lost.
        self.table = np.empty((len(images), len(images)), dtype=np.float32)
        for rows in row_blocks(len(images), row_bytes=1, block_bytes=960):
            right = metric.distances(tuple(part[rows] for part in state), tuple(part[rows.start :] for part in state))
            self.table[rows, rows.start :] = right
            self.table[rows.start :, rows] = self.table[rows, rows.start :].T

    def prepare(self, x: NDArray[Any]) -> tuple[NDArray[np.intp]]:
        return (x[:, 0].astype(np.intp),)

    def distances(self, a: tuple[NDArray[np.intp]], b: tuple[NDArray[np.intp]]) -> Floats:
        return self.table[np.ix_(a[0], b[0])].astype(np.float64)


def evaluate(
    train: Floats, test: Floats, y_train: NDArray[np.intp], y_test: NDArray[np.intp], *, metric: str, most: int = 50
) -> list[dict[str, float | str]]:
    """One row per measure and K. KNN-CP and KNN-SP start at K = 2 in the paper; K = 1 is given as well."""
    x, distance = prepared(np.concatenate([train, test]), metric)
    fitted = FullKNN(metric=distance).fit(x[: len(train)], y_train, most=most)
    rows: list[dict[str, float | str]] = []
    for measure, k, p in fitted.path(x[len(train) :], range(1, most + 1), rng=np.random.default_rng(SEED)):
        criteria = efficiency(p_values=p, labels=y_test, epsilon=EPSILON, phi=np.square)
        rows.append({"metric": metric, "measure": measure, "K": k} | criteria | errors(p, y_test))
    return rows


def prepared(images: Floats, metric: str) -> tuple[Floats, Any]:
    """Objects and metric for FullKNN: tangent distances are looked up, by row number."""
    if metric != "tangent":
        return images, metric
    return np.arange(len(images), dtype=np.float64)[:, None], Lookup(images, TangentDistance())


def errors(p: Floats, labels: NDArray[np.intp]) -> dict[str, float]:
    """How often the true label is not in the set, at each level. Valid p-values: as often as the level says."""
    own = p[np.arange(len(p)), labels]
    return {f"error {level:g}": float((own <= level).mean()) for level in LEVELS}


def repeated(images: Floats, labels: NDArray[np.intp], *, metric: str) -> list[dict[str, float | str]]:
    """Mean error rates over random splits of one sample of digits, with their standard errors.

    Given the sample, the splits are independent and each error rate is correct on average: no other split enters.
    """
    rng = stream(SEED, "usps repeated splits")
    sample = rng.permutation(len(images))[: SOME_TRAIN + SOME_TEST]
    x, distance = prepared(images[sample], metric)
    y = labels[sample]
    rates: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(REPEATS):
        order = rng.permutation(len(x))
        train, test = order[:SOME_TRAIN], order[SOME_TRAIN:]
        fitted = FullKNN(metric=distance).fit(x[train], y[train], most=max(SOME_K))
        for measure, k, p in fitted.path(x[test], SOME_K, rng=rng):
            rates.setdefault((measure, k), []).append(errors(p, y[test]))
    rows: list[dict[str, float | str]] = []
    for (measure, k), per_split in rates.items():
        table = {name: np.array([rate[name] for rate in per_split]) for name in per_split[0]}
        means = {name: float(values.mean()) for name, values in table.items()}
        spread = {f"se of {n}": float(v.std(ddof=1) / np.sqrt(REPEATS)) for n, v in table.items()}
        rows.append({"metric": metric, "measure": measure, "K": k} | means | spread)
    return rows


def one(metric: str, split: str) -> list[dict[str, float | str]]:
    """All three measures and every K with one metric on one split; some K for repeated splits."""
    digits = load(os.environ["CAVEAT_DATA"])
    if split == "repeated":
        rows = repeated(np.concatenate(digits[:2]), np.concatenate(digits[2:]), metric=metric)
    else:
        rows = evaluate(*(shuffled(*digits) if split == "shuffled" else digits), metric=metric)
    return [{"split": split} | row for row in rows]
