"""Outputs as files of Caveat: one ``.npz``, or a folder of ``.npy`` files that stay memory-mapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import is_folder, npz_names, read_npy, read_npz, replacing_file, write_json
from caveat._internal.folders import ArrayFolder, check_digest, check_page_seal, plain_files, sealed
from caveat.errors import InputError
from caveat.outputs.keys import CLASS_NAMES, FIELDS, is_field
from caveat.outputs.outputs import LAYER, Outputs

__all__ = ["FIELDS", "FOLDER", "layer_key", "save_outputs", "stored_arrays", "write_page"]

Array = NDArray[Any]

FOLDER = ArrayFolder(
    page="caveat.json", format="caveat-outputs", version=3, what="Caveat outputs",
    owned=lambda _, name: is_field(unquote(name.removesuffix(".npy"))),
)  # fmt: skip
_SEALED = 3  # the first version whose page has digests
_DAMAGED = "Save it again."


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
    """Mark a folder of ``.npy`` files as Outputs of n samples, with the SHA-256 of each file."""
    page = {"format": FOLDER.format, "version": FOLDER.version, "n": n}
    write_json(folder / FOLDER.page, sealed(page, folder))


def stored_arrays(
    source: Path, wanted: Callable[[str], bool], *, check: bool = True
) -> tuple[dict[str, Array], list[str]]:
    """Wanted arrays of an ``.npz`` file or a folder by key, and the names of the others, which are not read.

    ``check``: whether each wanted array of a folder is read once, to compare it with its recorded SHA-256.
    """
    if not is_folder(source):
        keys = {unquote(name): name for name in npz_names(source)}
        stored = read_npz(source, [name for key, name in keys.items() if wanted(key)])
        return {key: stored[name] for key, name in keys.items() if wanted(key)}, sorted(
            key for key in keys if not wanted(key)
        )

    def read(page: dict[str, Any], paths: dict[str, Path]) -> tuple[dict[str, Array], list[str]]:
        keys = {unquote(name.removesuffix(".npy")): file for name, file in paths.items()}
        if page.get("version", 0) >= _SEALED or "crc32" in page:
            digests = check_page_seal(source / FOLDER.page, page, paths, _DAMAGED)
            for name, file in paths.items():
                if check and wanted(unquote(name.removesuffix(".npy"))):
                    check_digest(file, digests[name], _DAMAGED)
        arrays = {key: read_npy(file) for key, file in keys.items() if wanted(key)}
        return arrays, sorted({key for key in keys if key not in arrays} | set(FOLDER.strangers(source, page)))

    if (source / FOLDER.page).exists():
        return FOLDER.reading(source, read)
    return read({}, plain_files(source))  # made by hand
