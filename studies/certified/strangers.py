"""The seven sets that a network for digits is shown: images of 28 x 28 with values from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from caveat import data
from caveat.data import Images

SEED = 1
ALPHABET = tuple("abcdefghijklmnopqrstuvwxyz")
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def grey_cifar() -> Images:
    """CIFAR-10 test images in grey (ITU-R 601 weights), the central 28 x 28 pixels."""
    images = data.load("cifar10", "test")
    colour = images.pixels[:, 2:30, 2:30].astype(np.float32) / 255
    return Images((colour @ _LUMA).clip(0, 1), images.labels)


def letters() -> Images:
    """EMNIST letters with their names."""
    images = data.load("emnist_letters", "test")
    return Images(images.pixels, images.labels, ALPHABET)


def _noise(make: Callable[..., np.ndarray]) -> Images:
    pixels = make(2000, np.random.default_rng(SEED), height=28, width=28)
    return Images(pixels.astype(np.float32).clip(0, 1), np.zeros(len(pixels), dtype=np.intp))


SETS: Mapping[str, Callable[[], Images]] = {
    "Fashion-MNIST": lambda: data.load("fashion_mnist", "test"),
    "EMNIST letters": letters,
    "CIFAR-10 grey": grey_cifar,
    "Uniform noise": lambda: _noise(data.noise),
    "notMNIST": lambda: data.load("notmnist", "test"),
    "Omniglot": lambda: data.load("omniglot", "evaluation"),
    "Smooth noise": lambda: _noise(data.smooth_noise),
}
FIRST = ("Fashion-MNIST", "EMNIST letters", "CIFAR-10 grey", "Uniform noise")  # columns of the paper's Tables 1 and 9
FURTHER = ("notMNIST", "Omniglot", "Smooth noise")  # and of its Table 8
