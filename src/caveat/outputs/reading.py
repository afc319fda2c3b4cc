"""Outputs from a file of any format: which fields it holds, and the arrays of the wanted ones.

============================  =========================================================================================
``.npz``, folder of ``.npy``  arrays by name, as ``Outputs.save`` writes them
``.safetensors``, ``.pt``     tensors by name; ``.pt`` needs torch
``.csv``, ``.tsv``            columns with a header
``.parquet``, ``.arrow``,     columns, or columns of lists; need pyarrow
``.feather``
============================  =========================================================================================
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, final
from urllib.parse import unquote

from numpy.typing import NDArray

from caveat._internal.files import is_folder, npz_shapes
from caveat.errors import CaveatWarning, InputError
from caveat.outputs.files import stored_arrays
from caveat.outputs.head import Head
from caveat.outputs.keys import CLASS_NAMES, FIELDS, as_slice, check_fields, class_columns, columns_of_fields
from caveat.outputs.outputs import LAYER, Outputs
from caveat.outputs.tables import ARROW, PARQUET, ArrowTable, ParquetTable, Table
from caveat.outputs.tensor_files import SAFETENSORS, TORCH, read_safetensors, read_torch
from caveat.outputs.text_tables import TEXT, TextTable

__all__ = ["ArrayFile", "StoredFile", "TableFile", "load_head", "load_outputs", "made_outputs", "open_file"]

Array = NDArray[Any]
Fields = dict[str, tuple[str, ...]]  # field -> its columns, or its array

_TABLES: dict[str, Callable[[Path], Table]] = {
    **dict.fromkeys(PARQUET, ParquetTable), **dict.fromkeys(ARROW, ArrowTable), **dict.fromkeys(TEXT, TextTable),
}  # fmt: skip
_TENSORS = {**dict.fromkeys(SAFETENSORS, read_safetensors), **dict.fromkeys(TORCH, read_torch)}
READ_ONLY = (*_TABLES, *_TENSORS)  # suffixes that Caveat reads and does not write
_NO_NAME = "(a column without a name)"  # such as the index that pandas writes
_MOST_NAMED = 10  # names in a warning


class StoredFile(Protocol):
    """A file that is open: names and shapes are known, values are read on demand."""

    path: Path
    is_table: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays or columns."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Name -> shape of every array or column."""

    def fields(self, keys: Mapping[str, str] | None = None, optional: Collection[str] = ()) -> Fields:
        """Which arrays or columns are which field: see :func:`caveat.outputs.keys.columns_of_fields`."""

    def shape(self, field: str, columns: tuple[str, ...]) -> tuple[int, ...]:
        """Shape of a field."""

    def read(self, fields: Fields, rows: slice) -> tuple[dict[str, Array], slice]:
        """The arrays of the fields, and the rows that are still to be chosen from them."""


@final
class ArrayFile:
    """Arrays by name: ``.npz``, a folder of ``.npy`` files, ``.safetensors`` or ``.pt``."""

    is_table = False

    def __init__(self, path: Path, *, check: bool = True) -> None:
        self.path, self._check = path, check
        self._tensors = None if (read := _TENSORS.get(_suffix(path))) is None else read(path)

    @cached_property
    def names(self) -> tuple[str, ...]:
        if self._tensors is not None:
            return tuple(self._tensors)
        return tuple(stored_arrays(self.path, lambda _: False)[1])

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        if self._tensors is not None:
            return {name: array.shape for name, array in self._tensors.items()}
        if is_folder(self.path):
            return {
                name: array.shape for name, array in stored_arrays(self.path, lambda _: True, check=False)[0].items()
            }
        return {unquote(name): shape for name, shape in npz_shapes(self.path).items()}

    def fields(self, keys: Mapping[str, str] | None = None, optional: Collection[str] = ()) -> Fields:
        return columns_of_fields(self.names, keys, table=False, where=self.path, optional=optional)

    def shape(self, field: str, columns: tuple[str, ...]) -> tuple[int, ...]:
        return self.shapes[columns[0]]

    def read(self, fields: Fields, rows: slice) -> tuple[dict[str, Array], slice]:
        names = {field: columns[0] for field, columns in fields.items()}
        stored = self._tensors
        if stored is None:
            stored = stored_arrays(self.path, set(names.values()).__contains__, check=self._check)[0]
        for name in names.values():
            if name not in stored:  # another file of the folder
                raise InputError(f"{self.path} has no array '{name}'. It has {_listed(sorted(stored)) or 'none'}.")
        return {field: stored[name] for field, name in names.items()}, rows


