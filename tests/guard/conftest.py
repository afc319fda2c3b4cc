"""A toy classifier with three classes and unlimited inliers."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import Head, Outputs


def draw_inliers(rng, n, *, spread=1.5, features=False):
    labels = rng.integers(3, size=n)
    logits = 3.0 * np.eye(3)[labels] + spread * rng.normal(size=(n, 3))
    if not features:
        return Outputs(logits=logits, labels=labels)
    rest = rng.normal(size=(n, 5))
    return Outputs(features=np.concatenate([logits, rest], axis=1), labels=labels, head=Head(np.eye(3, 8)))


@pytest.fixture
def draw():
    return draw_inliers


@pytest.fixture
def calibration():
    return draw_inliers(np.random.default_rng(1), 800)


@pytest.fixture
def stream():
    return draw_inliers(np.random.default_rng(2), 500)
