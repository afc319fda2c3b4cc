"""Vectors of another encoder for the distances of a study: image embeddings of each set, and of the class names.

A source names the files in its table ``embeddings``: ``train``, each outlier set by its name, and ``text``. A ``.npy``
file holds the rows; any other file is read as outputs with ``embeddings``. Text embeddings are one row per class, or
one matrix of prompts per class, which is averaged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import check_known, check_same
from caveat._internal.files import read_npy
from caveat.errors import InputError
from caveat.evaluation.parts import Parts
from caveat.outputs import Outputs
from caveat.outputs.keys import as_slice
from caveat.outputs.outputs import demand
from caveat.outputs.reading import load_outputs
from caveat_lab.experiments.cells import Cell
from caveat_lab.experiments.loading import naming

__all__ = [
    "TEXT", "TRAIN", "Vectors", "check_files", "check_names", "file_role", "read_embeddings", "vectors_of",
]  # fmt: skip

TEXT, TRAIN = "text", "train"


@final
@dataclass(frozen=True, eq=False)
class Vectors:
    """What the distances of one source are measured on."""

    space: str  # "embeddings" or "features"
    inlier: NDArray[Any]
    labels: NDArray[np.intp] | None
    outliers: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    text: NDArray[Any] | None = None


def file_role(name: str) -> str:
    """The role of a file of embeddings in a cell."""
    return f"embeddings:{name}"


def check_names(names: Collection[str], outliers: Collection[str] | None, path: str) -> None:
    """Raise InputError for a set that the source does not have, or where only some sets have a file.

    ``outliers`` is None where a task makes them: then they are checked when they are there.
    """
    if not names:
        return
    if outliers is not None:
        for taken in {TEXT, TRAIN} & set(outliers):
            raise InputError(f"an outlier set of a source with embeddings cannot be called '{taken}'. Rename it.")
        for name in names:
            check_known(name, (TRAIN, TEXT, *outliers), f"set in {path}")
    images = set(names) - {TEXT}
    lacking = sorted({TRAIN, *(outliers or ())} - images)
    if images and lacking:
        raise InputError(f"{path} must name image embeddings of the training data and of every outlier set, or of "
                         f"none; {', '.join(lacking)} is missing. Add it.")  # fmt: skip


def vectors_of(parts: Parts, cell: Cell) -> Vectors | None:
    """Vectors from the files that a cell names, or from the outputs; None where not all sets have some."""
    how: Mapping[str, Any] = cell.params.get("embeddings", {})
    files = {name: Path(cell.paths[file_role(name)]) for name in how}
    check_names(list(how), list(parts.outliers), f"embeddings of {cell.params['source']}")
    text = _text(files[TEXT], how[TEXT]) if TEXT in files else None
    if TRAIN in files:
        images = {name: _images(path, how[name]) for name, path in files.items() if name != TEXT}
        train = images.pop(TRAIN)
        outliers = {name: np.asarray(images[name].embeddings) for name in parts.outliers}
        vectors = Vectors(
            "embeddings", np.asarray(train.embeddings), _labels(train, parts, files[TRAIN]), outliers, text
        )
    else:
        sides = [] if parts.train is None else [parts.train, *parts.outliers.values()]
        # One space for all: one set may have embeddings that the others lack.
        allowed = ("embeddings",) if text is not None else ("embeddings", "features")
        space = next((name for name in allowed if sides and all(side.has(name) for side in sides)), None)
        if text is not None and space is None:
            raise InputError(f"text embeddings of {cell.params['source']} compare with image embeddings of the same "
                             "encoder, which its outputs lack. Add files for train and every outlier set.")  # fmt: skip
        if parts.train is None or space is None or not parts.outliers:
            return None
        outliers = {name: getattr(side, space) for name, side in parts.outliers.items()}
        vectors = Vectors(space, getattr(parts.train, space), parts.train.labels, outliers, text)
    if text is not None and vectors.labels is not None:
        classes = int(vectors.labels.max()) + 1
        if parts.train is not None and (known := parts.train.n_classes):
            classes = max(classes, known)
        elif len(text) > classes:  # the training rows may lack the last classes
            classes = len(text)
        _check_text(files[TEXT], text, classes)
    return vectors


def check_files(files: Mapping[str, Path], how: Mapping[str, Any], n_classes: Callable[[], int]) -> None:
    """Raise InputError where files of embeddings do not belong to a network that is still to be trained.

    Its training rows are in an order that depends on the seed, so the classes of the embeddings must be with them.

    Parameters
    ----------
    files, how
        Name of the set -> its file, and how that is read.
    n_classes
        Gives the number of classes of the data; called only where there is text.
    """
    if TRAIN not in files:
        raise InputError(f"{files[TEXT]} compares with image embeddings of the same encoder, which a network "
                         "of a matrix does not give. Add files for train and every outlier set.")  # fmt: skip
    widths = {}
    for name, path in files.items():
        rows = _text(path, how[name]) if name == TEXT else np.asarray(_images(path, how[name]).embeddings)
        widths[str(path)] = rows.shape[-1]
        if name == TRAIN and not _images(path, how[name]).has("labels"):
            raise InputError(f"{path} must have labels: the training rows of a network of a matrix are in an order of "
                             "their own. Store embeddings and labels in an .npz or .csv file.")  # fmt: skip
        if name == TEXT:
            _check_text(path, rows, n_classes())
    check_same("width", **widths)


def _check_text(path: Path, text: NDArray[Any], classes: int) -> None:
    if len(text) != classes:
        raise InputError(f"{path} must hold one text embedding per class, got {len(text)} for {classes} classes. "
                         "Check the file.")  # fmt: skip


def read_embeddings(path: Path, *, keys: Mapping[str, str] | None = None, rows: str = "") -> Outputs:
    """Outputs with embeddings, and labels where the file has some: a ``.npy`` file of rows, or any file of outputs."""
    if path.suffix != ".npy":
        return demand(load_outputs(path, keys=keys or {}, rows=rows), "embeddings", who=str(path))
    if keys:
        raise InputError(f"{path} holds one array without a name, so keys cannot be given for it. Take them out.")
    with naming(path):
        outputs = Outputs(embeddings=read_npy(path))
    kept = outputs[as_slice(rows, "rows")] if rows else outputs
    if not kept.n:
        raise InputError(f"rows '{rows}' of {path} keep none of its {outputs.n} rows. Choose others.")
    return kept


def _images(path: Path, how: Mapping[str, Any]) -> Outputs:
    return read_embeddings(path, keys=how.get("keys"), rows=how.get("rows", ""))


def _text(path: Path, how: Mapping[str, Any]) -> NDArray[Any]:
    """Of a ``.npy`` file also one matrix of prompts per class."""
    if path.suffix == ".npy" and not how.get("keys") and (array := read_npy(path)).ndim == 3:
        kept = array[as_slice(how["rows"], "rows")] if how.get("rows") else array
        if not len(kept):
            raise InputError(f"rows '{how['rows']}' of {path} keep none of its {len(array)} rows. Choose others.")
        return kept
    return np.asarray(_images(path, how).embeddings)


def _labels(train: Outputs, parts: Parts, path: Path) -> NDArray[np.intp] | None:
    """Classes of the training embeddings: their own, or those of the training outputs if these are the same rows."""
    if train.has("labels"):
        return np.asarray(train.labels)
    if parts.train is None or not parts.train.has("labels"):
        return None
    if parts.train.n != train.n:
        raise InputError(f"{path} has {train.n} rows and the training outputs {parts.train.n}, so the classes of its "
                         "rows are not known. Store labels with the embeddings (.npz).")  # fmt: skip
    return np.asarray(parts.train.labels)
