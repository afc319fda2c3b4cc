"""From a plan's source to outputs: files with renamed keys, folders that stay memory-mapped, outputs that a task made.

A process keeps what it has read of the last source, so that the cells of one source read its files once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from caveat._internal.checks import as_kind
from caveat._internal.files import is_folder, read_json, sync, write_json
from caveat._internal.folders import staging
from caveat.errors import InputError
from caveat.evaluation.parts import Parts
from caveat.outputs import Outputs
from caveat.outputs.keys import CLASS_NAMES, FIELDS, as_slice
from caveat.outputs.reading import load_head, load_outputs, made_outputs, open_file
from caveat_lab.experiments.cells import Cell, canonical_json
from caveat_lab.experiments.store import Store

__all__ = [
    "SourceOutputs", "load_source", "made_outputs_are_sound", "parts_of", "save_source",
    "stand_in",
]  # fmt: skip

_OUTLIER, _CONFIRM, _PAGE, _FORMAT = "outlier:", "confirm:", "caveat.json", "caveat-source"
_lock = threading.Lock()
_kept: dict[str, Any] = {"source": None, "files": {}, "apart": set()}


SourceOutputs = Parts  # what a task that makes outputs returns


def stand_in(path: Path, keys: Mapping[str, str], rows: str = "", head_path: Path | None = None) -> Outputs:
    """Outputs of the shapes in a file and without content, to ask which scores could be computed from it.

    Only headers are read (of a text table: how many rows it has), and the arrays take no room: one zero stands for all
    of their elements.
    """
    file = open_file(path)
    arrays: dict[str, Any] = {
        name: np.broadcast_to(
            np.zeros((), dtype=np.intp if name in ("labels", "predictions") else np.float64), file.shape(name, columns)
        )
        for name, columns in file.fields(keys).items()
        if name != CLASS_NAMES
    }
    if head_path is not None and "head_weight" not in arrays:
        arrays["head_weight"] = load_head(head_path).weight
    if not arrays:
        raise InputError(f"{path} holds none of the keys {', '.join(FIELDS)}; found {', '.join(sorted(file.names))}.")
    outputs = made_outputs(arrays, path, check=False)
    if not rows:
        return outputs
    kept = outputs[as_slice(rows, "rows")]
    if not kept.n:
        raise InputError(f"rows '{rows}' of {path} keep none of its {outputs.n} samples. Choose others.")
    return kept


def load_source(cell: Cell, store: Store) -> Parts:
    """The outputs that a cell reads. Those of the last source are kept for the next cell."""
    source = canonical_json([cell.params.get("source"), cell.seed, cell.needs])
    with _lock:
        if _kept["source"] != source:
            _kept.update(source=source, files={}, apart=set())
        if cell.needs:
            outputs = _read_made(store.outputs(cell.needs), _kept["files"])
        else:
            outputs = _read_files(cell, _kept["files"])
        parts = parts_of(outputs).with_one_order()
        if (roles := frozenset(outputs)) not in _kept["apart"]:
            parts.check_apart(warn=False)  # the cell about the model, which reads all roles, warns of a few shared rows
            _kept["apart"].add(roles)
    return parts


def parts_of(by_role: Mapping[str, Outputs]) -> Parts:
    """Parts from outputs by their role; an outlier set's role is ``outlier:name``."""
    sets = {kind: {role.removeprefix(kind): by_role[role] for role in by_role if role.startswith(kind)}
            for kind in (_OUTLIER, _CONFIRM)}  # fmt: skip
    return Parts(
        by_role.get("train"), by_role.get("calibration"), by_role.get("inlier"), sets[_OUTLIER], sets[_CONFIRM]
    )


def save_source(made: Any, folder: Path) -> SourceOutputs:
    """Write what a task made, each set as a folder for memory-mapping. What another run has written is left alone.

    A folder that is damaged is moved out of the way, to ``KEY.damaged-...``.
    """
    sets = SourceOutputs(
        **{name: _part(made, name) for name in ("inlier", "outliers")},
        **{name: _part(made, name, None) for name in ("train", "calibration")},
    )
    as_kind(sets.outliers, Mapping, "outliers of a source", what="a dict of Outputs")
    for role, outputs in sets.roles().items():
        as_kind(outputs, Outputs, f"{role} of a task that makes a source")
    sets.check()
    if made_outputs_are_sound(folder):
        return sets
    with staging(folder.parent) as staged:
        for role, outputs in sets.roles().items():
            outputs.save(staged / quote(role, safe=""))
        write_json(staged / _PAGE, {"format": _FORMAT, "version": 1, "roles": list(sets.roles())})
        try:
            if is_folder(folder) and not made_outputs_are_sound(folder):
                folder.rename(folder.with_name(f"{folder.name}.damaged-{secrets.token_hex(4)}"))
            staged.rename(folder)
        except OSError:  # another run was quicker, and its cells may be reading the same from there
            if not made_outputs_are_sound(folder):
                raise
    sync(folder.parent)
    with _lock:
        _kept.update(source=None, files={})  # it may hold what was there before
    return sets


def made_outputs_are_sound(folder: Path) -> bool:
    """Whether everything that a task made is there and can be opened."""
    try:
        _read_made(folder, {})
    except InputError:
        return False
    return True


def _part(made: Any, name: str, *default: Any) -> Any:
    if isinstance(made, Mapping):
        made = type("Made", (), {str(key): value for key, value in made.items()})
    if not default and not hasattr(made, name):
        raise InputError(f"a task that makes a source must return SourceOutputs with {name}, "
                         f"got {type(made).__name__}.")  # fmt: skip
    return getattr(made, name, *default)


def _read_made(folder: Path, kept: dict[str, Outputs]) -> dict[str, Outputs]:
    if not kept:
        page = read_json(folder / _PAGE)
        if page.get("format") != _FORMAT or not isinstance(page.get("roles"), list):
            raise InputError(f"{folder / _PAGE} does not describe outputs that a task made. Run the study again.")
        for role in map(str, page["roles"]):
            kept[role] = Outputs.load(folder / quote(role, safe=""), check=False)
    return dict(kept)


def _read_files(cell: Cell, kept: dict[str, Outputs]) -> dict[str, Outputs]:
    outputs = {}
    for role, how in cell.params["sets"].items():
        what = canonical_json([role, cell.fingerprints.get(role), cell.fingerprints.get("head"), how])
        if what not in kept:
            kept[what] = _read_set(
                Path(cell.paths[role]), how.get("keys", {}), how.get("rows", ""), cell.paths.get("head", "")
            )
        outputs[role] = kept[what]
    return outputs


def _read_set(path: Path, keys: Mapping[str, str], rows: str, head_path: str) -> Outputs:
    return load_outputs(path, keys=keys, rows=rows, head=load_head(Path(head_path)) if head_path else None)
