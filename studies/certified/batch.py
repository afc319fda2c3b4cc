"""A batch of training outliers as GOOD_60 splits it, like the paper's Table 3: ``batch.csv``, ``batch_cifar10.csv``.

    CAVEAT_DATA=<folder> python studies/certified/batch.py [MNIST or CIFAR-10] [folder for the picture]

128 outliers at the end of training: the easier 76 get the certified loss, the harder 52 the loss at the point. For
digits they are of four kinds, for CIFAR-10 all are photographs. The picture is drawn if a folder is given; it contains
images of the data set and is not kept here. Reads the trained model from the cache folder, or trains it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import layout  # in this folder
import networks  # in this folder
import numpy as np
import run  # in this folder
import strangers  # in this folder
from numpy.typing import NDArray

from caveat._internal.result_tables import write_csv
from caveat_lab.bounds import largest_difference_bound
from caveat_lab.networks.training import OutlierMix
from caveat_lab.networks.training.good import certified_count

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


def photograph_rows() -> tuple[list[dict[str, Any]], NDArray[np.float32], NDArray[np.intp]]:
    """Both parts of a batch of photographs; the images, and their order from the smallest bound to the largest."""
    import torch

    shown = strangers.photographs(trained=True).inputs()
    images = shown[np.random.default_rng(SEED).choice(len(shown), BATCH, replace=False)]
    paradigm: Any = networks.COLOUR_METHODS["GOOD_60"].paradigm
    model = networks.trained("CIFAR-10", "GOOD_60", run.store()).model
    with torch.no_grad():
        bounds = largest_difference_bound(model, torch.from_numpy(images), paradigm.epsilon).numpy()
    order = bounds.argsort(kind="stable")
    easy = certified_count(BATCH, paradigm.quantile)
    parts = [
        {
            "part": part, "n": len(some), "median bound": f"{np.median(bounds[some]):.4f}",
            "mean brightness": f"{images[some].mean():.3f}",
            "mean contrast": f"{images[some].std(axis=(1, 2, 3)).mean():.3f}",
        }
        for part, some in (("certified", order[:easy]), ("at the point", order[easy:]))
    ]  # fmt: skip
    return parts, images, order


def batch_sheet(images: NDArray[Any], order: NDArray[np.intp], easy: int) -> Any:
    """Top: the harder images, highest bound first. Bottom: the easier ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5.5), layout="constrained")
    for axes, some, title in zip(
        figure.subplots(2, 1), (order[easy:][::-1], order[:easy][::-1]), ("loss at the point", "certified"), strict=True
    ):
        columns = 19
        size = images.shape[-1]
        sheet = np.ones((-(-len(some) // columns) * (size + 1), columns * (size + 1), images.shape[1]))
        for i, image in enumerate(images[some]):
            top, left = i // columns * (size + 1), i % columns * (size + 1)
            sheet[top : top + size, left : left + size] = image.transpose(1, 2, 0)
        axes.imshow(sheet, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(f"{title}: {len(some)}", fontsize=8)
        axes.set_axis_off()
    return figure


if __name__ == "__main__":
    task = sys.argv[1] if len(sys.argv) > 1 else "MNIST"
    rows, outliers, order = batch_rows() if task == "MNIST" else photograph_rows()
    name = "batch.csv" if task == "MNIST" else "batch_cifar10.csv"
    write_csv(rows, run.HERE / name)
    if len(sys.argv) > 2:
        picture = f"table3_{networks.TASKS[task].data}.svg"
        layout.save(batch_sheet(outliers, order, certified_count(BATCH, 0.6)), Path(sys.argv[2]) / picture)
