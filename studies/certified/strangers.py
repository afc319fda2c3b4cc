"""Outliers for the networks of the study: gray images of 28 x 28 for digits, color images of 32 x 32 for CIFAR-10."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from caveat_lab import data
from caveat_lab.data import Images

SEED = 1
ALPHABET = tuple("abcdefghijklmnopqrstuvwxyz")
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
PHOTOGRAPHS_TRAINED = 8000  # of 10,000 TinyImageNet images; the others are for tests


def in_grey(images: Images) -> Images:
    """Color images of 32 x 32 in grey (ITU-R 601 weights), the central 28 x 28 pixels."""
    color = images.pixels[:, 2:30, 2:30].astype(np.float32) / 255
    return Images((color @ _LUMA).clip(0, 1), images.labels)


def letters() -> Images:
    """EMNIST letters with their names."""
    images = data.load("emnist_letters", "test")
    return Images(images.pixels, images.labels, ALPHABET)


def _noise(make: Callable[..., np.ndarray], **shape: int) -> Images:
    pixels = make(2000, np.random.default_rng(SEED), **shape)
    return Images(pixels.astype(np.float32).clip(0, 1), np.zeros(len(pixels), dtype=np.intp))


def _small(make: Callable[..., np.ndarray]) -> Images:
    return _noise(make, height=28, width=28)


def _coloured(make: Callable[..., np.ndarray]) -> Images:
    """Three gray images of noise are the channels of one."""
    gray = [make(2000, np.random.default_rng([SEED, channel]), height=32, width=32) for channel in range(3)]
    return Images(np.stack(gray, axis=3).astype(np.float32).clip(0, 1), np.zeros(2000, dtype=np.intp))


def in_colour(images: Images) -> Images:
    """Gray images of 28 x 28 with a black border of two pixels, three times the same channel."""
    padded = np.pad(images.pixels, ((0, 0), (2, 2), (2, 2)))
    return Images(np.repeat(padded[:, :, :, None], 3, axis=3), images.labels, images.classes)


def photographs(*, trained: bool) -> Images:
    """TinyImageNet at 32 x 32: the part that networks for CIFAR-10 are trained on as outliers, or the rest."""
    images = data.load("tinyimagenet", "val")
    return images[:PHOTOGRAPHS_TRAINED] if trained else images[PHOTOGRAPHS_TRAINED:]


SETS: Mapping[str, Callable[[], Images]] = {
    "Fashion-MNIST": lambda: data.load("fashion_mnist", "test"),
    "EMNIST letters": letters,
    "CIFAR-10 grey": lambda: in_grey(data.load("cifar10", "test")),
    "Uniform noise": lambda: _small(data.noise),
    "notMNIST": lambda: data.load("notmnist", "test"),
    "Omniglot": lambda: data.load("omniglot", "evaluation"),
    "Smooth noise": lambda: _small(data.smooth_noise),
}
FIRST = ("Fashion-MNIST", "EMNIST letters", "CIFAR-10 grey", "Uniform noise")  # columns of the paper's Tables 1 and 9
FURTHER = ("notMNIST", "Omniglot", "Smooth noise")  # and of its Table 8

COLOUR_SETS: Mapping[str, Callable[[], Images]] = {
    "Textures": lambda: data.load("dtd"),
    "Fashion-MNIST": lambda: in_colour(data.load("fashion_mnist", "test")),
    "EMNIST letters": lambda: in_colour(letters()),
    "Uniform noise": lambda: _coloured(data.noise),
    "TinyImageNet": lambda: photographs(trained=False),
    "notMNIST": lambda: in_colour(data.load("notmnist", "test")),
    "Smooth noise": lambda: _coloured(data.smooth_noise),
}
COLOUR_FIRST = ("Textures", "Fashion-MNIST", "EMNIST letters", "Uniform noise")
COLOUR_FURTHER = ("TinyImageNet", "notMNIST", "Smooth noise")


@cache
def images_of(name: str, *, colour: bool) -> Images:
    """A set by its name; reading one takes seconds, and every method is shown all of them."""
    return (COLOUR_SETS if colour else SETS)[name]()
