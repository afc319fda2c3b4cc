"""The networks of a matrix as cells: one that trains, and one for each way to ask the network that extracts outputs.

The key of a training depends on what the weights depend on: the plan of the training without its outlier sets, the
seed, and the image files: the content of files, and names and sizes of the images of a folder. The files of held-out
images and of outlier sets belong to the key of the outputs. Weights stay in ``models/KEY`` of the store, outputs in
``outputs/KEY``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from caveat._internal.files import is_folder
from caveat.errors import InputError
from caveat.evaluation.parts import Parts
from caveat.evaluation.records import Record
from caveat_lab.data.finding import files_at, files_of
from caveat_lab.experiments.cells import Cell
from caveat_lab.experiments.fingerprints import fingerprint
from caveat_lab.experiments.given_weights import load_weights
from caveat_lab.experiments.loading import naming
from caveat_lab.experiments.matrix import Network
from caveat_lab.experiments.overlap import check_images_apart, row_hashes
from caveat_lab.experiments.store import Store
from caveat_lab.experiments.train_plan import Source, TrainPlan

__all__ = ["NetworkParams", "TrainParams", "cells_of", "extract_network", "network_is_sound", "plan_of", "train_cell"]

_FOLDER, _WEIGHTS = "folder", "model.safetensors"


@final
@dataclass(frozen=True)
class TrainParams:
    """Parameters of the cell ``train``: a training plan without outlier sets."""

    plan: Mapping[str, Any]


@final
@dataclass(frozen=True)
class NetworkParams:
    """Parameters of the cell ``outputs`` of a network: the training plan, and how many dropout passes are averaged."""

    source: str
    plan: Mapping[str, Any]
    passes: int = 0
    keep_passes: bool = False


def cells_of(
    network: Network, seed: int, folder: Path, label: str, seen: dict[Path, str], *, keep_passes: bool
) -> tuple[Cell, Cell]:
    """The training and the extraction of a network; ``seen`` keeps fingerprints of files for the next network."""
    content, plan = plan_of(network, seed, folder)
    held_out = [replace(plan.train, split=plan.test, limit=None)] if isinstance(plan.test, str) else []
    alone = {key: value for key, value in content.items() if key != "outputs"}
    place = {_FOLDER: str(folder)}
    own = _prints([plan.train, *([plan.exposure] if isinstance(plan.exposure, Source) else [])], seen)
    if plan.model_file:
        own["network"] = fingerprint(Path(plan.model_file))
    own |= {key: _weights_print(path) for key, path in (("start", plan.start), ("weights", plan.weights)) if path}
    trained = " ".join(label.replace(f"/{network.passes} passes", "").split())
    train = Cell("train", asdict(TrainParams(alone)), seed, own, place, f"{trained} training")
    params = NetworkParams(network.name, content, network.passes, keep_passes and network.passes > 0)
    outside = _prints([*held_out, *plan.outliers.values()], seen)
    return train, Cell("outputs", asdict(params), seed, outside, place, f"{label} outputs", train.key)


def plan_of(network: Network, seed: int, folder: Path) -> tuple[dict[str, Any], TrainPlan]:
    """The training plan of a network and a seed, as a file would have it and as it is read."""
    content: dict[str, Any] = json.loads(json.dumps({**network.training, "seed": seed}))
    for key in ("start", "weights"):
        if key in content["model"]:
            content["model"][key] = content["model"][key].replace("{seed}", str(seed))
    with naming(network.name):
        plan = TrainPlan.from_dict(content, folder=folder)
        if plan.test is None:
            raise InputError("data.test is missing: a study measures on held-out images. Name a split or a share.")
    return content, plan


def train_cell(params: TrainParams, cell: Cell, store: Store) -> list[Record]:
    """Train the network into the store. It has nothing to measure yet: the epochs are in its ``model.json``."""
    from caveat_lab.experiments.training import train_network

    folder = store.model(cell.key)
    plan = TrainPlan.from_dict(params.plan, folder=cell.paths[_FOLDER])
    train_network(plan, folder, progress=False)
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)  # larger than the model, and of no use after it
    return []


def extract_network(params: NetworkParams, cell: Cell, store: Store) -> Parts:
    """What a trained network says about training, validation and test images and about every outlier set."""
    import numpy as np

    from caveat.nn._walk import as_device
    from caveat_lab.experiments.training import inputs_of, load_parts, shape_of
    from caveat_lab.networks.training import dropout_mean, load_model

    plan = TrainPlan.from_dict(params.plan, folder=cell.paths[_FOLDER])
    parts, classes = load_parts(plan)
    if plan.weights is None:
        trained = load_model(store.model(cell.needs), build=plan.builder())
    else:
        trained = load_weights(plan, shape_of(parts["train"].pixels), classes)
    if trained.n_classes != classes:
        raise InputError(f"the network knows {trained.n_classes} classes and the data have {classes}. Give others.")
    if (device := plan.training.get("device")) is not None:
        trained.model.to(as_device(device))
    roles = {"train": "train", "calibration": "validation", "inlier": "test"}
    rng = np.random.default_rng(cell.seed)

    images: dict[str, list[int]] = {}

    def ask(name: str) -> Any:
        inputs = inputs_of(plan, name, parts)
        images[name] = row_hashes(inputs if name in plan.outliers else inputs[0])
        if not params.passes:
            return trained.outputs(inputs)
        return dropout_mean(trained, inputs, passes=params.passes, keep=params.keep_passes, rng=rng)

    with _threads(plan.threads):
        own = {role: ask(name) for role, name in roles.items()}
        outliers = {name: ask(name) for name in plan.outliers}
    own_images = {name: images[name] for name in roles.values()}
    check_images_apart(own_images, {name: images[name] for name in plan.outliers})
    return Parts(**own, outliers=outliers)


def network_is_sound(folder: Path) -> bool:
    """Whether a trained network is there; one that was given lies elsewhere, and only the plan is here."""
    if (folder / _WEIGHTS).exists():
        return True
    try:
        content = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(content.get("weights"))


def _threads(number: int | None) -> Any:
    from caveat.nn._modes import thread_count

    return thread_count(number)


def _prints(sources: Iterable[Source], seen: dict[Path, str]) -> dict[str, str]:
    """What stands in the files that images come from, by data set and split or by the name of the file."""
    prints: dict[str, str] = {}
    for source in sources:
        prints |= _prints(source.join, seen)
        if source.name:
            for i, path in enumerate(files_of(source.name, source.split)):
                prints[f"{source.name} {source.split or ''} {i}"] = _print(path, seen)
        elif source.path:
            for path in files_at(Path(source.path)):
                name, content = path.name, _print(path, seen)
                while prints.get(name, content) != content:  # another file of this name in another folder
                    name += "+"
                prints[name] = content
    return prints


def _print(path: Path, seen: dict[Path, str]) -> str:
    """SHA-256 of a file, or of the listing of a folder; ``seen`` keeps it, as many networks read the same files."""
    if path not in seen:
        seen[path] = _listing(path) if is_folder(path) else fingerprint(path)
    return seen[path]


def _listing(folder: Path) -> str:
    """Of a folder of images: names and sizes, and the content of texts, such as lists of classes.

    Reading all images would take as long as the study.
    """
    lines = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = f" {fingerprint(path)}" if path.suffix == ".txt" else ""
        lines.append(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}{content}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _weights_print(path: str) -> str:
    place = Path(path)
    return fingerprint(place / _WEIGHTS if is_folder(place) else place)
