"""The nine methods of the study: one network, one training set, the same generated outliers; only the loss differs.

Every training writes checkpoints to a folder and resumes from there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from caveat import data
from caveat.nn.training import (
    ACET,
    CCU,
    CEDA,
    GOOD,
    PRESETS,
    CrossEntropy,
    OutlierExposure,
    Paradigm,
    Preset,
    Trained,
    fit_preset,
)  # fmt: skip

SEED = 0


def _short(paradigm: Paradigm, what: str, *, epochs: int = 3, rows: int | None = None) -> Preset:
    return Preset(what=what, architecture="xs", paradigm=paradigm, epochs=epochs, rows=rows)


METHODS: Mapping[str, Preset] = {
    "Plain": _short(CrossEntropy(), "cross-entropy"),
    "CEDA": _short(CEDA(kappa=1.0, ramp=(0.05, 0.3)), "low largest probability on outliers"),
    "OE": _short(OutlierExposure(kappa=0.3, ramp=(0.05, 0.3)), "uniform answers to outliers"),
    "ACET": _short(ACET(), "low confidence on attacked outliers", epochs=6, rows=10_000),
    "CCU": _short(CCU(components=60, rows=12_000), "gated by two mixtures of Gaussians"),
    "GOOD_0": _short(GOOD(quantile=0.0, interval_init=True), "L_CUB at the outliers, no ball"),
    "GOOD_80": _short(
        GOOD(quantile=0.8, kappa=1.0, interval_init=True), "the easier 80 % certified", epochs=10, rows=10_000
    ),
    "GOOD_100": PRESETS["quick"],
    "joint": PRESETS["standard"],
}


def trained(name: str, store: Path) -> Trained:
    """Train a method, or go on, or read it back. The CPU seconds of a training that was not interrupted are kept."""
    images = data.load("mnist", "train")
    folder = store / "models" / name
    begin = time.process_time()
    result = fit_preset(
        METHODS[name], (images.pixels, images.labels), seed=SEED, threads=1, checkpoint=folder, progress=False
    )
    if not result.resumed:
        spent = {"cpu": round(time.process_time() - begin, 1), "wall": round(result.seconds, 1)}
        (folder / "seconds.json").write_text(json.dumps(spent) + "\n", encoding="utf-8")
    return result


def cpu_seconds(name: str, store: Path) -> float:
    """What the training took; NaN if it was interrupted."""
    path = store / "models" / name / "seconds.json"
    return float(json.loads(path.read_text(encoding="utf-8"))["cpu"]) if path.exists() else float("nan")
