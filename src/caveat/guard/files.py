"""A guard as files: the JSON and ``.npy`` format of fitted scores, with the SHA-256 of every file. No pickle.

The folder is immutable; what changes while a guard is watched goes to a folder of its own (``Watch.save``). Loading
trusts nothing: keys and classes come from fixed tables, files from the folder itself, and every file must have the
digest that the page lists.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from caveat._internal.checks import as_kind
from caveat._internal.classes import as_class_names
from caveat._internal.files import is_folder, write_json
from caveat._internal.folders import PAGE_KEY, ArrayFolder, check_digest, check_page_seal, sealed
from caveat.conformal import SplitSets
from caveat.errors import InputError
from caveat.evaluation.findings import versions
from caveat.guard.domain import Domain
from caveat.guard.guard import Guard
from caveat.guard.statistic import Statistic
from caveat.results import Promise
from caveat.scores._persistence import Reader, encode

FOLDER = ArrayFolder(
    page="guard.json", format="caveat-guard", version=2, what="a saved guard", owned=lambda _, __: False
)
_DAMAGED = "Save the guard again."
_SETTINGS = ("sets", "false_alarm", "risk", "alpha", "delta", "combine", "outside")
_KEYS = {"format", "version", "settings", "scores", "confidence", "references", "calibration_scores", "watched", "sets",
         "threshold", "accept_below", "promises", "splits", "calibrated_at", "fingerprint", "versions", "sha256",
         "class_names", "domain", "crc32", PAGE_KEY}  # fmt: skip


def save(guard: Guard, folder: str | os.PathLike[str]) -> None:
    """Write a calibrated guard to a folder; the write is atomic."""
    with FOLDER.saving(folder) as staged:

        def put(value: Any, name: str) -> Any:
            return encode(value, f"the guard's {name}", staged, name)

        page = {
            "format": FOLDER.format,
            "version": FOLDER.version,
            "settings": {name: getattr(guard, name) for name in _SETTINGS},
            "scores": [put(score, f"score{i}") for i, score in enumerate(guard.scores_)],
            "confidence": put(guard.confidence_, "confidence"),
            "references": [put(array, f"reference{i}") for i, array in enumerate(guard.statistic_.references)],
            "calibration_scores": put(guard.calibration_scores_, "calibration_scores"),
            "domain": guard.domain_.to_dict(),
            "watched": {name: put(array, f"watched-{name}") for name, array in guard.watched_.items()},
            "sets": None if guard.sets_ is None else {
                "scores": put(guard.sets_.grouped_.scores, "set_scores"), "n_classes": guard.sets_.n_classes_},
            "threshold": put(guard.threshold_, "threshold"),
            "accept_below": put(guard.accept_below_, "accept_below"),
            "promises": [{field.name: _plain(getattr(promise, field.name)) for field in fields(Promise)}
                         for promise in guard.promises_],
            "splits": guard.splits_,
            "calibrated_at": guard.calibrated_at_,
            "fingerprint": guard.fingerprint,
            "versions": dict(versions()),
        }  # fmt: skip
        if guard.class_names_ is not None:  # a guard without names stays readable by earlier versions
            page["class_names"] = list(guard.class_names_)
        write_json(staged / FOLDER.page, sealed(page, staged))


def load(folder: str | os.PathLike[str]) -> Guard:
    """Read a guard that ``save`` wrote."""
    source = Path(folder)
    if not is_folder(source):
        raise InputError(
            f"{source} is not a folder with a saved guard. Give a folder that caveat guard fit or Guard.save wrote."
        )
    if not (source / FOLDER.page).exists():
        raise InputError(f"{source} is not a guard: there is no {FOLDER.page} in it. Give a folder that "
                         "caveat guard fit or Guard.save wrote.")  # fmt: skip
    return FOLDER.reading(source, lambda page, files: _read(source / FOLDER.page, page, files))


def _read(path: Path, page: Mapping[str, Any], files: Mapping[str, Path]) -> Guard:
    if page.get("version") == 1:
        raise InputError(
            f"{path} has thresholds of an earlier Caveat, whose scores were not rounded until equal inputs "
            "tie. Calibrate the guard again."
        )
    unknown = sorted(set(page) - _KEYS)
    if unknown:
        raise InputError(f"{path} has the unknown key {unknown[0]!r}. It may come from a newer Caveat.")
    digests = check_page_seal(path, dict(page), files, _DAMAGED)
    for name, file in files.items():
        if file.is_symlink() or not file.is_file():
            raise InputError(f"{file} is not a plain file. {_DAMAGED}")
        check_digest(file, digests[name], _DAMAGED)
    try:
        return _made(page, Reader(path, files, check=True))
    except InputError as error:
        raise InputError(str(error) if str(path) in str(error) else f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise InputError(f"{path} is damaged ({type(error).__name__}: {error}). {_DAMAGED}") from None


def _made(page: Mapping[str, Any], reader: Reader) -> Guard:
    settings, sets = page["settings"], page["sets"]
    if set(settings) != set(_SETTINGS):
        raise InputError(f"the settings must be {', '.join(_SETTINGS)}, got {', '.join(settings)}. {_DAMAGED}")
    scores = [reader.score(entry) for entry in page["scores"]]
    guard = Guard(scores, confidence=reader.score(page["confidence"]), **settings)
    guard.statistic_ = Statistic(guard.scores_, tuple(_vector(reader, entry) for entry in page["references"]),
                                 guard.combine)  # fmt: skip
    if len(guard.statistic_.references) != (len(scores) if len(scores) > 1 else 0):
        raise InputError(f"{len(scores)} scores need a reference each where there are several. {_DAMAGED}")
    if page.get("class_names") is not None:
        guard.class_names_ = as_class_names([as_kind(name, str, "a class name") for name in page["class_names"]]).names
    guard.keep_calibration(_vector(reader, page["calibration_scores"]))
    guard.watched_ = {str(name): _vector(reader, entry) for name, entry in page["watched"].items()}
    domain = page["domain"]
    guard.domain_ = Domain(
        {str(name): int(width) for name, width in domain["columns"].items()},
        tuple(domain["shares"]),
        {str(key): np.dtype(kind).name for key, kind in domain["floats"].items()},
    )
    guard.sets_ = None
    if sets is not None and guard.sets is not None:
        kept = SplitSets(guard.sets, alpha=guard.alpha)
        guard.sets_ = kept.restore(_vector(reader, sets["scores"]), sets["n_classes"])
        guard.sets_.class_names_ = guard.class_names_
        if guard.class_names_ is not None and len(guard.class_names_) != guard.sets_.n_classes_:
            raise InputError(f"{guard.sets_.n_classes_} classes have {len(guard.class_names_)} names. {_DAMAGED}")
    guard.threshold_ = float(reader.decode(page["threshold"]))
    accept_below = reader.decode(page["accept_below"])
    guard.accept_below_ = None if accept_below is None else float(accept_below)
    guard.promises_ = [Promise(**entry) for entry in page["promises"]]
    guard.splits_, guard.calibrated_at_ = dict(page["splits"]), str(page["calibrated_at"])
    if guard.fingerprint != page["fingerprint"]:
        raise InputError(f"the fingerprint is not that of the content. {_DAMAGED}")
    return guard


def _vector(reader: Reader, entry: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = reader.decode(entry)
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != np.float64 or not array.size:
        raise InputError(f"a list of scores must be a vector of float64, got {type(array).__name__}. {_DAMAGED}")
    if np.isnan(array).any():
        raise InputError(f"a list of scores has NaN. {_DAMAGED}")
    return array


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
