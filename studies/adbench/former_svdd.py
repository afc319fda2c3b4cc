"""DeepSVDD by the rules that PyOD had when the paper was written, before its network was rewritten in torch.

    CAVEAT_DATA=<folder> python studies/adbench/former_svdd.py

writes former_svdd.csv: the AUROC on the 14 smallest of the paper's sets next to the published one and to that of
today's PyOD, means over three seeds (two minutes of one core). What is different from today's DeepSVDD: the center is
the mean output of another network with random weights, which is then thrown away; activations are penalized, where
weights decay today; a tenth of the rows is kept aside. Hidden layers (64 and 32, ReLU, no bias), Adam, 100 epochs and
batches of 32 are the same.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import protocol  # in this folder
import torch
from kept import kept, published  # in this folder
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from caveat._internal.result_tables import write_csv
from caveat.metrics import auroc

EPOCHS, BATCH, RATE, PENALTY, LEAST, HELD_OUT = 100, 32, 1e-3, 0.1, 0.1, 0.1
HIDDEN = (64, 32)
SETS = 14


def former_scores(
    train: NDArray[np.float64], test: NDArray[np.float64], seed: int, *, epochs: int = EPOCHS
) -> NDArray[np.float64]:
    """Squared distance of each test row from the center. The larger, the stranger."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(seed)
    scaler = StandardScaler().fit(train)
    rows, new = (torch.tensor(scaler.transform(x), dtype=torch.float32) for x in (train, test))
    rows = rows[torch.randperm(len(rows), generator=draw)]
    center = _layers(_weights(rows.shape[1], draw), rows)[1].mean(dim=0)
    center[(center > 0) & (center < LEAST)] = LEAST
    weights = [weight.requires_grad_() for weight in _weights(rows.shape[1], draw)]
    optimizer = torch.optim.Adam(weights, lr=RATE, eps=1e-7)
    rows = rows[: int(len(rows) * (1 - HELD_OUT))]
    for _ in range(epochs):
        for chosen in torch.randperm(len(rows), generator=draw).split(BATCH):
            hidden, output = _layers(weights, rows[chosen])
            activity = (hidden.square().sum() + output.square().sum()) / len(chosen)
            loss = (output - center).square().sum(dim=1).mean() + PENALTY * activity
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return (_layers(weights, new)[1] - center).square().sum(dim=1).double().numpy()


def measured(key: str, seed: int) -> float:
    """AUROC on the test part of a set."""
    part = protocol.split(key, seed)
    scores = former_scores(part.train, part.test, seed)
    return auroc(inlier=scores[~part.anomaly], outlier=scores[part.anomaly])


def _weights(columns: int, draw: torch.Generator) -> list[torch.Tensor]:
    """Uniform in a range that depends on the width (Glorot and Bengio), as in Keras."""
    sizes = itertools.pairwise((columns, *HIDDEN))
    return [(2 * torch.rand(a, b, generator=draw) - 1) * (6 / (a + b)) ** 0.5 for a, b in sizes]


def _layers(weights: list[torch.Tensor], rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(rows @ weights[0])
    return hidden, torch.relu(hidden @ weights[1])


def smallest() -> list[str]:
    """Keys of the paper's sets with the fewest bytes."""
    size = protocol.sizes()
    published_keys = [
        key for key in sorted(size, key=size.__getitem__) if (protocol.short(key), "DeepSVDD") in published()
    ]
    return published_keys[:SETS]


def main() -> None:
    today: dict[str, list[Any]] = {}
    for row in kept():
        if row["detector"] == "DeepSVDD":
            today.setdefault(row["set"], []).append(row["auroc"])
    gaps, lines = [], []
    for key in smallest():
        name = protocol.short(key)
        paper, now = published()[name, "DeepSVDD"][0], float(np.mean(today[name]))
        before = float(np.mean([measured(key, seed) for seed in (1, 2, 3)]))
        gaps.append((before - paper, now - paper))
        lines.append({"set": name, "published": paper, "former": f"{before:.4f}", "today": f"{now:.4f}"})
        print(f"{name}: published {paper:.2f}, former rules {before:.2f}, today {now:.2f}", flush=True)
    write_csv(lines, Path(__file__).parent / "former_svdd.csv")
    means, sizes = np.mean(gaps, axis=0), np.median(np.abs(gaps), axis=0)
    print(f"mean difference: former rules {means[0]:+.3f}, today {means[1]:+.3f}")
    print(f"median distance: former rules {sizes[0]:.3f}, today {sizes[1]:.3f}")


if __name__ == "__main__":
    main()
