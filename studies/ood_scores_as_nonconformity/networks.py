"""Networks that the study trains, because ODIN needs gradients and Gram needs inner layers.

``images``: the ResNet-20 for CIFAR-10 of the adaptivity study, or the one in the folder that CAVEAT_CIFAR10_MODEL
names. ``fashion``: a small CNN on Fashion-MNIST, ten classes. ``characters``: the same network on 36 classes, the 26
EMNIST letters and the 10 MNIST digits, 800 images of each. It is the nearest set here to CIFAR-100, whose images are
not here; many of its classes look alike (O and 0; I, L and 1). All have 10,000 images to calibrate and test on, as
CIFAR has. Training takes two minutes of one core each, eleven for the ResNet-20, and resumes from a checkpoint in the
cache folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from caveat._internal.cache import cache_folder
from caveat_lab import data
from caveat_lab.experiments.functions import find_function

if TYPE_CHECKING:
    from caveat_lab.networks.training import Trained

EACH = 800  # images of each of the 36 characters
ASKED = 10_000  # of them to calibrate and test on
EPOCHS = {"fashion": 15, "characters": 12}
MAPS = {  # the layers that Gram reads: both convolutions after ReLU, or the last block of each stage
    "images": ("6", "9", "12"), "fashion": ("1", "4"), "characters": ("1", "4"),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network with its images."""

    trained: Trained
    train: data.Images
    test: data.Images


def characters() -> tuple[data.Images, data.Images]:
    """Training and test images of letters (classes 0 to 25) and digits (26 to 35), shuffled."""
    rng = np.random.default_rng(0)
    letters, digits = data.load("emnist_letters", "test"), data.load("mnist", "train")
    pixels, labels = [letters.pixels], [letters.labels]
    for digit in range(10):
        rows = rng.choice(np.flatnonzero(digits.labels == digit), size=EACH, replace=False)
        pixels.append(digits.pixels[rows])
        labels.append(np.full(EACH, 26 + digit))
    images = data.Images(np.concatenate(pixels), np.concatenate(labels))
    order = rng.permutation(len(images))
    return images[order[ASKED:]], images[order[:ASKED]]


@cache
def network(name: str) -> Network:
    """Train ``images``, ``fashion`` or ``characters``, or read the finished training from the cache folder."""
    from caveat_lab.networks import architectures, fit_classifier

    if name == "images":
        other = Path(__file__).parents[1] / "adaptivity" / "cifar_network.py"
        trained = find_function("cifar_network.py:network", str(other))()
        return Network(trained, data.load("cifar10", "train"), data.load("cifar10", "test"))
    if name == "fashion":
        train, test = data.load("fashion_mnist", "train"), data.load("fashion_mnist", "test")
    else:
        train, test = characters()
    classes = int(train.labels.max()) + 1
    trained = fit_classifier(
        architectures.make("small_cnn", (1, 28, 28), classes, width=32, dropout=0.3, seed=0),
        (train.pixels, train.labels), epochs=EPOCHS[name], batch_size=128, learning_rate=2e-3, schedule="cosine",
        seed=0, threads=1, checkpoint=cache_folder() / "studies" / "nonconformity" / name,
    )  # fmt: skip
    return Network(trained, train, test)


def accuracy(logits: NDArray[Any], labels: NDArray[Any]) -> float:
    """Share of right answers."""
    return float(np.mean(logits.argmax(axis=1) == labels))
