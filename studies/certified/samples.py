"""Single letters, like the paper's Figures 2 and 3: ``letter_samples.csv``.

    CAVEAT_DATA=<folder> python studies/certified/samples.py [folder for the picture]

A random letter of each kind, with what six networks for digits take it for and how sure they are. The picture is drawn
if a folder is given; it contains images of the data set and is not kept here. Trains what is not in the cache folder.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import layout  # in this folder
import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
from numpy.typing import NDArray

from caveat._internal.result_tables import write_csv
from caveat_lab.bounds.exact import exact_logits

MODELS = ("Plain", "CEDA", "OE", "ACET", "CCU", "GOOD_100")  # GOOD_100 and every baseline of Table 1
SEED = 0


def random_letters() -> NDArray[np.intp]:
    """A row of the letters' test split for each letter."""
    labels, rng = strangers.images_of("EMNIST letters", colour=False).labels, np.random.default_rng(SEED)
    return np.array([rng.choice(np.flatnonzero(labels == letter)) for letter in range(26)])


def letter_rows() -> list[dict[str, Any]]:
    """Letter, its row, and each model's prediction and confidence in percent."""
    chosen = random_letters()
    x = strangers.images_of("EMNIST letters", colour=False)[chosen].inputs()
    found: list[dict[str, Any]] = [
        {"letter": name, "row": row} for name, row in zip(strangers.ALPHABET, chosen, strict=True)
    ]
    for method in MODELS:
        logits = exact_logits(networks.trained("MNIST", method, run.store()).model, x)
        probs = np.exp(logits - logits.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        for row, p in zip(found, probs, strict=True):
            row |= {f"{method} digit": int(p.argmax()), f"{method} confidence": f"{100 * p.max():.1f}"}
    return found


def letter_sheet(rows: Sequence[dict[str, Any]], images: NDArray[Any]) -> Any:
    """Each letter with predictions and confidences above it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    for axes, row, image in zip(figure.subplots(2, 13).ravel(), rows, images, strict=True):
        axes.imshow(image, cmap="gray", interpolation="nearest")
        axes.set_title("\n".join(f"{m} {row[f'{m} digit']}: {row[f'{m} confidence']}" for m in MODELS), fontsize=6)
        axes.set_axis_off()
    return figure


if __name__ == "__main__":
    letters = letter_rows()
    write_csv(letters, run.HERE / "letter_samples.csv")
    if len(sys.argv) > 1:
        pixels = strangers.images_of("EMNIST letters", colour=False).pixels[random_letters()]
        layout.save(letter_sheet(letters, pixels), Path(sys.argv[1]) / "figure3.svg")
