"""Rows that arrive batch by batch and become Outputs: in memory, or in files beyond a bound.

A file grows by appending, so the number of rows need not be known and no page of it is held in memory. Arrays whose
first axis counts passes (mc_logits, ease_probs) grow as one file per pass and are joined at the end.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
import weakref
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, final
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_labels
from caveat._internal.files import read_npy
from caveat.errors import CaveatWarning, InputError
from caveat.outputs import Head, Outputs
from caveat.outputs.files import FOLDER, layer_key, stored_arrays, write_page

Array = NDArray[Any]

LAYER = "layer:"  # in front of the name of a layer among the keys of a part
PASSES = ("mc_logits", "ease_probs")


@final
class Rows:
    """Collects parts of Outputs. Use it as a context, ``add`` the parts, then ``finish``.

    Beyond ``bound`` bytes everything moves to files in a temporary folder that is removed with the arrays. The folder
    ``out`` is written from the first row on.
    """

    def __init__(self, *, bound: float, out: Path | None) -> None:
        if out is not None and out.suffix == ".npz":
            raise InputError(f"out must be a folder, which grows row by row, got {out}. "
                             "For one file call .save on the result.")  # fmt: skip
        self.n = 0
        self._bound, self._out = bound, out
        self._bytes = 0
        self._like: dict[str, tuple[int, ...]] = {}
        self._held: dict[str, list[Array]] = {}
        self._files: dict[str, list[_File]] = {}
        self._folder: Path | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if self._out is not None:
            self._folder = self._open.enter_context(FOLDER.saving(self._out))
        return self

    def __exit__(self, *failure: Any) -> None:
        for files in self._files.values():
            for file in files:
                file.abandon()
        self._open.__exit__(*failure)
        if self._out is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, part: Mapping[str, Array]) -> None:
        """Take one batch: keys of Outputs, or ``layer:<name>``; rows in order."""
        shapes = {key: array.shape[2 if key in PASSES else 1 :] for key, array in part.items()}
        self._like = self._like or shapes
        if set(shapes) != set(self._like):
            raise InputError("every batch must have labels, or none; some batches had none.")
        for key, shape in shapes.items():
            if shape != self._like[key]:
                raise InputError(f"every batch must give rows of the same shape, got {key} rows of {shape} after "
                                 f"{self._like[key]}. Resize the inputs, or pool the layer.")  # fmt: skip
        self.n += part["logits"].shape[0]
        if self._folder is not None:
            self._write(part)
            return
        for key, array in part.items():
            self._held.setdefault(key, []).append(array)
        self._bytes += sum(array.nbytes for array in part.values())
        if self._bytes > self._bound:
            self._folder = Path(tempfile.mkdtemp(prefix="caveat-"))
            for arrays in zip(*self._held.values(), strict=True):
                self._write(dict(zip(self._held, arrays, strict=True)))
            self._held.clear()

    def finish(self, head: Head | None) -> Outputs:
        """The Outputs of all rows so far."""
        if self._folder is None:
            arrays = {
                key: np.concatenate(self._held.pop(key), axis=1 if key in PASSES else 0) for key in list(self._held)
            }
            return as_outputs(arrays, head)
        folder = self._folder
        keys = {key: _file_key(key) for key in self._files}
        for key, files in self._files.items():
            _join(files, folder / f"{keys[key]}.npy", stacked=key in PASSES)
        if self._out is not None:
            if head is not None:
                np.save(folder / "head_weight.npy", head.weight, allow_pickle=False)
                np.save(folder / "head_bias.npy", head.bias, allow_pickle=False)
            write_page(folder, self.n)
            self._open.close()  # the folder takes its final name
            stored, _ = stored_arrays(self._out, lambda _: True, check=False)
            maps = {key: stored[unquote(name)] for key, name in keys.items()}
        else:
            maps = {key: read_npy(folder / f"{name}.npy") for key, name in keys.items()}
            for key, array in maps.items():
                weakref.finalize(array._mmap, _remove, folder / f"{keys[key]}.npy")  # type: ignore[attr-defined]
            self._folder = None
        self._files.clear()
        return as_outputs(maps, head)

    def _write(self, part: Mapping[str, Array]) -> None:
        assert self._folder is not None
        for key, array in part.items():
            passes = list(array) if key in PASSES else [array]
            if key not in self._files:
                self._files[key] = [_File(self._folder / f"{_file_key(key)}.{i}.part", p) for i, p in enumerate(passes)]
            for file, rows in zip(self._files[key], passes, strict=True):
                file.append(rows)


@final
class _File:
    """A ``.npy`` file that grows along its first axis."""

    def __init__(self, path: Path, like: Array) -> None:
        self.path, self.n, self.tail, self.dtype = path, 0, like.shape[1:], like.dtype
        self._stream = path.open("wb", buffering=2**20)
        self.header = self._write_header((0, *self.tail))

    def _write_header(self, shape: tuple[int, ...]) -> int:
        self._stream.seek(0)
        return _write_header(self._stream, self.dtype, shape)

    def append(self, rows: Array) -> None:
        self._stream.write(np.ascontiguousarray(rows, dtype=self.dtype).data)
        self.n += rows.shape[0]

    def close(self) -> None:
        if not self._stream.closed:
            header = self._write_header((self.n, *self.tail))
            assert header == self.header
            self._stream.close()

    def abandon(self) -> None:
        """Close a file that is removed next, even on a full disk."""
        with suppress(OSError):
            self._stream.close()


def _write_header(stream: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    """Write the header of a ``.npy`` file, whose length does not depend on the number of rows, and return its end."""
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return int(stream.tell())


def _join(files: list[_File], target: Path, *, stacked: bool) -> None:
    """One file from the only one, or from all passes, stacked along a new first axis."""
    for file in files:
        file.close()
    if not stacked:
        files[0].path.replace(target)
        return
    first = files[0]
    with target.open("wb") as stream:
        shape = (len(files), first.n, *first.tail)
        _write_header(stream, first.dtype, shape)
        for file in files:
            with file.path.open("rb") as source:
                source.seek(file.header)
                shutil.copyfileobj(source, stream, 2**20)
            file.path.unlink()


def _file_key(key: str) -> str:
    return layer_key(key.removeprefix(LAYER)) if key.startswith(LAYER) else key


def as_outputs(arrays: Mapping[str, Array], head: Head | None) -> Outputs:
    """Outputs of arrays whose rows were already checked."""
    layers = {key.removeprefix(LAYER): array for key, array in arrays.items() if key.startswith(LAYER)}
    fields: dict[str, Any] = {key: array for key, array in arrays.items() if not key.startswith(LAYER)}
    return Outputs(**fields, layers=layers, head=head, check=False)


def check_part(part: Mapping[str, Array], *, row: int, batch: int, half: bool) -> None:
    """Raise InputError naming the first row of a batch with NaN or an infinity.

    ``row``: rows before this batch. ``half``: the arrays were narrowed to float16.
    """
    for key, array in part.items():
        finite = np.isfinite(array)
        if finite.all():
            continue
        by_row = np.moveaxis(finite, 1 if key in PASSES else 0, 0)
        bad = int(np.flatnonzero(~by_row.reshape(by_row.shape[0], -1).all(axis=1))[0])
        name = f"layers[{key.removeprefix(LAYER)!r}]" if key.startswith(LAYER) else key
        what = "NaN" if np.isnan(array[~finite][0]) else "an infinite value"
        remedy = "Look for such values in the input, or for an overflow in the model"
        if half and what != "NaN":
            remedy = "Its values are too large for float16: use float32"
        raise InputError(f"{name} has {what}, first at row {row + bad} (row {bad} of batch {batch}). {remedy}.")


def first_of(batch: Any) -> tuple[Any, Any]:
    """The inputs of a batch, and its second entry or None."""
    inputs, *rest = batch if isinstance(batch, (tuple, list)) and batch else (batch,)
    return inputs, rest[0] if rest else None


def labels_of(truth: Any, n: int, classes: int, *, batch: int) -> NDArray[np.intp] | None:
    """The labels of a batch of n rows, which must be classes that the model has; None where there are no numbers."""
    if (array := numbers(truth)) is None:
        if batch == 0 and (text := _first_text(truth)) is not None:
            message = (
                f"the batches hold text where labels may be ({text!r}), which is not stored. Encode the names of "
                "classes as 0..C-1; labels=False leaves labels out."
            )
            warnings.warn(message, CaveatWarning, stacklevel=2)
        return None
    try:
        return class_numbers(array, "labels", n=n, classes=classes)
    except InputError as error:
        raise InputError(f"batch {batch}: {error} labels=False ignores the labels of the batches.") from None


def _first_text(value: Any) -> str | None:
    parts = value if isinstance(value, (list, tuple)) or hasattr(value, "tolist") else [value]
    first = next(iter(parts), None) if np.ndim(parts) == 1 else None
    return str(first) if isinstance(first, str) else None


def class_numbers(value: Any, name: str, *, n: int, classes: int | None = None) -> NDArray[np.intp]:
    """Class numbers (n,) from whole numbers of any type, (n,) or (n, 1), or from one-hot rows (n, K).

    >>> class_numbers([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], "labels", n=2)
    array([1, 0])
    """
    array = numbers(value)
    if array is None:
        raise InputError(f"{name} must be numbers of classes, got a {type(value).__name__}. Encode names as 0..C-1.")
    if array.shape == (n, 1):
        array = array[:, 0]
    if array.ndim == 2 and len(array) == n:
        if not (np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all()):
            soft = (array >= 0).all() and np.allclose(array.sum(axis=1), 1, atol=1e-2)
            what = "soft labels, which name no true class to count errors against" if soft else "other numbers"
            raise InputError(f"{name} must be one class number per row, or one-hot rows with a single 1, got a matrix "
                             f"{array.shape} of {what}.")  # fmt: skip
        if classes not in (None, array.shape[1]):
            raise InputError(f"{name} must be one-hot rows of {classes} classes, got {array.shape[1]} columns.")
        array = array.argmax(axis=1)
    if array.shape != (n,):
        raise InputError(f"{name} must be one class number for each of {n} rows, got shape {array.shape}.")
    return as_labels(array.astype(np.int8) if array.dtype.kind == "b" else array, name, n_classes=classes)


def numbers(value: Any) -> Array | None:
    """An array of numbers, from a tensor on any device too; None for anything else."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.double() if value.is_floating_point() else value  # numpy does not have all of torch's types
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # rows of several lengths
        return None
    return array if array.dtype.kind in "iubf" else None


def _remove(path: Path) -> None:
    """A temporary file, and its folder once that is empty."""
    path.unlink(missing_ok=True)
    with suppress(OSError):  # other files are still in use
        path.parent.rmdir()
