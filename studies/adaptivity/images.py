"""The CIFAR-10 network trained here under true changes of its inputs: Table 2, Figures 1, 5 and 6 on images.

Noise, brightness, contrast and saturation are those of ``caveat.nn.ease``. The convolutions run in half precision,
which takes half the time; the last layer does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import cifar_network  # in this folder
import human  # in this folder
import methods  # in this folder
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from caveat import Outputs
from caveat.conformal import ease
from caveat.nn.ease import Brightness, Contrast, GaussianNoise, Saturation

Floats = NDArray[np.float64]

SIGMAS, JUDGE_SIGMA = (0.03, 0.05, 0.07, 0.10), 0.05
TUNING_COPIES, JUDGE_COPIES, KIND_COPIES = 5, 10, 10
COPIES = (10, 20, 30, 50)
KINDS = {"brightness": Brightness(0.2), "contrast": Contrast(0.2), "saturation": Saturation(0.2)}


def rows(repeats: int) -> list[dict[str, Any]]:
    """Everything about this network, as the rows of ``run.tables`` and of ``run.sensitivity``."""
    import run  # in this folder, which imports this file

    torch.set_num_threads(1)
    model = cifar_network.network().model
    images = cifar_network.images("test")[slice(methods.IMAGES)]
    x = torch.from_numpy(images.pixels).permute(0, 3, 1, 2).float().div_(255)
    outputs = Outputs(logits=logits(model, x), labels=images.labels)
    generator = torch.Generator().manual_seed(0)

    def copies(change: Any, count: int) -> Iterator[Floats]:
        for _ in range(count):
            moved = Outputs(logits=logits(model, change(x, generator).clamp_(0, 1)))
            yield ease(probs=outputs.probs, transformed=moved.probs[None])

    judge = np.mean(list(copies(GaussianNoise(JUDGE_SIGMA), JUDGE_COPIES)), axis=0)
    noisy = np.cumsum(list(copies(GaussianNoise(JUDGE_SIGMA), max(COPIES))), axis=0)
    eases = {f"{s:g}": noisy[TUNING_COPIES - 1] / TUNING_COPIES if s == JUDGE_SIGMA
             else np.mean(list(copies(GaussianNoise(s), TUNING_COPIES)), axis=0) for s in SIGMAS}  # fmt: skip
    hard = human.entropy(os.environ["CAVEAT_DATA"])[: methods.IMAGES]
    found = run.tables(outputs, eases, judge, repeats, hard=hard, bins=methods.IMAGE_BINS, other_bins=())
    settings = {f"noise, L = {count}": noisy[count - 1] / count for count in COPIES}
    settings |= {f"{kind}, L = {KIND_COPIES}": np.mean(list(copies(change, KIND_COPIES)), axis=0)
                 for kind, change in KINDS.items()}  # fmt: skip
    for setting, values in settings.items():
        how = {"alpha": 0.1, "bins": methods.IMAGE_BINS, "human": hard}
        runs = [methods.compare(outputs, {"it": values}, judge, seed=seed, **how)["O-LAC"] for seed in range(repeats)]
        for metric in ("T-CV", "T-SS", "size", "coverage", "human"):
            found.append(run.row(setting, "O-LAC", metric, np.nanmedian([one[metric] for one in runs])))
        found.append(run.row(setting, "", "like the judge", methods.rank_correlation(values, judge)))
    return found


def logits(model: nn.Sequential, x: torch.Tensor, batch: int = 100) -> Floats:
    """Class logits; everything before the last layer in half precision."""
    body, head = _in_channels_last(model)
    parts = []
    with torch.inference_mode():
        for part in x.split(batch):
            with torch.autocast("cpu", torch.bfloat16):
                features = body(part.to(memory_format=torch.channels_last))
            parts.append(head(features.float()))
    return torch.cat(parts).double().numpy()


@lru_cache(maxsize=1)
def _in_channels_last(model: nn.Sequential) -> tuple[nn.Sequential, nn.Module]:
    return model[:-1].to(memory_format=torch.channels_last), model[-1]
