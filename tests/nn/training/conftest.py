"""Small classification problems and networks, from seeds."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402


def blobs(n=300, classes=3, width=4, seed=0):
    """Gaussian classes that a small network tells apart almost always."""
    means = np.random.default_rng(7).normal(size=(classes, width)) * 3
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return (means[y] + rng.normal(size=(n, width))).astype(np.float32), y


def small_net(classes=3, width=4, seed=0, dropout=0.2):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, classes))


@pytest.fixture(name="blobs")
def blobs_fixture():
    return blobs


@pytest.fixture(name="small_net")
def small_net_fixture():
    return small_net


@pytest.fixture
def same_weights():
    def same(one, other):
        mine, theirs = one.state_dict(), other.state_dict()
        return mine.keys() == theirs.keys() and all(torch.equal(mine[key], theirs[key]) for key in mine)

    return same
