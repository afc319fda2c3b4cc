"""Tiny networks whose whole input box can be searched."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

torch.set_num_threads(1)  # many tiny passes: threads only wait for each other


class Residual(nn.Module):
    """Two layers and a way around them, written as people write it."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        h = self.second(torch.relu(self.norm(self.first(x))))
        h += x
        return torch.relu(h)


def make_net(kind, seed):
    """A network over 1x2x2 images (or 4 numbers) and 3 classes, in float64, with weights that matter."""
    torch.manual_seed(seed)
    nets = {
        "dense": lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)
        ),
        "conv": lambda: nn.Sequential(
            nn.Conv2d(1, 3, 2, padding=1), nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2, stride=1), nn.Dropout(0.5),
            nn.Flatten(), nn.Linear(12, 3),
        ),
        "residual": lambda: nn.Sequential(
            nn.Conv2d(1, 2, 1), Residual(2), nn.MaxPool2d(2, stride=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(2, 3),
        ),
    }  # fmt: skip
    net = nets[kind]().double()
    for part in net.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
            part.weight.data.normal_()
    for weight in net.parameters():
        weight.data.mul_(2)
    return net.eval()


def everywhere(x, epsilon, *, steps=5, clip=True):
    """All corners and a dense grid of the box around one 1x2x2 image, shape (steps**4, 1, 2, 2)."""
    low, high = x.flatten() - epsilon, x.flatten() + epsilon
    if clip:
        low, high = low.clamp(min=0), high.clamp(max=1)
    axes = [np.linspace(float(a), float(b), steps) for a, b in zip(low, high, strict=True)]
    points = torch.tensor(list(itertools.product(*axes)), dtype=torch.float64)
    return points.clamp(low, high).reshape(-1, *x.shape)


@pytest.fixture(name="make_net", scope="session")
def make_net_fixture():
    return make_net


@pytest.fixture(name="everywhere", scope="session")
def everywhere_fixture():
    return everywhere