@final
class TableFile:
    """A table, one row per sample."""

    is_table = True

    def __init__(self, path: Path) -> None:
        self.path, self.table = path, _TABLES[_suffix(path)](path)
        self._classes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return self.table.shapes

    def fields(self, keys: Mapping[str, str] | None = None, optional: Collection[str] = ()) -> Fields:
        lists = {name for name in self.table.names if self.table.width(name) is not None}
        fields = columns_of_fields(
            self.table.names, keys, table=True, where=self.path, optional=optional, lists=lists
        )  # fmt: skip
        for field in {"logits", "probs"} & set(fields):
            self._classes = class_columns((keys or {}).get(field, f"{field}*"), fields[field])
        return fields

    def shape(self, field: str, columns: tuple[str, ...]) -> tuple[int, ...]:
        return self.table.shape(field, columns)

    def read(self, fields: Fields, rows: slice) -> tuple[dict[str, Array], slice]:
        wanted = range(self.table.n)[rows]
        if not wanted:
            raise InputError(f"{self.path} has no rows to read (it has {self.table.n}). Choose others.")
        return _with_class_names(self.table.read(fields, wanted), self._classes), slice(None)


def open_file(path: Path, *, check: bool = True) -> StoredFile:
    """Open a file or folder; its suffix says what it is. ``check``: compare arrays that are read with their digests."""
    if _suffix(path) == ".npy" and path.is_file():
        raise InputError(f"{path} is one array, and its name does not say which field it is. Save it with a name: "
                         f"np.savez('{path.stem}.npz', logits=array).")  # fmt: skip
    return ArrayFile(path, check=check) if is_folder(path) or _suffix(path) not in _TABLES else TableFile(path)


def load_outputs(
    source: Path,
    *,
    keys: Mapping[str, str] | None = None,
    rows: str = "",
    optional: Collection[str] = (),
    class_names: Iterable[Any] | None = None,
    head: Head | None = None,
    check: bool = True,
) -> Outputs:
    """Read a file: :meth:`Outputs.load`.

    ``optional`` fields may be missing though ``keys`` names them. ``head`` is for a file that holds none.
    """
    chosen = as_slice(rows, "rows") if rows else slice(None)
    check_fields(keys or {}, "keys")
    file = open_file(source, check=check)
    fields = file.fields(keys, optional)
    if not fields:
        raise InputError(f"{source} holds none of the keys {', '.join(FIELDS)}; found "
                         f"{_listed(list(file.names)) or 'nothing'}. Rename its arrays, or name them: "
                         "keys={'logits': NAME}, --key logits=NAME.")  # fmt: skip
    used = {column for columns in fields.values() for column in columns}
    if not keys and (unknown := sorted(name or _NO_NAME for name in file.names if name not in used)):
        warnings.warn(f"{source}: ignored unknown keys {_listed(unknown)}.", CaveatWarning, stacklevel=3)
    arrays, left = file.read(fields, chosen)
    outputs = made_outputs(arrays, source, class_names=class_names, head=head, check=check)
    if left == slice(None):
        return outputs
    part = outputs[left]
    if not part.n:
        raise InputError(f"rows '{rows}' of {source} keep none of its {outputs.n} samples. Choose others.")
    return part


def load_head(path: Path, keys: Mapping[str, str] | None = None) -> Head:
    """The last linear layer in a file, which may hold anything else: outputs, or the weights of a whole network.

    ``load_head(Path("model.safetensors"), {"head_weight": "fc.weight", "head_bias": "fc.bias"})``
    """
    file, keys = open_file(path), keys or {}
    names = {name: keys.get(name, name) for name in ("head_weight", "head_bias")}
    wanted: Fields = {
        name: (key,) for name, key in names.items() if key in file.names or name in keys or name == "head_weight"
    }
    for key in (columns[0] for columns in wanted.values()):
        if key not in file.names:
            raise InputError(f"{path} has no array '{key}'. It has {_listed(sorted(file.names)) or 'none'}.")
    stored, _ = file.read(wanted, slice(None))
    try:
        return Head(stored["head_weight"], stored.get("head_bias"))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def made_outputs(
    arrays: Mapping[str, Array], source: Path, *, class_names: Iterable[Any] | None = None, head: Head | None = None,
    check: bool = True,
) -> Outputs:  # fmt: skip
    """Outputs from arrays by their key in a file, which errors name. Class names in the file say its own order."""
    plain: dict[str, Any] = {key: array for key, array in arrays.items() if not key.startswith(LAYER)}
    layers = {key.removeprefix(LAYER): array for key, array in arrays.items() if key.startswith(LAYER)}
    weight, bias = plain.pop("head_weight", None), plain.pop("head_bias", None)
    if bias is not None and weight is None:
        raise InputError(f"{source} has head_bias but no head_weight. Store both, or neither.")
    try:
        head = head if weight is None else Head(weight, bias)
        own = plain.pop(CLASS_NAMES, None)
        made = Outputs(**plain, head=head, layers=layers, class_names=class_names if own is None else own, check=check)
        return made if own is None or class_names is None else made.with_class_names(class_names)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _with_class_names(arrays: dict[str, Array], columns: tuple[str, ...]) -> dict[str, Any]:
    """The names of class columns are those of the classes if labels and predictions are text and among them."""
    texts = [arrays[field] for field in ("labels", "predictions") if field in arrays]
    if len(columns) < 2 or not texts or not all(column.dtype.kind in "OU" for column in texts):
        return arrays
    names = {name for column in texts for name in column.tolist()}
    return arrays | {"class_names": columns} if names <= set(columns) else arrays


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
