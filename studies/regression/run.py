"""Prediction intervals on public regression sets: seven methods, coverage, width and adaptivity.

    CAVEAT_DATA=<folder> caveat reproduce regression

Needs regression_uci.npz and regression_cqr.npz. One cell per data set and random split.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from masked import MaskedReconstruction  # in this folder
from numpy.typing import NDArray

from caveat.conformal import DifficultyIntervals, DifficultyModel, SplitIntervals, regression_ease
from caveat.errors import CaveatWarning
from caveat.metrics import interval_adaptivity

ALPHAS = (0.2, 0.3, 0.4)
DELTA = 1e-5  # of the PAC methods, as in the paper
METHODS = ("CP", "CP-A", "PAC", "SSCP", "CQR", "O-CPA", "O-PAC")
METRICS = ("T-CV", "T-SS", "coverage", "width", "R2", "tau")
LEAST_ROWS, MOST_ROWS = 1000, 6000
NOISE, COPIES, BINS = 0.1, 20, 20

Floats = NDArray[np.float64]


def data_sets(folder: str | os.PathLike[str]) -> Iterator[tuple[str, Floats, Floats]]:
    """Name, inputs and target of every set with enough rows."""
    for archive in ("uci", "cqr"):
        with np.load(Path(folder) / f"regression_{archive}.npz", allow_pickle=False) as file:
            names = sorted(key[:-3] for key in file.files if key.endswith(("__y", "__Y")))
        for name in names:
            if archive == "cqr" and name in ("protein_casp", "concrete"):
                continue  # in the other archive as well
            x, y = load(folder, f"{archive} {name}")
            if len(y) >= LEAST_ROWS:
                yield f"{archive} {name}", x, y


def load(folder: str | os.PathLike[str], name: str) -> tuple[Floats, Floats]:
    """Inputs and target of one set; missing inputs become column means."""
    archive, _, key = name.partition(" ")
    with np.load(Path(folder) / f"regression_{archive}.npz", allow_pickle=False) as file:
        target = f"{key}__y" if f"{key}__y" in file.files else f"{key}__Y"
        x, y = file[f"{key}__X"].astype(np.float64), file[target].astype(np.float64)
    means = np.nan_to_num(np.nanmean(x, axis=0))
    return np.where(np.isnan(x), means, x), y if y.ndim == 1 else y[:, 0]


def evaluate(x: Floats, y: Floats, *, seed: int) -> dict[str, dict[str, dict[str, float]]]:
    """Every method at every alpha on one random split: 40 % train, 20 % difficulty, 20 % calibrate, 20 % test."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:MOST_ROWS]
    n = order.size
    train, hard, cal, new = np.split(order, [2 * n // 5, 3 * n // 5, 4 * n // 5])
    spread = x[train].std(axis=0)
    rows = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    target = (y - y[train].mean()) / max(y[train].std(), 1e-12)  # widths are in units of the target's spread

    def boosted(**settings: Any) -> Any:
        return HistGradientBoostingRegressor(max_iter=100, learning_rate=0.1, max_leaf_nodes=15, **settings)

    model = boosted().fit(rows[train], target[train])
    said = {part: model.predict(rows[where]) for part, where in (("hard", hard), ("cal", cal), ("new", new))}
    eases = {}
    for part, where in (("hard", hard), ("cal", cal), ("new", new)):
        moved = [model.predict(rows[where] + NOISE * rng.normal(size=rows[where].shape)) for _ in range(COPIES)]
        eases[part] = regression_ease(prediction=said[part], transformed=np.stack(moved))
    pretext = MaskedReconstruction().fit(rows[train], rng)
    loss = {part: pretext.loss(rows[where], rng) for part, where in (("hard", hard), ("cal", cal), ("new", new))}
    residual = target[hard] - said["hard"]
    plain = DifficultyModel().fit(rows[hard], residual)
    informed = DifficultyModel().fit(rows[hard], residual, loss=loss["hard"])
    scale = {part: plain.scale(rows[where]) for part, where in (("cal", cal), ("new", new))}
    supervised = {part: informed.scale(rows[where], loss=loss[part]) for part, where in (("cal", cal), ("new", new))}
    bins = max(2, min(10, cal.size // 100))

    found: dict[str, dict[str, dict[str, float]]] = {}
    for alpha in ALPHAS:
        quantiles = [
            boosted(loss="quantile", quantile=q).fit(rows[train], target[train]) for q in (alpha / 2, 1 - alpha / 2)
        ]
        ends = {
            part: {"lower": quantiles[0].predict(rows[where]), "upper": quantiles[1].predict(rows[where])}
            for part, where in (("cal", cal), ("new", new))
        }
        given = {
            "CP": ({"mean": said["cal"]}, {"mean": said["new"]}),
            "CP-A": tuple({"mean": said[p], "scale": scale[p]} for p in ("cal", "new")),
            "SSCP": tuple({"mean": said[p], "scale": supervised[p]} for p in ("cal", "new")),
            "CQR": (ends["cal"], ends["new"]),
        }
        given |= {"PAC": given["CP-A"], "O-CPA": given["CP-A"], "O-PAC": given["CP-A"]}
        found[str(alpha)] = {}
        for method in METHODS:
            known, asked = given[method]
            score: Any = {"CP": "absolute", "CQR": "cqr"}.get(method, "normalised")
            delta = DELTA if "PAC" in method else None
            if method.startswith("O-"):
                by_bin = DifficultyIntervals(score, alpha=alpha, bins=bins, delta=delta)
                by_bin.calibrate(target[cal], ease=eases["cal"], binning=eases["hard"], **known)
                intervals = by_bin.predict(ease=eases["new"], **asked)
            else:
                intervals = (
                    SplitIntervals(score, alpha=alpha, delta=delta).calibrate(target[cal], **known).predict(**asked)
                )
            found[str(alpha)][method] = interval_adaptivity(
                intervals, y=target[new], mean=said["new"], ease=eases["new"], bins=BINS
            )
    return found


def one(data: str, seed: int) -> list[dict[str, Any]]:
    """One row per alpha and method of one data set and random split."""
    warnings.simplefilter("ignore", CaveatWarning)  # a group too small shows as an infinite width
    found = evaluate(*load(os.environ["CAVEAT_DATA"], data), seed=seed)
    return [
        {"alpha": alpha, "method": method} | {metric: values[metric] for metric in METRICS}
        for alpha, by_method in found.items()
        for method, values in by_method.items()
    ]
