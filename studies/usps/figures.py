"""Figures 1 and 2 of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

METRICS = ("euclidean", "tangent")
MEASURES = ("ratio", "cp", "sp")


def digit_sheet(images: NDArray[Any], labels: NDArray[np.intp], *, rows: int, seed: int = 0) -> NDArray[np.float64]:
    """Figure 1 as one image: ``rows`` examples of each digit, drawn at random, a column per digit; 0 is white."""
    rng = np.random.default_rng(seed)
    columns = [images[rng.choice(np.flatnonzero(labels == digit), rows, replace=False)] for digit in range(10)]
    sheet = np.concatenate([np.concatenate(list(column), axis=0) for column in columns], axis=1).astype(np.float64)
    return np.asarray((sheet - sheet.min()) / np.ptp(sheet))


def draw_digits(images: NDArray[Any], labels: NDArray[np.intp], path: Path) -> None:
    """Figure 1: examples of the digits."""
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(7, 4.4))
    axis.imshow(digit_sheet(images, labels, rows=6), cmap="gray_r", interpolation="nearest")
    axis.axis("off")
    _save(figure, path)


def draw_criteria(rows: list[dict[str, Any]], path: Path) -> None:
    """Figure 2 of the paper: unconfidence above, observed fuzziness below."""
    plt = _pyplot()
    figure, axes = plt.subplots(2, 1, figsize=(7, 9), sharex=True)
    colours = {"ratio": "#0072b2", "cp": "#d55e00", "sp": "#009e73"}
    for axis, criterion, title in zip(
        axes, ("U", "OF"), ("average unconfidence", "average observed fuzziness"), strict=True
    ):
        for metric in METRICS:
            for measure in MEASURES:
                line = [r for r in rows if r["metric"] == metric and r["measure"] == measure]
                line = [r for r in line if measure == "ratio" or r["K"] != 1]  # as in the paper
                axis.plot(
                    [r["K"] for r in line], [r[criterion] for r in line], color=colours[measure],
                    linestyle="-" if metric == "tangent" else "--", label=f"KNN-{measure}, {metric}",
                )  # fmt: skip
        axis.set_ylabel(title)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize="small")
    axes[1].set_xlabel("K")
    _save(figure, path)


def _pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    mpl.rcParams |= {"svg.hashsalt": "caveat", "svg.fonttype": "none"}
    return plt


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    _pyplot().close(figure)
