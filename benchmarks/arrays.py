"""Arrays that every contender of the benchmark page reads: one folder per family, drawn from fixed seeds.

A folder holds ``timing/`` (one large problem) and ``draws/`` (many small problems, one per row of the leading axis),
each with ``.npy`` files and the numbers of ``settings.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["write_all"]

Numbers = dict[str, Any]


def write_all(root: Path, *, quick: bool) -> dict[str, Path]:
    """Write the arrays of all families below ``root``; the folder of each. ``quick``: smaller and fewer."""
    part = 0.1 if quick else 1.0
    folders = {}
    for number, (family, make) in enumerate(FAMILIES.items()):
        folders[family] = root / family
        for kind, scale in (("timing", part), ("draws", part)):
            rng = np.random.default_rng([20, number, kind == "draws"])
            problem = make(rng, kind, scale)
            if problem is not None:
                _write(folders[family] / kind, *problem)
    return folders


def _write(folder: Path, arrays: dict[str, NDArray[Any]], numbers: Numbers) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "settings.json").write_text(json.dumps(numbers))


def _scaled(count: int, scale: float, least: int = 20) -> int:
    return max(least, round(count * scale))


def _ood(rows: int, width: int, classes: int, rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Non-negative features around class means, a linear head, and a test set of half inliers, half outliers."""
    if kind == "draws":
        return None
    n = _scaled(rows, scale, 10 * classes)
    means = rng.standard_normal((classes, width), dtype=np.float32)

    def features(count: int, centers: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        labels = np.arange(count) % len(centers)
        noise = rng.standard_normal((count, width), dtype=np.float32)
        return np.maximum(centers[labels] + 1.5 * noise + 0.5, 0), labels.astype(np.int64)

    train, labels = features(n, means)
    inlier, _ = features(n // 8, means)
    outlier, _ = features(n // 8, 0.6 * (means + means[rng.permutation(classes)]))
    weight = (means / np.sqrt(width) * 2).astype(np.float32)
    bias = (0.1 * rng.standard_normal(classes)).astype(np.float32)
    test = np.concatenate([inlier, outlier])
    arrays = {"train": train, "labels": labels, "test": test, "weight": weight, "bias": bias,
              "train_logits": train @ weight.T + bias, "test_logits": test @ weight.T + bias}  # fmt: skip
    return arrays, {"inliers": len(inlier), "k": 50, "dimension": width // 2, "percentile": 90.0}


def _sets(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Probabilities of a calibrated model and labels drawn from them."""
    draws, calibration, test, classes = (
        ((), _scaled(5000, scale), _scaled(10_000, scale), 100) if kind == "timing"
        else ((_scaled(500, scale),), 200, 200, 10)
    )  # fmt: skip
    arrays = {}
    for name, rows in (("calibration", calibration), ("test", test)):
        logits = 3 * rng.standard_normal((*draws, rows, classes))
        exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
        probs = exponentials / exponentials.sum(axis=-1, keepdims=True)
        arrays[f"{name}_probs"] = probs.astype(np.float32)
        arrays[f"{name}_labels"] = np.argmax(logits + rng.gumbel(size=logits.shape), axis=-1)
    return arrays, {"alpha": 0.1, "draws": draws[0] if draws else 0}


def _intervals(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Predictions of a regression model with errors of changing spread."""
    shape = (_scaled(200_000, scale),) if kind == "timing" else (_scaled(1000, scale), 300)
    mean, spread = rng.uniform(-3, 3, shape), rng.uniform(0.5, 2, shape)
    y = mean + spread * rng.standard_normal(shape)
    half = shape[-1] // 2 if kind == "timing" else 100
    arrays = {"calibration_mean": mean[..., :half], "calibration_y": y[..., :half], "test_mean": mean[..., half:],
              "test_y": y[..., half:]}  # fmt: skip
    return arrays, {"alpha": 0.1, "draws": shape[0] if kind == "draws" else 0}


def _selection(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Scores of inliers, and of a test set with a tenth of outliers 3 standard deviations higher."""
    draws, n, m = (
        ((), _scaled(10_000, scale), _scaled(100_000, scale))
        if kind == "timing"
        else ((_scaled(1000, scale),), 500, 500)
    )
    inliers, shift = m - m // 10, 3.0
    test = rng.standard_normal((*draws, m))
    test[..., inliers:] += shift
    arrays = {"calibration": rng.standard_normal((*draws, n)), "test": test}
    numbers = {"q": 0.1, "false_alarm": 0.05, "delta": 0.1, "shift": shift, "inliers": inliers}
    return arrays, numbers | {"draws": draws[0] if draws else 0}


def _risk(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Multi-label probabilities: true labels uniform on [0, 1 / slope], and 9 false ones, in fixed columns.

    The risk of threshold t is slope x t. The threshold 0.10 has risk 0.101 and must not be chosen for alpha = 0.1005.
    That alpha lies between two candidates, so that rounding to the candidates gives nothing away.
    """
    shape = (_scaled(1000, scale),) if kind == "timing" else (_scaled(500, scale), 200)
    slope, true_labels, false_labels = 1.01, 1, 9
    right = rng.random((*shape, true_labels)) / slope
    wrong = rng.random((*shape, false_labels)) ** 3
    candidates = np.arange(0, 1, 0.01)
    numbers = {"alpha": 0.1005, "candidate": 0.1, "delta": 0.1, "slope": slope, "true_labels": true_labels,
               "false_labels": false_labels, "draws": shape[0] if kind == "draws" else 0}  # fmt: skip
    return {"probs": np.concatenate([right, wrong], axis=-1),
            "lambdas": np.broadcast_to(candidates, (*shape[:-1], candidates.size))}, numbers  # fmt: skip


def _drift(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Calibration scores and streams: a quiet one; for the draws also one with a shift of half a standard deviation."""
    if kind == "timing":
        points, n = _scaled(5000, scale), _scaled(1000, scale)
        return ({"calibration": rng.standard_normal(n), "streams": rng.standard_normal((1, points))},
                {"alpha": 0.05, "points": points, "change": 0})  # fmt: skip
    draws, points, n, change = _scaled(250, scale), 2000, 100, 200
    streams = rng.standard_normal((draws, 2, points))
    streams[:, 1, change:] += 0.5
    return ({"calibration": rng.standard_normal((draws, n)), "streams": streams},
            {"alpha": 0.05, "points": points, "change": change, "draws": draws})  # fmt: skip


def _ranks(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Tables of blocks x methods: all methods alike; two alike among four that are far apart."""
    if kind == "timing":
        blocks, methods = _scaled(100, scale), _scaled(20, scale, 5)
        return {"tables": rng.standard_normal((1, blocks, methods)) + np.arange(methods) / 20}, {"alpha": 0.05}
    draws, blocks, methods = _scaled(1000, scale), 20, 6
    tables = rng.standard_normal((draws, 2, blocks, methods))
    tables[:, 1] += np.array([0.0, 0, 10, 20, 30, 40])
    return {"tables": tables}, {"alpha": 0.05, "draws": draws}


def _metrics(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Scores of inliers and of outliers one standard deviation higher, rounded, so that they tie."""
    shape = (_scaled(100_000, scale),) if kind == "timing" else (_scaled(300, scale), 200)
    places = 3 if kind == "timing" else 1
    arrays = {"inlier": rng.standard_normal(shape).round(places).astype(np.float32),
              "outlier": (1 + rng.standard_normal(shape)).round(places).astype(np.float32)}  # fmt: skip
    return arrays, {"delta": 0.05, "step": 10.0**-places, "draws": shape[0] if kind == "draws" else 0}


def _definitions(rng: np.random.Generator, kind: str, scale: float) -> Any:
    """Cases with an exact answer: a threshold for every n and alpha, an ECE, and a slab that no set covers.

    The calibration scores are 1, 2, ..., n in some order, so a threshold is its own rank. The sets miss the label in a
    fifth of the rows, where the first feature is largest; small labels are elsewhere.
    """
    cases = [(n, percent / 100) for n in range(5, 101) for percent in (5, 10, 20, 25, 30, 40, 50)
             if n * percent > 100]  # with fewer rows some packages refuse  # fmt: skip
    if scale < 1:
        cases = cases[:: round(1 / scale)]
    draws, rows = len(cases), 400
    features = rng.standard_normal((draws, rows, 2))
    place = np.argsort(np.argsort(features[..., 0], axis=1), axis=1) / rows
    labels = (place >= 0.5).astype(np.int64)
    member = np.ones((draws, rows, 2), dtype=bool)
    np.put_along_axis(member, labels[..., None], (place < 0.8)[..., None], axis=2)
    confidence = rng.uniform(0.02, 1, (draws, rows))
    arrays = {"size": np.array([n for n, _ in cases]), "alpha": np.array([alpha for _, alpha in cases]),
              "scores": np.array([np.append(1 + rng.permutation(n), np.zeros(100 - n)) for n, _ in cases]),
              "confidence": confidence, "correct": rng.random((draws, rows)) < confidence**2, "features": features,
              "member": member, "labels": labels}  # fmt: skip
    numbers = {"bins": 50, "delta": 0.2, "directions": 50, "slabs": 30, "draws": draws}
    if kind == "timing":  # not timed, but a contender reads one problem when it starts
        return {name: array[0] for name, array in arrays.items()}, numbers | {"draw": 0}
    return arrays, numbers


FAMILIES = {
    "ood": lambda *rest: _ood(20_000, 512, 100, *rest),
    "ood_small": lambda *rest: _ood(2000, 64, 10, *rest),
    "sets": _sets,
    "intervals": _intervals,
    "selection": _selection,
    "risk": _risk,
    "drift": _drift,
    "ranks": _ranks,
    "metrics": _metrics,
    "definitions": _definitions,
}
