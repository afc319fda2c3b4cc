"""The cells about a model rather than a score: prediction sets, neural collapse, proximity of the outlier sets."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._adaptivity import bin_means, equal_mass
from caveat._roles import check_roles
from caveat._streams import stream
from caveat.conformal import SplitSets
from caveat.conformal.difficulty import ease_of, logit_noise_ease
from caveat.errors import CaveatWarning, InputError
from caveat.geometry import buckets, neural_collapse, proximities
from caveat.geometry.neural_collapse import Projection
from caveat.metrics import (
    accuracy,
    calibration,
    coverage,
    coverage_verdict,
    proportion_interval,
    sscv,
    t_cv,
    t_ss,
    true_ranks,
)
from caveat.outputs import Outputs
from caveat.results import PredictionSets
from caveat.study.calibration_split import HALVES, calibration_split
from caveat.study.cells import Cell
from caveat.study.schema import Row, estimate_row, make_row
from caveat.study.sources import Parts

__all__ = ["collapse_rows", "proximity_rows", "sets_rows"]

_SHOWN_BINS = 10  # of difficulty, in a picture
_PAPER_BINS, _LEAST_IN_BIN = 50, 20  # of T-CV and T-SS: 50 in the paper, fewer where they would hold too little
_SIGMA, _COPIES = 1.0, 20  # of the noise on the logits that stands in for transformed inputs

_BELOW = "Coverage is below the promise: a rare draw, or inliers that are not exchangeable with the calibration data."

Facts = dict[str, Any]


def sets_rows(cell: Cell, parts: Parts) -> tuple[list[Row], Facts]:
    """Sizes of the data, quality of the model's probabilities, and prediction sets by each method."""
    told, inlier = cell.params, parts.held_out
    check_roles({"train": parts.train, "calibration": parts.calibration, "inlier": inlier}, parts.outliers)
    rows = _data_rows(parts)
    if inlier.has("correct"):
        rows += _model_rows(told, inlier, cell.seed)
        rows += _prediction_rows(told, parts, cell.seed)
    return [row | {"source": told["source"], "seed": cell.seed} for row in rows], {}


def collapse_rows(cell: Cell, parts: Parts) -> tuple[list[Row], Facts]:
    """Neural collapse of the training features, plain and projected."""
    train = parts.train
    if train is None or not (train.has("features") and train.has("labels")):
        return [], {"skipped": "needs features and labels of the training outputs"}
    rows = []
    projections: tuple[Projection, ...] = ("none", "global", "class_pred")
    for projection in projections:
        if projection == "class_pred" and not train.has("predictions"):
            continue
        found = asdict(neural_collapse(train, projection=projection))
        n, caveat = found.pop("n"), found.pop("caveat")
        del found["n_classes"], found["projection"]
        rows += [
            make_row("collapse", name, value, projection=projection, n=n, caveat=caveat)
            for name, value in found.items()
            if value is not None
        ]
    return [row | {"source": cell.params["source"], "seed": cell.seed} for row in rows], {}


def proximity_rows(cell: Cell, parts: Parts) -> tuple[list[Row], Facts]:
    """Distance of each outlier set from the training data, and which group that puts it in."""
    train = parts.train
    sides = [] if train is None else [train, *parts.outliers.values()]
    space = next((name for name in ("embeddings", "features") if sides and all(s.has(name) for s in sides)), None)
    if train is None or space is None or not parts.outliers:
        return [], {"skipped": "needs features or embeddings of the training outputs and of every outlier set"}
    # The same space for all: one set may have embeddings that the others lack.
    vectors = [Outputs(features=getattr(side, space), check=False) for side in sides]
    outliers = dict(zip(parts.outliers, vectors[1:], strict=True))
    found = proximities(inlier=vectors[0], outliers=outliers, labels=train.labels)
    try:
        group, caveat = buckets(found, seed=cell.seed), ""
    except InputError as error:  # too few sets, or all equally far
        group, caveat = {}, f"No regimes: {error}"
    rows = []
    for name, distance in found.items():
        for metric in ("frechet", "mmd", "centroid"):
            value = getattr(distance, metric)
            if value is not None:
                rows.append(
                    make_row("proximity", metric, value, outlier=name, regime=group.get(name, ""),
                             n=distance.n_outlier, method=space, caveat=caveat)
                )  # fmt: skip
    return [row | {"source": cell.params["source"], "seed": cell.seed} for row in rows], {}


def _data_rows(parts: Parts) -> list[Row]:
    sets = {"train": parts.train, "calibration": parts.calibration, "inlier": parts.inlier}
    found = [(role, "", outputs) for role, outputs in sets.items() if outputs is not None]
    found += [("outlier", name, outputs) for name, outputs in parts.outliers.items()]
    rows = []
    for role, name, outputs in found:
        fields = ", ".join(f"{key} {'x'.join(map(str, shape))}" for key, (shape, _) in outputs.stored().items())
        rows.append(make_row("data", "n", outputs.n, outlier=name, n=outputs.n, method=role, caveat=fields))
    classes = parts.held_out.n_classes
    return rows if classes is None else [*rows, make_row("data", "n_classes", classes, method="inlier")]


