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

from caveat.conformal import (
    DifficultyIntervals,
    DifficultyModel,
    SplitIntervals,
    regression_ease,
    tune_difficulty_intervals,
)
from caveat.errors import CaveatWarning
from caveat.metrics import interval_adaptivity

ALPHAS = (0.2, 0.3, 0.4)
DELTA = 1e-5  # of the PAC methods, as in the paper
METHODS = ("CP", "CP-A", "PAC", "SSCP", "CQR", "O-CPA", "O-PAC")
METRICS = ("T-CV", "T-SS", "coverage", "width", "R2", "tau", "bins", "ease_error", "scale_error")
LEAST_ROWS, MOST_ROWS = 1000, 6000
NOISE, COPIES, BINS = 0.1, 20, 20  # of the ease that judges: drawn apart from those to tune among
SIGMAS = (0.05, 0.1, 0.2, 0.4)  # strengths to tune among, in units of the spread of each input
BIN_COUNTS = (2, 3, 5, 10, 20, 30)  # the paper's three, and fewer for small sets

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
    """Every method at every alpha on one random split: 40 % train, 15 % difficulty, 25 % validation, 20 % test.

    O-CPA and O-PAC tune on one half of the validation data and calibrate on the other; the rest calibrate on all of it.
    """
    from scipy.stats import spearmanr
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))[:MOST_ROWS]
    n = order.size
    train, hard, val, new = np.split(order, [8 * n // 20, 11 * n // 20, 16 * n // 20])
    tune, cal = slice(0, val.size // 2), slice(val.size // 2, None)  # of the validation data, in random order
    spread = x[train].std(axis=0)
    rows = (x - x[train].mean(axis=0)) / np.where(spread > 0, spread, 1)
    target = (y - y[train].mean()) / max(y[train].std(), 1e-12)  # widths are in units of the target's spread

    def boosted(**settings: Any) -> Any:
        return HistGradientBoostingRegressor(max_iter=100, learning_rate=0.1, max_leaf_nodes=15, **settings)

    model = boosted().fit(rows[train], target[train])
    parts = {"hard": hard, "val": val, "new": new}
    said = {part: model.predict(rows[where]) for part, where in parts.items()}

    def eases(part: str, sigma: float) -> Floats:
        here = rows[parts[part]]
        moved = [model.predict(here + sigma * rng.normal(size=here.shape)) for _ in range(COPIES)]
        return regression_ease(prediction=said[part], transformed=np.stack(moved))

    ease = {part: {f"{sigma:g}": eases(part, sigma) for sigma in SIGMAS} for part in ("val", "new")}
    judge = eases("new", NOISE)
    pretext = MaskedReconstruction().fit(rows[train], rng)
    loss = {part: pretext.loss(rows[where], rng) for part, where in parts.items()}
    residual = target[hard] - said["hard"]
    plain = DifficultyModel().fit(rows[hard], residual)
    informed = DifficultyModel().fit(rows[hard], residual, loss=loss["hard"])
    scale = {part: plain.scale(rows[parts[part]]) for part in ("val", "new")}
    supervised = {part: informed.scale(rows[parts[part]], loss=loss[part]) for part in ("val", "new")}

    error = np.abs(target[new] - said["new"])  # what difficulty should follow: by the noise, and by the scale of CP-A
    follows = {
        "ease_error": float(spearmanr(-judge, error).statistic),
        "scale_error": float(spearmanr(scale["new"], error).statistic),
    }

    found: dict[str, dict[str, dict[str, float]]] = {}
    for alpha in ALPHAS:
        quantiles = [
            boosted(loss="quantile", quantile=q).fit(rows[train], target[train]) for q in (alpha / 2, 1 - alpha / 2)
        ]
        columns: dict[str, dict[str, dict[str, Floats]]] = {
            part: {
                "CP": {"mean": said[part]},
                "CP-A": {"mean": said[part], "scale": scale[part]},
                "SSCP": {"mean": said[part], "scale": supervised[part]},
                "CQR": {
                    "lower": quantiles[0].predict(rows[parts[part]]),
                    "upper": quantiles[1].predict(rows[parts[part]]),
                },
            }
            for part in ("val", "new")
        }
        found[str(alpha)] = {}
        for method in METHODS:
            base = "CP-A" if method in ("PAC", "O-CPA", "O-PAC") else method
            given, asked = columns["val"][base], columns["new"][base]
            score: Any = {"CP": "absolute", "CQR": "cqr"}.get(method, "normalized")
            delta = DELTA if "PAC" in method else None
            if method.startswith("O-"):
                first, second = ({k: v[half] for k, v in given.items()} for half in (tune, cal))
                best = tune_difficulty_intervals(
                    target[val][tune], {k: v[tune] for k, v in ease["val"].items()}, alpha, rng=rng, score=score,
                    delta=delta, bins=BIN_COUNTS, judge_bins=BINS, **first,
                )  # fmt: skip
                kind = ease["val"][str(best.ease)]
                by_bin = DifficultyIntervals(score, alpha=alpha, bins=int(best.bins or 2), delta=delta)
                by_bin.calibrate(target[val][cal], ease=kind[cal], binning=kind[tune], **second)
                intervals = by_bin.predict(ease=ease["new"][str(best.ease)], **asked)
            else:
                intervals = (
                    SplitIntervals(score, alpha=alpha, delta=delta).calibrate(target[val], **given).predict(**asked)
                )
            found[str(alpha)][method] = interval_adaptivity(
                intervals, y=target[new], mean=said["new"], ease=judge, bins=BINS
            )
            found[str(alpha)][method] |= follows
            found[str(alpha)][method]["bins"] = float(best.bins or 0) if method.startswith("O-") else 1.0
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
