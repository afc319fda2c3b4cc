"""Interval bounds, a training step with them, linear bounds, attacks and density ratios, as ratios to a plain pass.

    OMP_NUM_THREADS=1 python benchmarks/bench_bounds.py

The network is conv16 - conv32 (stride 2) - fc100 - fc10 on 28 x 28 inputs in batches of 256, on one thread. Wanted:
bounds forward within 3 plain passes, a step of GOOD (bounds, loss, gradients) within 11. Times are CPU times, and both
sides of a ratio alternate, so that a busy machine slows both.
"""

from __future__ import annotations

import numpy as np
import torch
from timing import take_turns
from torch import nn

from caveat_lab.attacks import Ball, apgd, climber
from caveat_lab.bounds import (
    confidence_bounds,
    difference_bounds,
    export_network,
    largest_difference_bound,
    log_confidence,
    log_confidence_upper,
    spread_loss,
)
from caveat_lab.robust import Network
from caveat_lab.robust.density_ratio import DensityRatio
from caveat_lab.robust.mixtures import Mixture

BATCH, EPSILON = 256, 0.3


def line(what: str, seconds: float, floor: float, of: str) -> None:
    print(f"{what:62s} {1e3 * seconds:9.1f} ms   {seconds / floor:8.2f} x {of} ({1e3 * floor:.1f} ms)", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(32 * 14 * 14, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip
    x = torch.rand(BATCH, 1, 28, 28)

    def plain() -> None:
        with torch.no_grad():
            net(x)

    def bound() -> None:
        with torch.no_grad():
            log_confidence_upper(difference_bounds(net, x, EPSILON))

    def step() -> None:
        net.zero_grad()
        spread_loss(largest_difference_bound(net, x, EPSILON)).mean().backward()

    def plain_step() -> None:
        net.zero_grad()
        log_confidence(net(x)).mean().backward()

    took = take_turns({"plain": plain, "bound": bound, "step": step, "plain step": plain_step}, repeats=15)
    floor = took["plain"]
    line("plain forward and backward", took["plain step"], floor, "plain forward")
    line("interval bounds with elision, forward (wanted: within 3)", took["bound"], floor, "plain forward")
    line("GOOD step: bounds, loss, gradients (wanted: within 11)", took["step"], floor, "plain forward")

    ball, climb = Ball(x, EPSILON), climber(lambda z: log_confidence(net(z)))
    took = take_turns({"plain": plain, "apgd": lambda: apgd(climb, x, ball, steps=10)}, repeats=2)
    line("APGD, one step", took["apgd"] / 11, took["plain"], "plain forward")

    few = x[:2]
    arrays = Network.of(export_network(net))
    took = take_turns({
        "ibp": lambda: confidence_bounds(net, x, EPSILON, arithmetic="float64"),
        "arrays": lambda: arrays.confidence_bounds(x.numpy(), EPSILON),
    }, repeats=2)  # fmt: skip
    line("certificate in float64 without torch", took["arrays"], took["ibp"], "certificate in float64 with torch")
    small = nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten(),
        nn.Linear(800, 100), nn.ReLU(), nn.Linear(100, 10),
    )  # fmt: skip
    took = take_turns({
        "ibp": lambda: confidence_bounds(small, few, 0.02),
        "crown": lambda: confidence_bounds(small, few, 0.02, method="crown"),
    }, repeats=2)  # fmt: skip
    line("linear bounds, a sample of the small network", took["crown"] / 2, took["ibp"] / 2, "interval bounds")

    rng = np.random.default_rng(0)
    inside, outside = (
        Mixture(np.full(60, 1 / 60), rng.random((60, 784)), rng.uniform(*variances, 60))
        for variances in ((0.02, 0.05), (0.08, 0.1))
    )
    ratio, points = DensityRatio(inside, outside), rng.random((100, 784))
    took = take_turns({
        "clean": lambda: ratio.log_ratio(points), "box": lambda: ratio.bounds(points, 0.1, method="box"),
        "pairs": lambda: ratio.bounds(points, 0.1, side="upper"),
    }, repeats=2)  # fmt: skip
    line("density ratio of 100 images, box bounds on both sides", took["box"], took["clean"], "the ratio itself")
    line("density ratio of 100 images, pair bounds from above", took["pairs"], took["clean"], "the ratio itself")


if __name__ == "__main__":
    main()
