"""A batch of training outliers as GOOD_60 splits it, like the paper's Table 3: ``batch.csv``.

    CAVEAT_DATA=<folder> python studies/certified/batch.py [folder for the picture]

128 outliers at the end of training: the easier 76 get the certified loss, the harder 52 the loss at the point. The
picture is drawn if a folder is given; it contains digits of the data set and is not kept here. Reads the trained model
from the cache folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import layout  # in this folder
import networks  # in this folder
import numpy as np
import run  # in this folder
from numpy.typing import NDArray

from caveat.nn.bounds import largest_difference_bound
from caveat.nn.training import OutlierMix
from caveat.nn.training.good import certified_count
from caveat.study.tables import write_csv

SEED, BATCH = 0, 128


def batch_rows() -> tuple[list[dict[str, Any]], NDArray[np.float32], NDArray[np.intp]]:
    """The split by kind of outlier; the images, and their order from the smallest bound to the largest."""
    import torch

    recipe = networks.METHODS["GOOD_60"]
    mix = OutlierMix(networks.images_of("MNIST", "train").inputs()[::6], recipe.outliers)
    images = mix(BATCH, torch.Generator().manual_seed(SEED))
    paradigm: Any = recipe.paradigm
    model = networks.trained("MNIST", "GOOD_60", run.store()).model
    with torch.no_grad():
        bounds = largest_difference_bound(model, images, paradigm.epsilon).numpy()
    order = bounds.argsort(kind="stable")
    easy = order[: certified_count(BATCH, paradigm.quantile)]
    share = BATCH // len(recipe.outliers)
    found = []
    for i, kind in enumerate(recipe.outliers):
        mine = np.arange(i * share, (i + 1) * share)
        found.append({
            "kind": kind, "n": share, "certified": int(np.isin(mine, easy).sum()),
            "at the point": int((~np.isin(mine, easy)).sum()), "median bound": f"{np.median(bounds[mine]):.4f}",
            "mean brightness": f"{images[mine].mean():.3f}",
        })  # fmt: skip
    return found, images.numpy(), order


def batch_sheet(images: NDArray[Any], order: NDArray[np.intp], easy: int) -> Any:
    """Top: the harder images, highest bound first. Bottom: the easier ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    for axes, some, title in zip(
        figure.subplots(2, 1), (order[easy:][::-1], order[:easy][::-1]), ("loss at the point", "certified"), strict=True
    ):
        columns = 19
        sheet = np.ones((-(-len(some) // columns) * 29, columns * 29))
        for i, image in enumerate(images[some, 0]):
            top, left = i // columns * 29, i % columns * 29
            sheet[top : top + 28, left : left + 28] = image
        axes.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(f"{title}: {len(some)}", fontsize=8)
        axes.set_axis_off()
    return figure


if __name__ == "__main__":
    rows, outliers, order = batch_rows()
    write_csv(rows, run.HERE / "batch.csv")
    if len(sys.argv) > 1:
        layout.save(batch_sheet(outliers, order, certified_count(BATCH, 0.6)), Path(sys.argv[1]) / "table3.svg")
