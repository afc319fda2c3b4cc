"""Where rows come from: a folder of ``.npy`` files, Parquet, Zarr, or ``Outputs`` in memory, behind one small protocol.

A source is opened once and sent to workers as its paths; each reads its own row ranges. Values are checked as they are
read, so a file that does not fit into memory needs no walk of its own for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count, as_kind, as_labels, check_finite, check_probabilities
from caveat._internal.classes import as_class_names, read_classes, unordered
from caveat._internal.files import is_folder, read_npy
from caveat._internal.streams import stream
from caveat.errors import InputError
from caveat.outputs import Head, Outputs
from caveat.outputs.keys import CLASS_NAMES
from caveat.outputs.outputs import _with_sources
from caveat.outputs.shapes import CLASS_COLUMNS, LAYER, SAMPLE_AXIS, agree_on_classes

__all__ = ["OutputsSource", "Source", "open_source", "sample"]

ANSWERS = ("labels", "predictions")  # fields that hold classes
NAMES_AT_ONCE = 2**20  # labels that are read together where they are text

_PATCH = 64  # neighboring rows that a sample reads together


@runtime_checkable
class Source(Protocol):
    """Rows that can be read by range, in any process that gets a pickled copy.

    Examples
    --------
    >>> rows = open_source(Outputs(logits=[[2.0, 0.0], [0.0, 1.0]]))
    >>> isinstance(rows, Source), rows.n
    (True, 2)
    """

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Keys of the stored arrays, as in the files of ``Outputs``."""

    def read(self, start: int, stop: int, fields: Iterable[str] | None = None, *, check: bool = True) -> Outputs:
        """Rows from ``start`` up to ``stop`` with what the named fields (default all) are read or made from.

        Parameters
        ----------
        start, stop
            First row, and the row after the last.
        fields
            Fields of ``Outputs``.
        check
            Whether to check the values: NaN, labels, sums of probabilities.

        Returns
        -------
        Outputs
            The rows.
        """


def open_source(
    source: Source | Outputs | str | os.PathLike[str], *, head: Head | None = None,
    class_names: Iterable[Any] | None = None,
) -> Source:  # fmt: skip
    """A source from a path: a folder of ``.npy`` files, a ``.zarr`` folder, a ``.parquet`` file or a folder of them.

    Parameters
    ----------
    source
        A path, ``Outputs`` (also an ``.npz`` file, which is read into memory), or a source, which is returned.
    head
        Last linear layer, for Parquet, whose tables have no place for it. A folder of Parquet files may hold it as
        ``head_weight.npy`` and ``head_bias.npy``.
    class_names
        Names of the classes in the order of the columns, for files whose labels are names and which do not store it.

    Returns
    -------
    Source
        Rows that can be read by range.

    Examples
    --------
    >>> rows = open_source(Outputs(logits=[[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]))
    >>> rows.n, rows.fields, rows.read(1, 3)
    (3, ('logits',), Outputs(n=2, logits 2x2 float64))
    """
    if isinstance(source, Outputs):
        return OutputsSource(source)
    if not isinstance(source, (str, os.PathLike)):
        return as_kind(source, Source, "source", what="a path, Outputs, or a source with n, fields and read")
    path = Path(source)
    names = None if class_names is None else as_class_names(class_names).names
    if path.suffix == ".zarr" or any((path / mark).exists() for mark in ("zarr.json", ".zgroup")):
        from caveat.scale.arrays import open_zarr

        return open_zarr(path, names)
    if path.suffix == ".parquet" or (is_folder(path) and any(path.glob("*.parquet"))):
        from caveat.scale.parquet import open_parquet

        return open_parquet(path, head=head, class_names=names)
    if is_folder(path):
        from caveat.scale.arrays import open_npy_folder

        return open_npy_folder(path, names)
    return OutputsSource(Outputs.load(path, class_names=names))


@final
@dataclass(frozen=True, eq=False)
class OutputsSource:
    """Rows that are in memory already. Another process gets all of them, so use files for large data."""

    outputs: Outputs

    @property
    def n(self) -> int:
        return self.outputs.n

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(key for key in self.outputs.arrays() if not key.startswith("head_"))

    def read(self, start: int, stop: int, fields: Iterable[str] | None = None, *, check: bool = True) -> Outputs:
        return self.outputs[start:stop]  # a view; checked when it was made


def stored_keys(stored: Iterable[str], fields: Iterable[str] | None) -> list[str]:
    """Keys of the arrays that the named fields are read or made from; without any, the first, which counts the rows."""
    keys = list(stored)
    if fields is None:
        return keys
    wanted = _with_sources(fields, keys)
    return [k for k in keys if k in wanted or (k.startswith(LAYER) and "layers" in wanted)] or keys[:1]


