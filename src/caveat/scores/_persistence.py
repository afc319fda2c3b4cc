"""Fitted scores as files: one JSON page and one ``.npy`` file per array. No pickle, so a loaded score can run no code.

The page holds the name of the score, its parameters and its learned attributes (those that end in ``_``). Numbers are
written so that they come back bit for bit; arrays are named with their shape, type and checksum, and the page has a
checksum of its own.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import check_known
from caveat._internal.files import is_folder, read_npy, write_json
from caveat._internal.folders import ArrayFolder, page_checksum
from caveat._internal.params import parameters
from caveat.errors import InputError, NotFittedError
from caveat.scores._base import Score

_FOLDER = ArrayFolder(
    page="score.json", format="caveat-score", version=2, what="a saved score",
    owned=lambda page, name: f'"file": {json.dumps(name)}' in json.dumps(page),
)  # fmt: skip
_DAMAGED = "Save the score again."
_SMALL = 16 * 2**20  # bytes; a smaller array is read, a larger one stays in its file


def save(score: Score, folder: str | os.PathLike[str]) -> None:
    """Write a fitted score to a folder, whole or not at all.

    A folder that ``save`` wrote before is replaced; files in it that are not Caveat's stay.
    """
    if score.fits_on and not hasattr(score, "fitted_"):
        raise NotFittedError(f"{type(score).__name__} has not seen training data. Call fit(train) before save(...).")
    with _FOLDER.saving(folder) as temporary:
        page = {"format": _FOLDER.format, "version": _FOLDER.version, **_describe(score, temporary, prefix="")}
        write_json(temporary / _FOLDER.page, page | {"crc32": page_checksum(page)})


def load(folder: str | os.PathLike[str], *, check: bool = True) -> Score:
    """Read a score that ``save`` wrote; it gives the same scores, bit for bit.

    Large arrays stay in their files and are read when they are used.

    Parameters
    ----------
    folder
        The folder that was passed to ``save``.
    check
        Compare every array with its checksum, which reads it once. ``False`` opens a large bank without reading it.

    Returns
    -------
    Score
        The fitted score.

    Examples
    --------
    >>> import tempfile
    >>> from caveat import Outputs
    >>> from caveat.scores import KNN, load
    >>> knn = KNN(k=1).fit(Outputs(features=[[1.0, 0.0], [0.0, 1.0]]))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     knn.save(f"{place}/knn")
    ...     load(f"{place}/knn").score(Outputs(features=[[1.0, 1.0]])).round(3)
    array([0.765])
    """
    source = Path(folder)
    if not is_folder(source):
        raise InputError(f"{source} is not a folder with a saved score. Give the folder that was passed to save.")
    return _FOLDER.reading(source, lambda page, files: _read(source / _FOLDER.page, page, files, check=check))


def _read(path: Path, page: Mapping[str, Any], files: Mapping[str, Path], *, check: bool) -> Score:
    score = Reader(path, files, check=check).score(page)
    if "crc32" in page and page["crc32"] != page_checksum(page):  # older pages have none
        raise InputError(f"{path} is damaged (its checksum is not that of its content). {_DAMAGED}")
    return score


def _describe(score: Score, folder: Path, *, prefix: str) -> dict[str, Any]:
    """Name, parameters and learned attributes of a score; its arrays go to files whose names start with ``prefix``."""
    kind = next((name for name, listed in _classes().items() if listed is type(score)), None)
    if kind is None:
        raise InputError(f"{type(score).__name__} is not in the catalogue of scores, so a saved copy could not be read "
                         "back.")  # fmt: skip
    names = {
        "parameters": [field.name for field in parameters(score)],
        "learned": [name for name in vars(score) if _is_learned(name)],
    }
    pages = {
        part: {key: encode(getattr(score, key), f"{type(score).__name__}.{key}", folder, prefix + key) for key in keys}
        for part, keys in names.items()
    }
    return {"score": kind, **pages}


def _is_learned(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")


def encode(value: Any, what: str, folder: Path, stem: str) -> Any:
    """A JSON value from which ``Reader.decode`` makes ``value`` again. Anything but plain JSON is a tagged object."""
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, np.str_):
        return str(value)
    if type(value) is float:
        return value if np.isfinite(value) else {"is": "float", "value": repr(value)}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return {"is": "number", "dtype": value.dtype.str, "value": value.tobytes().hex()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return _write_array(value, folder, stem)
    if isinstance(value, Score):
        return {"is": "score", **_describe(value, folder, prefix=f"{stem}.")}
    raise InputError(f"{what} is a {type(value).__name__}, which cannot be saved without pickle; arrays, numbers, "
                     "strings and other scores can. Keep the training outputs and fit again.")  # fmt: skip


def _write_array(array: NDArray[Any], folder: Path, stem: str) -> dict[str, Any]:
    file = f"{stem}.npy"
    np.save(folder / file, array, allow_pickle=False)
    crc = _checksum(read_npy(folder / file))
    return {"is": "array", "file": file, "shape": list(array.shape), "dtype": array.dtype.str, "crc32": crc}


def _checksum(array: NDArray[Any]) -> int:
    """CRC-32 of the values in row order, read block by block."""
    crc = 0
    rows = array.reshape(array.shape[0] if array.ndim else 1, -1) if array.size else array.reshape(0, 1)
    for block in row_blocks(rows.shape[0], row_bytes=rows.shape[1] * array.itemsize):
        crc = zlib.crc32(np.ascontiguousarray(rows[block]).data, crc)
    return crc


class Reader:
    """Makes scores from the page and the files of a folder, and trusts neither."""

    def __init__(self, page: Path, files: Mapping[str, Path], *, check: bool) -> None:
        self.page, self.files, self.check = page, files, check

    def score(self, page: Mapping[str, Any]) -> Score:
        kind, values, learned = page.get("score"), page.get("parameters"), page.get("learned")
        if not isinstance(kind, str) or not isinstance(values, dict) or not isinstance(learned, dict):
            raise InputError(f"{self.page} is damaged (no score, parameters or learned in it). {_DAMAGED}")
        classes = _classes()
        try:
            score_class = classes[check_known(kind, classes, "score")]
        except InputError as error:
            raise InputError(f"{self.page}: {error} It may come from a newer Caveat.") from None
        current = parameters(score_class)
        moved = [field for field in fields(score_class) if field not in current and values.get(field.name) is not None]  # type: ignore[arg-type]
        allowed = {field.name for field in fields(score_class)}  # type: ignore[arg-type]
        unknown = sorted(set(values) - allowed) + sorted(key for key in learned if not _is_learned(key))
        if unknown:
            raise InputError(f"{self.page} is damaged ({score_class.__name__} has no {unknown[0]!r}). {_DAMAGED}")
        try:
            decoded = {key: self.decode(value) for key, value in values.items()}
            score = score_class(**{field.name: decoded[field.name] for field in current if field.name in decoded})
            for field in moved:
                # Kept without a warning, for a fingerprint that depends on it; the user did not choose it now.
                setattr(score, field.name, field.metadata["check"](decoded[field.name], field.name))
        except InputError as error:
            raise InputError(f"{self.page}: {error}") from None
        except TypeError as error:
            raise InputError(f"{self.page} is damaged ({error}). {_DAMAGED}") from None
        for key, value in learned.items():
            setattr(score, key, self.decode(value))
        return score

    def decode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        try:
            kind = value["is"]
            if kind == "float":
                return float(value["value"])
            if kind == "number":
                return np.frombuffer(bytes.fromhex(value["value"]), dtype=np.dtype(value["dtype"]))[0]
            if kind == "array":
                return self.array(str(value["file"]), tuple(value["shape"]), str(value["dtype"]), value["crc32"])
            if kind == "score":
                return self.score(value)
        except InputError:
            raise
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise InputError(f"{self.page} is damaged ({type(error).__name__}: {error}). {_DAMAGED}") from None
        raise InputError(f"{self.page} is damaged (a value of unknown kind {kind!r}). {_DAMAGED}")

    def array(self, file: str, shape: tuple[int, ...], dtype: str, crc: int) -> NDArray[Any]:
        if file not in self.files:
            raise InputError(f"{self.page} names the file {file!r}, which is not in its folder. {_DAMAGED}")
        path = self.files[file]
        array = read_npy(path)
        if array.shape != shape or array.dtype.str != dtype:
            raise InputError(f"{path} must hold an array of shape {shape} and type {dtype} as {self.page.name} says, "
                             f"got {array.shape} and {array.dtype.str}. {_DAMAGED}")  # fmt: skip
        if self.check and _checksum(array) != crc:
            raise InputError(f"{path} is damaged (its checksum is not that of {self.page.name}). {_DAMAGED}")
        return np.array(array) if array.nbytes <= _SMALL else array


def _classes() -> dict[str, type[Score]]:
    # Here and not above: both modules know every score, and every score knows the base that calls save.
    from caveat.scores.catalogue import catalogue
    from caveat.scores.projected import Projected
    from caveat.scores.tempered import Tempered

    return {entry.name: entry.score for entry in catalogue()} | {"projected": Projected, "tempered": Tempered}
