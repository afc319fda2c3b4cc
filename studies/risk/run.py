"""Promised and measured error among the accepted rows, on the published outputs of 32 networks.

    CAVEAT_DATA=<folder> caveat study studies/risk/plan.toml --out runs/risk
    python studies/risk/summary.py runs/risk

One cell per network. The 10,000 test rows are the whole population here and calibration rows are drawn from it with
replacement, so that the true error of a threshold is known exactly: a promise counts as broken if that error is
above the promised one. A split that calibrates on some rows and measures on the others would add the noise of the
measurement.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from methods import METHODS  # in this folder

from caveat import Outputs
from caveat._internal.streams import stream
from caveat.scores import make

SETTINGS = {500: (0.05,), 1000: (0.05, 0.1), 5000: (0.05,)}  # calibration rows: deltas
RISKS = (0.01, 0.02, 0.05, 0.1)
FILES = {
    "CIFAR-10": "cifar10_test_logits.npz",
    "CIFAR-100": "cifar100_test_logits.npz",
    "confidence only": "cifar10_test_probs.npz",
}


def networks() -> list[dict[str, Any]]:
    """One cell for each network of each file."""
    cells = []
    for group, file in FILES.items():
        with np.load(Path(os.environ["CAVEAT_DATA"]) / file, allow_pickle=False) as archive:
            cells += [
                {"group": group, "network": key.split("_", 1)[1], "splits": 1000} for key in archive if key != "y"
            ]
    return cells


def load(group: str, network: str) -> tuple[np.ndarray, np.ndarray]:
    """Score and whether the answer is wrong, of 10,000 rows: MSP of the logits, or the top-1 confidence alone."""
    with np.load(Path(os.environ["CAVEAT_DATA"]) / FILES[group], allow_pickle=False) as archive:
        labels = archive["y"].astype(np.intp)
        if group != "confidence only":
            outputs = Outputs(logits=archive[f"logits_{network}"], labels=labels)
            return make("msp").score(outputs), ~outputs.correct
        probs = archive[f"probs_{network}"]
        return make("confidence").score(Outputs(confidence=probs.max(axis=1))), probs.argmax(axis=1) != labels


def promised_and_delivered(
    score: np.ndarray,
    wrong: np.ndarray,
    *,
    splits: int,
    name: str = "",
    settings: dict[int, tuple[float, ...]] = SETTINGS,
) -> list[dict[str, Any]]:
    """One row for each number of calibration rows, delta, risk and method."""
    order = np.argsort(score, kind="stable")
    ordered, below = score[order], np.append(0, np.cumsum(wrong[order]))
    rows = []
    for n, deltas in settings.items():
        wanted = [(delta, risk, method) for delta in deltas for risk in RISKS for method in METHODS]
        thresholds = np.empty((len(wanted), splits))
        rng = stream(0, "splits", name, n)
        for split in range(splits):
            drawn = order[np.sort(rng.integers(score.size, size=n))]  # the surest first
            calibration = score[drawn], wrong[drawn]
            for place, (delta, risk, method) in enumerate(wanted):
                thresholds[place, split] = METHODS[method](*calibration, risk, delta, rng)
        accepted = np.searchsorted(ordered, thresholds)
        error = below[accepted] / np.maximum(accepted, 1)
        for place, (delta, risk, method) in enumerate(wanted):
            some = accepted[place] > 0
            rows.append({
                "n": n, "delta": delta, "risk": risk, "method": method,
                "broken": float(np.mean(error[place] > risk)),
                "nothing": float(np.mean(~some)),
                "coverage": float(np.mean(accepted[place]) / score.size),
                "delivered": float(error[place][some].mean()) if some.any() else 0.0,
            })  # fmt: skip
    return rows


def one(group: str, network: str, splits: int) -> list[dict[str, Any]]:
    """The rows of one network."""
    score, wrong = load(group, network)
    accuracy = float(1 - wrong.mean())
    rows = promised_and_delivered(score, wrong, splits=splits, name=f"{group}/{network}")
    return [{"accuracy": accuracy} | row for row in rows]
