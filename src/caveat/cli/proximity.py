"""``caveat proximity``: how far data sets lie from the training data, and which are near, mid and far."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caveat._internal.files import read_npy, replacing_file
from caveat.cli._console import console, progress_bar, say
from caveat.cli._named import named_paths
from caveat.outputs import Outputs

if TYPE_CHECKING:
    from caveat.geometry import Proximity

__all__ = ["proximity"]


def proximity(
    inlier: Annotated[Path, typer.Option(help="Outputs with embeddings (or features) of the training data.")],
    outlier: Annotated[list[str], typer.Option(help="The same of another data set: a path, or name=path. Repeat it.")],
    text: Annotated[Path | None, typer.Option(help="Text prototypes, one row per class (.npy).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the grouping.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Table of the distances (.csv).")] = None,
) -> None:
    """Frechet distance, kernel MMD, nearest-centroid and image-text distance of data sets from the inliers.

    All on rows of length one; lower is closer. With three data sets or more they are grouped into near, mid and far.
    """
    from caveat.geometry import buckets
    from caveat.geometry import proximities as run

    with progress_bar() as tell:
        tell("reading the files", 0, 2)
        known = Outputs.load(inlier)
        words = None if text is None else read_npy(text)
        outliers = {name: Outputs.load(path) for name, path in named_paths(outlier, what="outlier").items()}
        tell("measuring distances", 1, 2)
        found = run(inlier=known, outliers=outliers, text=words)
    groups = buckets(found, seed=seed) if len(found) >= 3 else dict.fromkeys(found, "")
    _show(found, groups)
    if out is not None:
        with replacing_file(out) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["set", "frechet", "mmd", "centroid", "text", "n", "bucket"])
            for name, near in found.items():
                cells = [near.frechet, near.mmd, near.centroid, near.text]
                writer.writerow([name, *("" if x is None else repr(x) for x in cells), near.n_outlier, groups[name]])
        say(f"Table: {out}")


def _show(found: dict[str, Proximity], groups: dict[str, str]) -> None:
    from rich.table import Table

    shown = Table()
    for heading in ("set", "Frechet", "MMD", "centroid", "text", "n", "bucket"):
        shown.add_column(heading, justify="left" if heading in ("set", "bucket") else "right")
    for name, near in sorted(found.items(), key=lambda item: item[1].frechet):
        cells = [f"{near.frechet:.4f}", f"{near.mmd:.6f}"]
        cells += ["-" if x is None else f"{x:.4f}" for x in (near.centroid, near.text)]
        shown.add_row(name, *cells, str(near.n_outlier), groups[name])
    console().print(shown)
