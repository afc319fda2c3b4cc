"""Images for certificates: held-out inliers that the network has not seen, and outliers by name, file or recipe."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from caveat._internal.files import read_json
from caveat.demo.strange import MADE
from caveat.errors import CaveatWarning
from caveat_lab.data import KNOWN, Images, load, read
from caveat_lab.data.finding import splits_of
from caveat_lab.experiments.train_plan import Source, TrainPlan
from caveat_lab.experiments.training import MADE_IMAGES, fit_to, limited_rows, load_images, load_parts, made_images

__all__ = ["held_out", "named_images", "outliers_like"]


def named_images(spec: str, split: str | None) -> Images:
    """Images by a name of ``caveat data list``, or from a file or folder."""
    if spec in KNOWN:
        splits, usual = KNOWN[spec].sizes, KNOWN[spec].usual
        return load(spec, split if split in splits or (len(splits) > 1 and not usual) else None)
    if not Path(spec).exists():
        return load(spec, split)  # says which names there are
    return read(spec, split if splits_of(Path(spec)) else None)  # of a file without splits: all


def held_out(model: Path, spec: str, images: Images) -> Images:
    """Of a set without a split of its own for tests, the rows that the plan in the model's folder kept from training.

    The band promises something about further inliers, and needs inliers that the network has not seen.
    """
    if not (model / "plan.json").exists():
        return images
    plan = read_json(model / "plan.json")
    train, test = Source(**plan["train"]), plan["test"]
    if spec != train.name and (not train.path or Path(spec).resolve() != Path(train.path).resolve()):
        return images
    whole = load_images(replace(train, limit=None))
    if not np.array_equal(images.pixels, whole.pixels):
        return images  # another split
    if isinstance(test, float):
        divided = TrainPlan(train=train, validation=plan["validation"], test=test, seed=plan["seed"])
        return load_parts(divided)[0]["test"]
    seen = limited_rows(images, train.limit or len(images), seed=plan["seed"])
    if len(images) > seen.size:
        return images[np.setdiff1d(np.arange(len(images)), seen)]
    warnings.warn(f"the network was trained on images of '{spec}', so the guaranteed band does not hold. "
                  "Set data.test in the plan, or certify on other images.", CaveatWarning, stacklevel=2)  # fmt: skip
    return images


def outliers_like(spec: str, split: str | None, like: Images, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Outliers of the shape of the inliers: made by a recipe, or read and fitted to it."""
    if spec in MADE:
        return fit_to(made_images(spec, like, MADE_IMAGES, rng), shape)
    images = named_images(spec, split)
    fitted = fit_to(images.pixels, shape)
    pixels = fitted[:, 0] if shape[0] == 1 else np.moveaxis(fitted, 1, 3)
    return Images(pixels, images.labels, images.classes)
