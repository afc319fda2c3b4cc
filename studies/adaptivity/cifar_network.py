"""A ResNet-20 for CIFAR-10, trained here, so that its inputs can be changed.

    CAVEAT_DATA=<folder> CAVEAT_CIFAR10_MODEL=<folder> python studies/adaptivity/cifar_network.py

trains it into the second folder, about eleven minutes of one core with bfloat16 instructions. A run that was stopped
resumes. The study calls the same function where that variable is set, so it trains the network if there is none yet.

Random shifts of up to 4 pixels, mirror images, one cycle of the learning rate (Smith and Topin, "Super-Convergence",
arXiv:1708.07120). Images are JPEG files of quality 75, in training and in testing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from caveat._internal.cache import cache_folder
from caveat_lab.data import Images, read_packed
from caveat_lab.networks import architectures
from caveat_lab.networks.training import Trained, fit_classifier, load_model, save_model

ARCHITECTURE = {
    "name": "resnet20", "in_shape": (3, 32, 32), "classes": 10,
    "normalize": ((0.491, 0.482, 0.447), (0.247, 0.243, 0.262)),  # mean and deviation of the channels of CIFAR-10
}  # fmt: skip
EPOCHS, BATCH, SHIFT = 6, 128, 4
START, PEAK, WARM_UP = 0.005, 0.2, 0.2  # learning rate at first, at most, and the share of the steps up to there


def images(split: str) -> Images:
    """The stored images, ``"train"`` or ``"test"``."""
    return read_packed(Path(os.environ["CAVEAT_DATA"]) / f"cifar10_{split}_jpeg.npz")


def folder() -> Path:
    return Path(os.environ.get("CAVEAT_CIFAR10_MODEL") or cache_folder() / "cifar10_resnet20")


def network(*, epochs: int = EPOCHS, data: Images | None = None) -> Trained:
    """The trained network: read from its folder, or trained and written there."""
    place = folder()
    if (place / "model.json").exists():
        return load_model(place)
    data = images("train") if data is None else data
    model = architectures.make(**ARCHITECTURE, seed=0)
    trained = fit_classifier(
        Augmented(model.to(memory_format=torch.channels_last)), (data.pixels, data.labels), n_classes=10, epochs=epochs,
        batch_size=BATCH, learning_rate=START, optimizer="sgd", weight_decay=5e-4, schedule=one_cycle(), seed=0,
        threads=1, checkpoint=place / "checkpoint",
    )  # fmt: skip
    trained = replace(trained, model=model.to(memory_format=torch.contiguous_format))
    save_model(trained, place, architecture=ARCHITECTURE, about={"data": "CIFAR-10, JPEG of quality 75"})
    return trained


def one_cycle(steps: int = 500) -> Mapping[float, float]:
    """Factors of the first learning rate: along a line up to the peak, then along a line down, in small steps."""
    shares = [i / steps for i in range(1, steps)]
    rates = [PEAK * (s / WARM_UP if s < WARM_UP else (1 - s) / (1 - WARM_UP)) for s in shares]
    return {share: rate / START for share, rate in zip(shares, rates, strict=True)}


class Augmented(nn.Module):
    """Trains ``net`` on shifted and mirrored images with half-precision products; leaves it alone otherwise.

    Half precision takes 60 % of the time of single precision on a processor that has it.
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.net(x)  # type: ignore[no-any-return]
        changed = shifted_and_mirrored(x).to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(changed).float()  # type: ignore[no-any-return]


def shifted_and_mirrored(x: Tensor, shift: int = SHIFT) -> Tensor:
    """Each image moved by up to ``shift`` pixels, its border reflected, and mirrored with probability 1/2."""
    n, _, height, width = x.shape
    padded = F.pad(x, (shift,) * 4, mode="reflect")
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # (n, channels, places, places, height, width)
    down, right = torch.randint(0, 2 * shift + 1, (2, n))
    moved = windows[torch.arange(n), :, down, right]
    return torch.where(torch.rand(n, 1, 1, 1) < 0.5, moved.flip(3), moved)


if __name__ == "__main__":
    torch.set_num_threads(1)
    result, test = network(), images("test")
    accuracy = result.outputs((test.pixels, test.labels), batch_size=500).correct.mean()
    print(f"{folder()}: {len(result.history)} epochs, {result.seconds:.0f} s, test accuracy {accuracy:.4f}")
