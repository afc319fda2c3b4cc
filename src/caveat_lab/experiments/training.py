"""Run a training plan: a model on disk, and its outputs on every set that the plan names."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.files import read_json, write_json
from caveat._internal.streams import stream
from caveat.demo.images import stratified_rows
from caveat.demo.strange import noise, smooth_noise
from caveat.errors import CaveatWarning, InputError
from caveat_lab import data
from caveat_lab.experiments.given_weights import load_weights
from caveat_lab.experiments.overlap import check_images_apart, row_hashes
from caveat_lab.experiments.readiness import check_network, check_splits
from caveat_lab.experiments.train_plan import Source, TrainPlan

if TYPE_CHECKING:
    from caveat_lab.networks.training import Trained

__all__ = ["Training", "fit_to", "run_training"]

MADE_IMAGES = 1000  # of a set of noise, where nothing else is said


@final
@dataclass(frozen=True, eq=False)
class Training:
    """A finished training: the network, and the folders of its outputs by set."""

    trained: Trained
    folder: Path
    outputs: Mapping[str, Path]


def run_training(plan: TrainPlan, out: str | os.PathLike[str], *, progress: bool | None = None) -> Training:
    """Train as the plan says and write into ``out``: ``model.safetensors``, ``model.json``, ``outputs/<set>``.

    Call it again with the same plan and folder to resume; finished parts are kept. Another plan in the same folder is
    refused.
    """
    folder = Path(out)
    trained, parts = train_network(plan, folder, progress=progress)
    folders = {name: folder / "outputs" / name for name in (*plan.sets, *plan.outliers)}
    how = {"mc": plan.mc} if plan.mc else {}
    for name, place in folders.items():
        if not place.exists():
            trained.outputs(inputs_of(plan, name, parts), progress=progress, **how).save(place)
    return Training(trained, folder, folders)


def train_network(
    plan: TrainPlan, folder: Path, *, progress: bool | None = None
) -> tuple[Trained, dict[str, data.Images]]:
    """Train as the plan says, or take its weights, and keep the model in a folder.

    Returns the network, and the images to learn from, to validate on and to test on.
    """
    from caveat_lab.networks import architectures, fit_classifier
    from caveat_lab.networks.training import GOOD, Augmentation, EarlyStopping, make_paradigm, save_model
    from caveat_lab.networks.training.model_folder import load_start

    check_network(plan)
    paradigm = make_paradigm(plan.paradigm, **plan.paradigm_options)
    if plan.start is not None and isinstance(paradigm, GOOD) and paradigm.interval_init:
        raise InputError("paradigm.interval_init draws all weights anew, so nothing of model.start would be left. "
                         "Leave one of them out.")  # fmt: skip
    _claim(folder, plan)
    parts, classes = load_parts(plan)
    if plan.weights is not None:
        _warn_of_seen_rows(plan, Path(plan.weights))
        return load_weights(plan, shape_of(parts["train"].pixels), classes), parts
    train = parts["train"]
    pixels = train.inputs()
    normalize = None
    if plan.normalize:
        normalize = (pixels.mean(axis=(0, 2, 3)).tolist(), pixels.std(axis=(0, 2, 3)).tolist())
    architecture = {
        "name": plan.model,
        "in_shape": list(pixels.shape[1:]),
        "classes": classes,
        "normalize": normalize,
        **plan.model_options,
    }
    model = architectures.make(**architecture, seed=plan.seed, build=plan.builder())
    if plan.start is not None:
        load_start(model, plan.start, new_head=plan.new_head, build=plan.builder())
        _warn_of_seen_rows(plan, Path(plan.start))
    trained = fit_classifier(
        model,
        (train.pixels if train.pixels.dtype == np.uint8 else pixels, train.labels),
        paradigm,
        outliers=_exposure(plan, pixels),
        validation=(parts["validation"].inputs(), parts["validation"].labels),
        n_classes=classes,
        early_stopping=None if plan.early_stopping is None else EarlyStopping(**plan.early_stopping),
        augment=None if plan.augment is None else Augmentation(**plan.augment),
        checkpoint=folder / "checkpoint",
        seed=plan.seed,
        threads=plan.threads,
        progress=progress,
        **plan.training,
    )
    about = {"classes": list(train.classes), "plan": plan.as_dict()}
    save_model(trained, folder, architecture=architecture, about=about)
    return trained, parts


def inputs_of(plan: TrainPlan, name: str, parts: Mapping[str, data.Images]) -> Any:
    """What a network is asked about one set: inputs and labels of a part of the data, or inputs of an outlier set."""
    if name not in plan.outliers:
        return parts[name].inputs(), parts[name].labels
    source = plan.outliers[name]
    channels, height, width = shape_of(parts["train"].pixels)
    pixels = _outliers(source, parts, (plan.seed, sum(name.encode())))
    if source.made:  # of images that are small already
        return fit_to(pixels, (channels, height, width))
    return shrunk(fit_to(pixels, (channels, height * plan.shrink, width * plan.shrink)), plan.shrink)


def shape_of(pixels: NDArray[Any]) -> tuple[int, int, int]:
    """Channels, height and width of what a network reads of these images.

    >>> shape_of(np.zeros((5, 8, 9))), shape_of(np.zeros((5, 8, 9, 3)))
    ((1, 8, 9), (3, 8, 9))
    """
    return (1, *pixels.shape[1:]) if pixels.ndim == 3 else (pixels.shape[3], *pixels.shape[1:3])


def load_parts(plan: TrainPlan) -> tuple[dict[str, data.Images], int]:
    """Images to learn from, to validate on and to test on, and the number of classes."""
    images = _prepared(load_images(plan.train, seed=plan.seed), plan)
    order = np.random.default_rng(plan.seed).permutation(len(images))
    parts = {}
    if isinstance(plan.test, float):
        cut = round(plan.test * len(images))
        parts["test"], order = images[order[:cut]], order[cut:]
    elif plan.test is not None:
        if plan.train.join:
            raise InputError("data.test must be a share where data.join names several sets, got a split.")
        check_splits(plan)
        test = load_images(Source(name=plan.train.name, path=plan.train.path, split=plan.test))
        parts["test"] = _prepared(test, plan)
    if "test" in plan.sets and "test" not in parts:
        raise InputError("outputs.sets has 'test', but data.test names no split and no share. Add it.")
    cut = max(1, round(plan.validation * order.size))
    parts["validation"], parts["train"] = images[order[:cut]], images[order[cut:]]
    for name, part in parts.items():
        if not len(part):
            raise InputError(f"the {name} part of the data is empty. Give it more images.")
    _check_classes(parts)
    if isinstance(plan.test, str):
        hashes = {"data.train": row_hashes(images.pixels), "data.test": row_hashes(parts["test"].pixels)}
        check_images_apart(hashes)
    return parts, int(images.labels.max()) + 1


def _check_classes(parts: Mapping[str, data.Images]) -> None:
    """Raise InputError where a class has no image to learn from."""
    held_out = np.concatenate([part.labels for name, part in parts.items() if name != "train"])
    kinds, counts = np.unique(held_out, return_counts=True)
    absent = np.flatnonzero(~np.isin(kinds, parts["train"].labels))
    if absent.size:
        label, rows = kinds[absent[0]], counts[absent[0]]
        more = f" (and {absent.size - 1} more)" if absent.size > 1 else ""
        raise InputError(f"class {label}{more} has no image to learn from: all {rows} of it are held out for "
                         "validation or test. Raise data.limit, or lower data.validation or data.test.")  # fmt: skip


def load_images(source: Source, *, seed: int = 0) -> data.Images:
    """Images by name or path; a source with a limit gives a sample of them that depends on the seed only."""
    return _whole(source, seed) if source.limit is None else _sample(source, seed, _state(source))


def _state(source: Source) -> tuple[Any, ...]:
    """What the answer of a reader depends on beside the source: the folders of the data, and when a file changed."""
    changed = os.stat(source.path).st_mtime_ns if source.path and os.path.exists(source.path) else 0
    return (os.environ.get("CAVEAT_DATA", ""), changed, *map(_state, source.join))


@lru_cache(maxsize=64)  # small, and asked for by every network of a study
def _sample(source: Source, seed: int, state: tuple[Any, ...]) -> data.Images:
    assert source.limit is not None
    images = _whole(source, seed)
    return images[limited_rows(images, source.limit, seed=seed)]


def _whole(source: Source, seed: int) -> data.Images:
    if source.join:
        return _joined([load_images(part, seed=seed) for part in source.join])
    if source.name:
        return data.load(source.name, source.split)
    if source.path:
        return data.read(source.path, source.split)
    raise InputError("data must have a name or a path. Add one.")


def _joined(parts: list[data.Images]) -> data.Images:
    """Several sets as one: images as those of the first, classes numbered one set after the other."""
    first = parts[0]
    pixels, labels, names, offset = [], [], [], 0
    for part in parts:
        if part.pixels.shape[1:] != first.pixels.shape[1:] or part.pixels.dtype != first.pixels.dtype:
            raise InputError(f"joined images must have one shape and type, got {first.pixels.shape[1:]} "
                             f"{first.pixels.dtype} and {part.pixels.shape[1:]} {part.pixels.dtype}.")  # fmt: skip
        kinds, numbers = np.unique(part.labels, return_inverse=True)
        pixels.append(part.pixels)
        labels.append(numbers + offset)
        names += [part.classes[kind] if part.classes else f"{kind}" for kind in kinds]
        offset += kinds.size
    return data.Images(np.concatenate(pixels), np.concatenate(labels), tuple(names))


def _prepared(images: data.Images, plan: TrainPlan) -> data.Images:
    """The images in the shape and size that the plan names."""
    if plan.shape is None and plan.shrink == 1:
        return images
    values = images.inputs() if plan.shape is None else fit_to(images.pixels, plan.shape)
    values = np.moveaxis(shrunk(values, plan.shrink), 1, 3)
    return data.Images(values[..., 0] if values.shape[3] == 1 else values, images.labels, images.classes)


def shrunk(inputs: NDArray[np.float32], factor: int) -> NDArray[np.float32]:
    """Images (n, channels, height, width) with sides divided by a factor: each pixel is the mean of a square.

    Examples
    --------
    >>> shrunk(np.array([[[[0, 1], [1, 2]]]], dtype=np.float32), 2).tolist()
    [[[[1.0]]]]
    """
    n, channels, height, width = inputs.shape
    if height % factor or width % factor:
        raise InputError(f"data.shrink must divide the sides of the images ({height} x {width}), got {factor}. "
                         "Set data.shape to pad them.")  # fmt: skip
    if factor == 1:
        return inputs
    squares = inputs.reshape(n, channels, height // factor, factor, width // factor, factor)
    return np.asarray(squares.mean(axis=(3, 5)))


def limited_rows(images: data.Images, limit: int, *, seed: int) -> NDArray[np.intp]:
    """Which rows a limit keeps: drawn, because files may be grouped by class."""
    return stratified_rows(images.labels, limit, stream(seed, "limit"))


def fit_to(pixels: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Images as inputs of a network of another size: channels as brightness or repeated, sides cropped or padded.

    Brightness is 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601). The middle is kept; what is added around it is 0.

    Examples
    --------
    >>> fit_to(np.full((2, 32, 32, 3), 255, dtype=np.uint8), (1, 28, 28)).shape
    (2, 1, 28, 28)
    >>> fit_to(np.ones((2, 16, 16)), (3, 28, 28)).mean().round(4)  # 256 of 784 pixels
    np.float32(0.3265)
    """
    values = data.Images(pixels, np.zeros(len(pixels), dtype=np.intp)).inputs()
    channels = shape[0]
    if values.shape[1] == 3 and channels == 1:
        values = np.einsum("nchw,c->nhw", values, np.array([0.299, 0.587, 0.114], dtype=np.float32))[:, None]
    elif values.shape[1] == 1 and channels > 1:
        values = np.repeat(values, channels, axis=1)
    if values.shape[1] != channels:
        raise InputError(f"images with {values.shape[1]} channels cannot become images with {channels}.")
    for axis, size in ((2, shape[1]), (3, shape[2])):
        spare = values.shape[axis] - size
        if spare > 0:
            values = values.take(range(spare // 2, spare // 2 + size), axis=axis)
        elif spare < 0:
            around = [(0, 0)] * 4
            around[axis] = (-spare // 2, -spare - -spare // 2)
            values = np.pad(values, around)
    return np.ascontiguousarray(values)


def made_images(kind: str, like: data.Images, n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Outliers of one of the kinds of ``MADE``: n images of noise, or changed images."""
    if kind in ("uniform_noise", "smooth_noise"):
        height, width, *channels = like.pixels.shape[1:]
        make = noise if kind == "uniform_noise" else smooth_noise
        return make(n, rng, height=height, width=width, channels=channels[0] if channels else None)
    change = getattr(data, kind)
    return change(like.pixels) if kind == "inverted" else change(like.pixels, rng)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def _drawn(source: Source, seed: tuple[int, int], state: tuple[Any, ...]) -> NDArray[Any]:
    """Outliers of a source with a limit: small, and asked for by every network of a study."""
    images = load_images(replace(source, limit=None), seed=seed[0])
    assert source.limit is not None
    return images.pixels[stratified_rows(images.labels, source.limit, np.random.default_rng(list(seed)))]


def _outliers(source: Source, parts: Mapping[str, data.Images], seed: tuple[int, int]) -> NDArray[Any]:
    if not source.made:
        if source.limit is None:
            return load_images(source, seed=seed[0]).pixels
        return _drawn(source, seed, _state(source))
    rng = np.random.default_rng(list(seed))
    n, like = source.limit or MADE_IMAGES, parts.get("test", parts["validation"])
    if not source.made.endswith("noise"):
        like = like[stratified_rows(like.labels, n, rng)]
    return made_images(source.made, like, n, rng)


def _exposure(plan: TrainPlan, pixels: NDArray[np.float32]) -> Any:
    """What the paradigm may learn outliers from: kinds that are made on the way, or images of another set."""
    if not plan.exposure:
        return None
    if isinstance(plan.exposure, Source):
        return fit_to(load_images(plan.exposure, seed=plan.seed).pixels, tuple(pixels.shape[1:]))
    from caveat_lab.networks.training.outlier_mix import OutlierMix
    from caveat_lab.networks.training.rows import as_inputs

    return OutlierMix(as_inputs(pixels, "images"), plan.exposure)


def _warn_of_seen_rows(plan: TrainPlan, start: Path) -> None:
    """Where the start learned from the same images divided in another way, it has seen some that are held out now."""
    if not (start / "plan.json").exists():
        return
    before, now = read_json(start / "plan.json"), json.loads(json.dumps(plan.as_dict()))
    same = all(before["train"].get(key) == now["train"][key] for key in ("name", "path", "split"))
    if same and any(before.get(key) != now[key] for key in ("train", "validation", "test", "seed")):
        warnings.warn(f"{start} was trained on images of the same set, divided by another seed or share, so it has "
                      "seen images that this plan holds out: validation and test flatter the model. Use the same seed, "
                      "limit, validation and test in both plans.", CaveatWarning, stacklevel=3)  # fmt: skip


def _claim(folder: Path, plan: TrainPlan) -> None:
    """Leave the plan in the folder; refuse a folder that has another one."""
    content = json.loads(json.dumps(plan.as_dict()))
    path = folder / "plan.json"
    if path.exists():
        before = read_json(path)
        if differing := sorted(key for key in content | before if content.get(key) != before.get(key)):
            raise InputError(f"{folder} holds a training of another plan ({differing[0]}). Choose another folder.")
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, content)