def made_outputs(
    arrays: Mapping[str, NDArray[Any]], head: Head | None, *, where: str, start: int, check: bool,
    class_names: tuple[str, ...] | None = None,
) -> Outputs:  # fmt: skip
    """Outputs of the rows that were read; a bad value is reported with the place of its range."""
    layers = {key.removeprefix(LAYER): array for key, array in arrays.items() if key.startswith(LAYER)}
    plain: dict[str, Any] = {key: array for key, array in arrays.items() if not key.startswith(LAYER)}
    try:
        made = Outputs(**plain, head=head, layers=layers, class_names=class_names, check=False)
        if check:  # labels that count from 1 are refused: one range does not show whether they do
            stored = {key: array for key, array in made.arrays().items() if not key.startswith("head_")}
            numbered = {key: plain[key] for key in ANSWERS if key in plain and plain[key].dtype.kind in "iuf"}
            _check_values(stored | numbered, head)
            if not start:  # that logits look like probabilities is said once, of the first rows
                Outputs(**plain, head=head, layers=layers, class_names=class_names)
        return made
    except InputError as error:
        raise InputError(f"{where}, rows counted from {start}: {error}") from None


def names_in(labels: Iterable[NDArray[Any]]) -> tuple[str, ...] | None:
    """Class names of labels that come in parts, sorted; None as soon as a part holds numbers.

    >>> names_in([np.array(["dog", "cat"]), np.array(["eel"])]), names_in([np.array([1, 0])])
    (('cat', 'dog', 'eel'), None)
    """
    names: set[str] = set()
    for part in labels:
        if part.dtype.kind == "b":
            return "False", "True"
        if part.dtype.kind in "iuf":
            return None
        names.update(read_classes({"labels": part}, None, None)[1] or ())
    return tuple(sorted(names)) or None


def check_order(source: Source, names: tuple[str, ...] | None, where: str) -> None:
    """Raise InputError where labels are names, and there are columns for the classes whose order nothing says.

    Parameters
    ----------
    source
        Rows with these labels.
    names
        Names that the labels hold; None where they are numbers.
    where
        The source, for the message.
    """
    if names in (None, ("False", "True")):
        return
    first = source.read(0, 1, CLASS_COLUMNS, check=False)
    if first.has_class_columns:
        raise InputError(f"{where}: {unordered(names or (), first.n_classes or 0)}")


def stored_names(path: Path) -> tuple[str, ...] | None:
    """Class names in ``class_names.npy`` of a folder, in the order of the class numbers."""
    file = path / f"{CLASS_NAMES}.npy"
    return as_class_names(read_npy(file).tolist()).names if file.is_file() else None


@final
@dataclass(frozen=True, eq=False)
class InOrder:
    """A source whose classes are put into the order of ``class_names`` as rows are read."""

    source: Source
    class_names: tuple[str, ...]

    @property
    def n(self) -> int:
        return self.source.n

    @property
    def fields(self) -> tuple[str, ...]:
        return self.source.fields

    def read(self, start: int, stop: int, fields: Iterable[str] | None = None, *, check: bool = True) -> Outputs:
        return self.source.read(start, stop, fields, check=check).with_class_names(self.class_names)


def _check_values(arrays: Mapping[str, NDArray[Any]], head: Head | None) -> None:
    """The checks of ``Outputs`` on values, without its warning. Filters of warnings belong to all threads at once."""
    for key, array in arrays.items():
        if key in ("labels", "predictions"):
            as_labels(array, key, n_classes=agree_on_classes(arrays, head))
            continue
        for part in array if SAMPLE_AXIS.get(key) else (array,):
            check_finite(part, key)
        if key in ("probs", "ease_probs"):
            check_probabilities(array, key)


def sample(
    source: Source | Outputs | str | os.PathLike[str], rows: int, *, seed: int = 0, fields: Iterable[str] | None = None
) -> Outputs:
    """A random sample of rows in memory, for what cannot be fitted by ranges and for calibration.

    The rows are read in patches of 64 neighbors, in order. Shuffle the data once if neighbors resemble each other.

    Parameters
    ----------
    source
        As in ``open_source``.
    rows
        How many; all of them where there are fewer.
    seed
        Draws the patches.
    fields
        Which fields to read; default all.

    Returns
    -------
    Outputs
        The sampled rows, in memory.

    Examples
    --------
    >>> sample(Outputs(confidence=np.arange(1000.0)), 128).n
    128
    """
    rows_from = open_source(source)
    rows = min(as_count(rows, "rows"), rows_from.n)
    starts = np.arange(0, rows_from.n, _PATCH)
    drawn: list[tuple[int, int]] = []
    left = rows
    for start in stream(seed, "sample of a source").permutation(starts).tolist():
        stop = min(start + _PATCH, rows_from.n, start + left)
        drawn.append((start, stop))
        left -= stop - start
        if not left:
            break
    return joined([rows_from.read(start, stop, fields) for start, stop in sorted(drawn)])


def joined(parts: list[Outputs]) -> Outputs:
    """The rows of several ``Outputs`` of one model, one after the other."""
    arrays = [part.arrays() for part in parts]
    keys = [key for key in arrays[0] if not key.startswith("head_")]
    whole = {key: np.concatenate([a[key] for a in arrays], axis=SAMPLE_AXIS.get(key, 0)) for key in keys}
    names = parts[0].class_names
    return made_outputs(whole, parts[0].head, where="sample", start=0, check=False, class_names=names)
