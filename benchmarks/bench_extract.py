"""Extraction against a bare forward loop over the same batches, in one run: the ratio is the cost of storing rows.

python benchmarks/bench_extract.py                       # 20,000 images of 28 x 28, batches of 256
python benchmarks/bench_extract.py --images 4000 --batch 64
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from timing import take_turns
from torch import nn

from caveat.nn import extract, stream
from caveat.scores import Gram


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, 10),
    )  # fmt: skip


def small_mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    images = torch.rand(asked.images, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(asked.images) % 10
    batches = list(zip(images.split(asked.batch), labels.split(asked.batch), strict=True))

    with tempfile.TemporaryDirectory() as folder:
        for name, model in {"small CNN": small_cnn(), "small MLP (nothing to hide behind)": small_mlp()}.items():

            def bare(model: nn.Module = model) -> None:
                model.eval()
                with torch.no_grad():
                    for inputs, _ in batches:
                        model(inputs)

            def passes(model: nn.Module = model) -> None:
                for _ in range(4):
                    bare(model)

            calls: dict[str, Callable[[], object]] = {
                "bare forward loop": bare,
                "extract": lambda model=model: extract(model, batches, progress=False),
                "extract, head named": lambda model=model: extract(
                    model, batches, head=str(len(model) - 1), progress=False
                ),
                "extract into a folder": lambda model=model: extract(
                    model, batches, out=Path(folder) / "said", progress=False
                ),
            }
            if name == "small CNN":
                calls["four bare loops"] = passes
                calls["extract, 3 dropout passes"] = lambda model=model: extract(model, batches, mc=3, progress=False)
            found = take_turns(calls, asked.repeats)
            print(f"{name}, {asked.images:,} images in batches of {asked.batch}, {torch.get_num_threads()} threads")
            for call, seconds in found.items():
                floor = found["four bare loops" if "passes" in call or "four" in call else "bare forward loop"]
                print(f"  {call:28s} {1e3 * seconds:9.1f} ms   {seconds / floor:5.2f} x the bare loop")

    few = batches[: max(1, 2000 // asked.batch)]
    start = time.process_time()
    Gram(orders=5).fit(stream(small_cnn(), few, layers=["0", "4"], progress=False))
    print(f"gram learned in passing from {sum(map(len, (x for x, _ in few))):,} images and two layers: "
          f"{time.process_time() - start:.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
