"""Small model outputs, made from a seed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

from caveat import Head, Outputs

# A time limit per example measures how busy the machine is, not whether the claim holds.
# On a build server the examples are the same in every run; elsewhere new ones are tried.
settings.register_profile("caveat", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("caveat")

Make = Callable[..., Outputs]


def make_outputs(
    *, n: int = 240, width: int = 12, classes: int = 4, seed: int = 0, dtype: type = np.float64, shift: float = 0.0
) -> Outputs:
    """A Gaussian class mixture seen through a linear head, every field filled; ``shift`` moves it off the classes."""
    means = np.random.default_rng(99).normal(size=(classes, width)) * 3  # the world; the same for every seed
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), rng.integers(classes, size=max(0, n - classes))])[:n]
    features = np.abs(means[labels] + rng.normal(size=(n, width)) + shift).astype(dtype)
    weight = (means - means.mean(axis=0)).astype(dtype) / 4
    head = Head(weight, np.linspace(-0.5, 0.5, classes).astype(dtype))
    logits = head.logits(features)
    return Outputs(
        logits=logits,
        features=features,
        labels=labels,
        head=head,
        mc_logits=(logits + rng.normal(size=(5, n, classes))).astype(dtype),
        confidence=rng.random(n),
        layers={
            "conv": np.abs(rng.normal(size=(n, 3, 4, 4)) + shift + labels[:, None, None, None]).astype(dtype),
            "pool": (features[:, : max(2, width // 2)] * 2).astype(dtype),
        },
        embeddings=rng.normal(size=(n, 6)).astype(dtype),
    )


@pytest.fixture(name="make_outputs")
def make_outputs_fixture() -> Make:
    return make_outputs


@pytest.fixture
def train() -> Outputs:
    return make_outputs(seed=1)


@pytest.fixture
def inlier() -> Outputs:
    return make_outputs(seed=2, n=150)


@pytest.fixture
def outlier() -> Outputs:
    return make_outputs(seed=3, n=120, shift=4.0)


# -- pages in a browser ------------------------------------------------------------------------------------------------

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")  # a second one may not start while it runs
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("Chromium is not installed")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()
