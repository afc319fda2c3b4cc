"""``caveat proximity``: how far data sets lie from the training data, and which are near, mid and far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caveat.cli._console import progress_bar, say, show_table
from caveat.cli._files import ClassNames, Keys, Reading, Rows
from caveat.cli._named import named_paths

if TYPE_CHECKING:
    from caveat.outputs import Outputs
    from caveat_lab.geometry import Proximity

__all__ = ["proximity"]


def proximity(
    inlier: Annotated[Path, typer.Option(help="Outputs with embeddings (or features) of the training data; or .npy.")],
    outlier: Annotated[list[str], typer.Option(help="The same of another data set: a path, or name=path. Repeat it.")],
    text: Annotated[
        Path | None, typer.Option(help="Text embeddings (.npy): a row, or a matrix of prompts, per class.")
    ] = None,
    key: Keys = None,
    rows: Rows = None,
    class_names: ClassNames = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the grouping.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Table of the distances (.csv).")] = None,
) -> None:
    """Frechet distance, kernel MMD, nearest-centroid and image-text distance of data sets from the inliers.

    All on rows of length one; lower is closer. With three data sets or more they are grouped into near, mid and far.
    """
    from caveat._internal.files import read_npy
    from caveat._internal.result_tables import write_csv
    from caveat_lab.experiments.embeddings import read_embeddings
    from caveat_lab.geometry import buckets
    from caveat_lab.geometry import proximities as run

    paths = named_paths(outlier, what="outlier")
    reading = Reading.of(key, rows, ["inlier", "outlier", *paths], class_names)

    def read(path: Path, *role: str) -> Outputs:
        if path.suffix != ".npy":
            return reading.load(path, *role)
        names, part = reading.of_file(*role)
        return read_embeddings(path, keys=names, rows=part)

    with progress_bar() as tell:
        tell("reading the files", 0, 2)
        embedded = read(inlier, "inlier")
        words = None if text is None else read_npy(text)
        outliers = {name: read(path, "outlier", name) for name, path in paths.items()}
        tell("measuring distances", 1, 2)
        distances = run(inlier=embedded, outliers=outliers, text=words)
    groups = buckets(distances, seed=seed) if len(distances) >= 3 else dict.fromkeys(distances, "")
    _show(distances, groups)
    if out is not None:
        lines = [
            {"set": name, "frechet": near.frechet, "mmd": near.mmd, "centroid": near.centroid, "text": near.text,
             "n": near.n_outlier, "bucket": groups[name]}
            for name, near in distances.items()
        ]  # fmt: skip
        write_csv(lines, out)
        say(f"Table: {out}")


def _show(distances: dict[str, Proximity], groups: dict[str, str]) -> None:
    rows = []
    for name, near in sorted(distances.items(), key=lambda item: item[1].frechet):
        means = ("-" if x is None else f"{x:.4f}" for x in (near.centroid, near.text))
        rows.append((name, f"{near.frechet:.4f}", f"{near.mmd:.6f}", *means, str(near.n_outlier), groups[name]))
    headings = ("set", "Frechet", "MMD", "centroid", "text", "n", "bucket")
    show_table(headings, rows, right=headings[1:-1])
