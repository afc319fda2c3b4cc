"""Outputs as files of Caveat: one ``.npz``, or a folder of ``.npy`` files that stay memory-mapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import is_folder, npz_names, read_npy, read_npz, replacing_file, write_json
from caveat._internal.folders import ArrayFolder, plain_files
from caveat.errors import InputError
from caveat.outputs.keys import CLASS_NAMES, FIELDS, is_field
from caveat.outputs.outputs import LAYER, Outputs

__all__ = ["FIELDS", "FOLDER", "layer_key", "save_outputs", "stored_arrays", "write_page"]

Array = NDArray[Any]

FOLDER = ArrayFolder(
    page="caveat.json", format="caveat-outputs", version=2, what="Caveat outputs",
    owned=lambda _, name: is_field(unquote(name.removesuffix(".npy"))),
)  # fmt: skip


def save_outputs(outputs: Outputs, target: Path) -> None:
    """Write outputs to an ``.npz`` file or a folder: :meth:`Outputs.save`."""
    arrays = {
        layer_key(key.removeprefix(LAYER)) if key.startswith(LAYER) else key: array
        for key, array in outputs.arrays().items()
    }
    if outputs.class_names is not None:
        arrays[CLASS_NAMES] = np.array(outputs.class_names)
    from caveat.outputs.reading import READ_ONLY

    if target.suffix.lower() in READ_ONLY:
        raise InputError(f"outputs are written as .npz or as a folder, not as {target.suffix}. Choose another name.")
    if target.suffix == ".npz":
        with replacing_file(target) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
        return
    with FOLDER.saving(target) as folder:
        for key, array in arrays.items():
            np.save(folder / f"{key}.npy", array, allow_pickle=False)
        write_page(folder, outputs.n)


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
