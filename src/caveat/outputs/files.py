"""Outputs as files: one ``.npz``, or a folder of ``.npy`` files that stay memory-mapped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import is_folder, npz_names, read_npy, read_npz, replacing_file, write_json
from caveat._internal.folders import ArrayFolder, plain_files
from caveat.errors import CaveatWarning, InputError
from caveat.outputs.head import Head
from caveat.outputs.outputs import LAYER, SAMPLE_AXIS, Outputs

__all__ = ["FIELDS", "FOLDER", "layer_key", "load_outputs", "save_outputs", "stored_arrays", "write_page"]

Array = NDArray[Any]

FIELDS = (*SAMPLE_AXIS, "head_weight", "head_bias")
NAMES = "class_names"  # a vector of text, not an array of the model
FOLDER = ArrayFolder(
    page="caveat.json", format="caveat-outputs", version=2, what="Caveat outputs",
    owned=lambda _, name: _is_field(unquote(name.removesuffix(".npy"))),
)  # fmt: skip


def save_outputs(outputs: Outputs, target: Path) -> None:
    """Write outputs to an ``.npz`` file or a folder: :meth:`Outputs.save`."""
    arrays = {
        layer_key(key.removeprefix(LAYER)) if key.startswith(LAYER) else key: array
        for key, array in outputs.arrays().items()
    }
    if outputs.class_names is not None:
        arrays[NAMES] = np.array(outputs.class_names)
    if target.suffix == ".npz":
        with replacing_file(target) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        return
    with FOLDER.saving(target) as folder:
        for key, array in arrays.items():
            np.save(folder / f"{key}.npy", array, allow_pickle=False)
        write_page(folder, outputs.n)


def load_outputs(source: Path, *, check: bool = True) -> Outputs:
    """Read an ``.npz`` file or a folder: :meth:`Outputs.load`."""
    arrays, unknown = stored_arrays(source, _is_field)
    if not arrays:
        raise InputError(f"{source} holds none of the keys {', '.join(FIELDS)}; "
                         f"found {', '.join(unknown) or 'nothing'}. Rename its arrays.")  # fmt: skip
    if unknown:
        warnings.warn(f"{source}: ignored unknown keys {', '.join(unknown)}.", CaveatWarning, stacklevel=3)
    if "head_bias" in arrays and "head_weight" not in arrays:
        raise InputError(f"{source} has head_bias but no head_weight. Store both, or neither.")
    layers = {key.removeprefix(LAYER): arrays.pop(key) for key in list(arrays) if key.startswith(LAYER)}
    weight, bias = arrays.pop("head_weight", None), arrays.pop("head_bias", None)
    try:
        head = None if weight is None else Head(weight, bias)
        return Outputs(**arrays, head=head, layers=layers, check=check)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def layer_key(name: str) -> str:
    """Key of a layer in a file, without signs that a file name cannot hold."""
    return LAYER + quote(name, safe="")


def write_page(folder: Path, n: int) -> None:
    """Mark a folder of ``.npy`` files as Outputs of n samples."""
    write_json(folder / FOLDER.page, {"format": FOLDER.format, "version": FOLDER.version, "n": n})


def stored_arrays(source: Path, wanted: Callable[[str], bool]) -> tuple[dict[str, Array], list[str]]:
    """Wanted arrays of an ``.npz`` file or a folder by key, and the names of the others, which are not read."""
    if not is_folder(source):
        keys = {unquote(name): name for name in npz_names(source)}
        stored = read_npz(source, [name for key, name in keys.items() if wanted(key)])
        return {key: stored[name] for key, name in keys.items() if wanted(key)}, sorted(
            key for key in keys if not wanted(key)
        )

    def read(page: dict[str, Any], paths: dict[str, Path]) -> tuple[dict[str, Array], list[str]]:
        keys = {unquote(name.removesuffix(".npy")): file for name, file in paths.items()}
        arrays = {key: read_npy(file) for key, file in keys.items() if wanted(key)}
        return arrays, sorted({key for key in keys if key not in arrays} | set(FOLDER.strangers(source, page)))

    if (source / FOLDER.page).exists():
        return FOLDER.reading(source, read)
    return read({}, plain_files(source))  # made by hand


def _is_field(key: str) -> bool:
    return key in FIELDS or key == NAMES or key.startswith(LAYER)