def _model_rows(told: Any, inlier: Outputs, seed: int) -> list[Row]:
    rows, metrics = [], told["metrics"]
    if "accuracy" in metrics:
        rows.append(estimate_row("metric", "accuracy", accuracy(inlier, delta=told["delta"], name="inlier")))
    if {"ece", "brier", "nll"} & set(metrics):
        rng = stream(seed, "bootstrap", "calibration of probabilities")
        found = calibration(inlier, rng=rng, delta=told["delta"], resamples=told["resamples"])
        rows += [
            estimate_row("metric", name, getattr(found, name)) for name in ("ece", "brier", "nll") if name in metrics
        ]
    return rows


def _prediction_rows(told: Any, parts: Parts, seed: int) -> list[Row]:
    inlier, held, said = parts.held_out, parts.calibration, ""
    if held is None or not held.has("correct"):
        if inlier.n < 2:
            return []
        held, inlier = calibration_split(inlier, seed)
        said = HALVES
    ease, how = _ease(inlier, stream(seed, "ease"))
    rows: list[Row] = []
    for name in told["methods"]:
        with warnings.catch_warnings():  # a calibration set that is too small is said in the result
            warnings.simplefilter("ignore", CaveatWarning)
            # Randomised, as published: without u, a sure network ties aps at a mass of 1, and sets hold every label.
            method = SplitSets(name, alpha=told["alpha"]).calibrate(held, stream(seed, "sets", name, "calibrate"))
        sets = method.predict(inlier, rng=stream(seed, "sets", name, "inlier"))
        found = _size_rows(sets, "")
        covered = sets.covers(inlier.labels)
        verdict = coverage_verdict(
            int(covered.sum()), inlier.n, n_calibration=held.n, alpha=told["alpha"], delta=told["delta"]
        )
        below = _BELOW if verdict.verdict == "below" else ""
        found.append(
            estimate_row("sets", "coverage", coverage(covered, delta=told["delta"]))
            | {"caveat": " ".join(filter(None, [said, below, sets.caveat]))}
        )
        found.append(make_row("sets", "promised", sets.level, n=held.n))
        if ease is not None:
            found += _difficulty_rows(sets, inlier, ease, how, delta=told["delta"])
        for outlier, outputs in parts.outliers.items():
            if outputs.has("probs"):
                rng = stream(seed, "sets", name, "outlier", outlier)
                found += _size_rows(method.predict(outputs, rng=rng), outlier)
        rows += [row | {"score": name} for row in found]
    return rows


def _size_rows(sets: PredictionSets, outlier: str) -> list[Row]:
    sizes = sets.sizes
    shares = np.bincount(sizes, minlength=sets.n_classes + 1) / sets.n
    rows = [make_row("sets", "mean_size", float(sizes.mean()), outlier=outlier, n=sets.n)]
    return rows + [
        make_row("sets", "size_hist", float(share), x=float(size), outlier=outlier, n=sets.n)
        for size, share in enumerate(shares)
        if share > 0
    ]


def _ease(outputs: Outputs, rng: np.random.Generator) -> tuple[NDArray[np.float64] | None, str]:
    if outputs.has("ease_probs"):
        return ease_of(outputs), "ease from transformed inputs"
    if outputs.has("logits"):
        return logit_noise_ease(outputs, sigma=_SIGMA, rng=rng, copies=_COPIES), "ease from noise on the logits"
    return None, ""


def _difficulty_rows(
    sets: PredictionSets, outputs: Outputs, ease: NDArray[np.float64], how: str, *, delta: float
) -> list[Row]:
    covered, sizes = sets.covers(outputs.labels), sets.sizes
    ranks = true_ranks(probs=outputs.probs, labels=outputs.labels)
    rows = [make_row("sets", "sscv", sscv(covered=covered, sizes=sizes, alpha=sets.alpha), n=sets.n)]
    bins = min(_PAPER_BINS, sets.n // _LEAST_IN_BIN)
    if bins >= 2:
        method = f"{bins} bins of equal mass; {how}"
        with warnings.catch_warnings():  # T-SS is NaN where no difficulty can be seen, and a row can say that
            warnings.simplefilter("ignore", CaveatWarning)
            follows = t_ss(sizes=sizes, ranks=ranks, ease=ease, bins=bins)
        violation = t_cv(covered=covered, ease=ease, alpha=sets.alpha, bins=bins)
        rows += [
            make_row("sets", name, value, n=sets.n, method=method)
            for name, value in (("t_cv", violation), ("t_ss", follows))
        ]
    shown = min(_SHOWN_BINS, sets.n)
    number = equal_mass(ease, shown)
    for name, values in (("size_by_difficulty", sizes), ("rank_by_difficulty", ranks)):
        means = bin_means(values, number, shown)
        rows += [
            make_row("sets", name, float(mean), x=float(i), n=int((number == i).sum()), method=how)
            for i, mean in enumerate(means)
        ]
    for i in range(shown):
        found = proportion_interval(int(covered[number == i].sum()), int((number == i).sum()), delta=delta)
        rows.append(estimate_row("sets", "coverage_by_difficulty", found, x=float(i)))
    return rows
