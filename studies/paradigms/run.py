"""Three training paradigms, with and without dropout passes, every score, near to far outliers: AUGRC.

    CAVEAT_DATA=<folder> caveat reproduce paradigms --jobs 2

A small network learns Fashion-MNIST by ConfidNet, by DeVries and Taylor and by Deep Gamblers. Each trained network is
evaluated without dropout and as the mean over dropout passes: mean softmax for scores of probabilities, mean logits
and features for the others, with scores fitted on passes, too. Every applicable score of the catalogue separates its
errors on test images (set "test") and eleven outlier sets from correctly classified test images.

One cell per paradigm and seed. Training resumes from its checkpoint in the cache folder.
"""

from __future__ import annotations

import time
import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat import CaveatWarning, Outputs
from caveat._internal.cache import cache_folder
from caveat.metrics import augrc, aurc, ood_failures
from caveat.scores import applicable
from caveat.scores.together import fit_all
from caveat_lab import data
from caveat_lab.geometry import neural_collapse, proximity

TRAIN, VALIDATION, TEST, OUTLIERS = 8000, 2000, 4000, 500  # images of each
CLASSIFIER_EPOCHS, BATCH, RATE, DROPOUT, PASSES = 10, 128, 2e-3, 0.3, 50
FROM_FILES = {
    "mnist": "test",
    "emnist_letters": "test",
    "notmnist": "test",
    "omniglot": "background",
    "cifar10": "test",
    "dtd": "all",
}
MADE = ("rotated", "block_shuffled", "inverted", "smooth_noise", "uniform_noise")
SETS = (*FROM_FILES, *MADE)
GEOMETRY = "geometry"
COLLAPSE = ("equinorm", "equiangularity", "variability", "self_duality")

Row = dict[str, str | float]
Pixels = NDArray[Any]


@cache
def images() -> tuple[data.Images, data.Images, data.Images, dict[str, Pixels]]:
    """Train, validation and test images of Fashion-MNIST, and every outlier set at 28 x 28, grey."""
    rng = np.random.default_rng(0)
    known, asked = data.load("fashion_mnist", "train"), data.load("fashion_mnist", "test")
    train, validation = known[slice(TRAIN)], known[slice(TRAIN, TRAIN + VALIDATION)]
    spare = asked[slice(TEST, TEST + OUTLIERS)].pixels  # outliers are made of images that are used nowhere else
    found = {}
    for name, split in FROM_FILES.items():
        pixels = data.load(name, split).pixels
        rows = np.sort(rng.choice(len(pixels), size=OUTLIERS, replace=False))
        found[name] = grey(pixels[rows])
    found["rotated"] = data.rotated(spare, rng)
    found["block_shuffled"] = data.block_shuffled(spare, rng)
    found["inverted"] = data.inverted(spare)
    found["smooth_noise"] = data.smooth_noise(OUTLIERS, rng)
    found["uniform_noise"] = data.noise(OUTLIERS, rng, height=28, width=28)
    return train, validation, asked[slice(TEST)], {name: as_bytes(pixels) for name, pixels in found.items()}


def grey(pixels: Pixels) -> Pixels:
    """Colours as brightness (ITU-R BT.601), and the central 28 x 28 pixels."""
    if pixels.ndim == 4:
        pixels = (pixels @ np.array([0.299, 0.587, 0.114])).round().astype(np.uint8)
    top, left = ((size - 28) // 2 for size in pixels.shape[1:])
    return pixels[:, top : top + 28, left : left + 28]


def as_bytes(pixels: Pixels) -> Pixels:
    return pixels if pixels.dtype == np.uint8 else (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)


def one(paradigm: str, seed: int) -> list[Row]:
    """Train one network and measure every score on every set, with and without dropout passes."""
    from caveat_lab.networks import architectures, fit_classifier
    from caveat_lab.networks.training import ConfidNet, DeepGamblers, DeVries, dropout_mean

    train, validation, test, strange = images()
    started = time.process_time()
    # ConfidNet trains its classifier as long as the others and its confidence after that.
    chosen, epochs = {
        "confidnet": (ConfidNet(shares=(CLASSIFIER_EPOCHS, 5, 3)), CLASSIFIER_EPOCHS + 8),
        "devries": (DeVries(), CLASSIFIER_EPOCHS),
        "deep_gamblers": (DeepGamblers(), CLASSIFIER_EPOCHS),
    }[paradigm]
    trained = fit_classifier(
        architectures.make("small_cnn", (1, 28, 28), 10, dropout=DROPOUT, seed=seed),
        (train.pixels, train.labels),
        chosen,
        validation=(validation.pixels, validation.labels),
        epochs=epochs,
        batch_size=BATCH,
        learning_rate=RATE,
        schedule="cosine",
        seed=seed,
        threads=1,
        checkpoint=cache_folder() / "studies" / "paradigms" / f"{paradigm}-{seed}",
    )
    labeled = {"train": train, "validation": validation, "test": test}
    rows: list[Row] = []
    for inference in ("rest", "passes"):
        rng = np.random.default_rng(seed)

        def ask(given: Any, inference: str = inference, rng: np.random.Generator = rng) -> Outputs:
            return (
                trained.outputs(given) if inference == "rest" else dropout_mean(trained, given, passes=PASSES, rng=rng)
            )

        known, held_out, inlier = (ask((part.pixels, part.labels)) for part in labeled.values())
        outliers = {name: ask(pixels) for name, pixels in strange.items()}
        rows += measure(inference, known, held_out, inlier, outliers)
        rows.append(row(inference, "", "test", "accuracy", inlier.correct.mean()))
        if inference == "rest":
            rows += geometry(known, outliers)
    rows.append(row(GEOMETRY, "", "", "cpu_seconds", time.process_time() - started))
    return rows


def measure(
    inference: str, train: Outputs, validation: Outputs, inlier: Outputs, outliers: dict[str, Outputs]
) -> list[Row]:
    """AUGRC and AURC (x 1000) of every applicable score, on the inliers' own errors and on each outlier set.

    Scores learn from training outputs of the same kind as those they are measured on: at rest, or means over passes.
    """
    rows, correct = [], inlier.correct
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CaveatWarning)
        chosen, _ = applicable(train, inlier, *outliers.values())
        fit_all(chosen.values(), train, validation)
        for name, score in chosen.items():
            inside = score.score(inlier)
            cases = {"test": (inside, correct)}
            for outlier, outputs in outliers.items():
                cases[outlier] = ood_failures(inlier=inside, correct=correct, outlier=score.score(outputs))
            for case, (values, right) in cases.items():
                rows.append(row(inference, name, case, "augrc", 1000 * augrc(score=values, correct=right)))
                rows.append(row(inference, name, case, "aurc", 1000 * aurc(score=values, correct=right)))
    return rows


def geometry(train: Outputs, outliers: dict[str, Outputs]) -> list[Row]:
    """How far each outlier set is from the training data in this network's features; neural collapse."""
    rows = []
    for name, outputs in outliers.items():
        found = proximity(inlier=train, outlier=outputs)
        values = {"frechet": found.frechet, "mmd": found.mmd, "centroid": found.centroid}
        rows += [row(GEOMETRY, "", name, metric, value) for metric, value in values.items()]
    collapse = neural_collapse(train)
    return rows + [row(GEOMETRY, "", "", metric, getattr(collapse, metric)) for metric in COLLAPSE]


def row(inference: str, score: str, case: str, metric: str, value: float) -> Row:
    return {"inference": inference, "score": score, "set": case, "metric": metric, "value": float(value)}
