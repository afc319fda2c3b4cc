"""CCU on more noise, by its confidence, rounded and not, and by the density ratio that bounds it: ``ratio.csv``.

    CAVEAT_DATA=<folder> python studies/certified/ratio.py

The table has 200 images of uniform noise. Here they are again, with 2,000 fresh ones. ``confidence`` is what the table
has: its order, by the effective gate. ``rounded confidence`` is the same as a float64, in which much is 1/10. ``log b``
needs no network. Reads the trained model from the cache folder.
"""

from __future__ import annotations

from typing import Any

import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder

from caveat._internal.result_tables import write_csv
from caveat.nn import in_float64
from caveat_lab import data, robust
from caveat_lab.bounds import confidence_bounds
from caveat_lab.bounds.exact import exact_gate, exact_log_confidence, exact_logits

TASK = networks.TASKS["MNIST"]
FRESH, SEED = 2000, 2  # the noise of the table has another seed


def noise() -> dict[str, np.ndarray]:
    table = strangers.images_of("Uniform noise", colour=False).inputs()
    fresh = data.noise(FRESH, np.random.default_rng(SEED), height=28, width=28).astype(np.float32)[:, None]
    return {"of the table": table[np.linspace(0, len(table) - 1, TASK.points).round().astype(int)], "fresh": fresh}


def rows() -> list[dict[str, Any]]:
    """One for each radius, sample of noise and score; shares."""
    import torch

    torch.set_num_threads(1)
    model: Any = in_float64(networks.trained("MNIST", "CCU", run.store()).model)
    digits = networks.images_of("MNIST", "test").inputs()
    ratio, shift = model.ratio(), float(model.log_out_weight)
    rounded = exact_log_confidence(exact_logits(model, digits))
    confidence = exact_gate(model, digits)
    log_b = ratio.log_ratio(digits.reshape(len(digits), -1)) - shift
    found = []
    for epsilon in (TASK.radius, TASK.wider):
        for name, images in noise().items():
            upper = ratio.bounds(images.reshape(len(images), -1), epsilon, side="upper").upper - shift
            scores = {
                "confidence": (confidence, exact_gate(model, images, epsilon)),
                "rounded confidence": (rounded, confidence_bounds(model, images, epsilon).exact.upper),
                "log b": (log_b, upper),
            }
            found += [
                {"epsilon": epsilon, "noise": name, "n": len(images), "score": score}
                | {"gauc": f"{robust.guaranteed_auroc(inlier=inlier, outlier_upper=outlier):.5f}"}
                for score, (inlier, outlier) in scores.items()
            ]
    return found


if __name__ == "__main__":
    write_csv(rows(), run.HERE / "ratio.csv")
