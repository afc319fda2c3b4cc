"""One epoch of the small CNN by ``fit_classifier``, against the shortest loop that trains the same network.

    python benchmarks/bench_training.py [--images 60000] [--rounds 3]

Both train on the same generated 28 x 28 images with the same batches and optimizer, in turn, in one process; the ratio
is that of the fastest rounds. Goal: at most 1.1. Progress bar, checks, history and collapse check are included.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

from caveat_lab.networks import architectures, fit_classifier

BATCH, RATE = 128, 1e-3


def by_hand(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    model.train()
    order = torch.randperm(len(x))
    for start in range(0, len(x), BATCH):
        rows = order[start : start + BATCH]
        loss = F.cross_entropy(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()

    generator = torch.Generator().manual_seed(0)
    y = torch.randint(10, (given.images,), generator=generator)
    spots = torch.rand(10, 1, 28, 28, generator=generator)  # a pattern for each class, under noise
    x = (0.5 * spots[y] + 0.5 * torch.rand(given.images, 1, 28, 28, generator=generator)).clamp_(0, 1)
    as_bytes = (255 * x).byte()

    def make() -> nn.Module:
        return architectures.make("small_cnn", seed=0)

    ways = {
        "by hand": lambda: by_hand(make(), x, y),
        "fit_classifier": lambda: fit_classifier(make(), (x, y), epochs=1, batch_size=BATCH, learning_rate=RATE),
        "fit_classifier, bytes": lambda: fit_classifier(
            make(), (as_bytes, y), epochs=1, batch_size=BATCH, learning_rate=RATE
        ),
    }
    best = dict.fromkeys(ways, (float("inf"), float("inf")))
    for _ in range(given.rounds):
        for name, run in ways.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            found = (time.process_time() - cpu, time.perf_counter() - wall)
            best[name] = min(best[name], found)
    floor = best["by hand"][0]
    print(f"one epoch of {given.images} images, {torch.get_num_threads()} thread(s), fastest of {given.rounds}")
    for name, (cpu, wall) in best.items():
        print(f"{name:24} {cpu:7.2f} CPU s  {wall:7.2f} s  ratio {cpu / floor:.3f}")


if __name__ == "__main__":
    main()
