"""MNIST digits with true input noise: small classifiers, and their probabilities on transformed images."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from caveat import Outputs
from caveat.conformal import ease

Images = NDArray[np.float32]
Floats = NDArray[np.float64]

SIGMAS = (0.03, 0.05, 0.07, 0.10)
TRAIN = 2000  # few, so that the classifiers make some errors


def load(folder: str | os.PathLike[str], *, train: int = TRAIN, test: int = 10_000) -> tuple[Images, Any, Images, Any]:
    """The first images of MNIST's training set and of its test set, pixels in [0, 1]."""
    with np.load(Path(folder) / "mnist.npz", allow_pickle=False) as data:
        x, y = data["x_train"][:train], data["y_train"][:train].astype(np.intp)
        new, truth = data["x_test"][:test], data["y_test"][:test].astype(np.intp)
    return (_rows(x), y, _rows(new), truth)


def _rows(images: NDArray[np.uint8]) -> Images:
    return images.reshape(len(images), -1).astype(np.float32) / 255


def classifiers() -> dict[str, Any]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    return {
        "logistic": LogisticRegression(max_iter=300, C=0.1),
        "lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
        "mlp-32": MLPClassifier((32,), max_iter=60, random_state=0, early_stopping=True),
        "mlp-128-64": MLPClassifier((128, 64), max_iter=60, random_state=0, early_stopping=True),
    }


TRANSFORMS: dict[str, Callable[[Images, float, np.random.Generator], Images]] = {
    "noise": lambda x, s, rng: x + np.float32(s) * rng.standard_normal(x.shape, dtype=np.float32),
    "brightness": lambda x, s, rng: x * (1 + np.float32(4 * s) * rng.uniform(-1, 1, (len(x), 1)).astype(np.float32)),
    "contrast": lambda x, s, rng: _contrast(x, 1 + 4 * s * rng.uniform(-1, 1, (len(x), 1))),
}


def _contrast(x: Images, factor: Floats) -> Images:
    middle = x.mean(axis=1, keepdims=True)
    return (middle + (x - middle) * factor.astype(np.float32)).astype(np.float32)


def ease_under(
    model: Any, x: Images, *, transform: str, strength: float, copies: int, rng: np.random.Generator
) -> Floats:
    """Ease of each image under a random transformation of the input, copy by copy so that memory stays small."""
    probs = model.predict_proba(x)
    total = np.zeros(len(x))
    for _ in range(copies):
        moved = np.clip(TRANSFORMS[transform](x, strength, rng), 0, 1)
        total += ease(probs=probs, transformed=model.predict_proba(moved)[None])
    return total / copies


def outputs_of(model: Any, x: Images, y: Any) -> Outputs:
    return Outputs(probs=model.predict_proba(x), labels=y)
