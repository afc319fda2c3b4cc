"""Random networks that are hard on rounding, and attacks in the type in which a network is deployed."""

from __future__ import annotations

import math

import torch
from torch import nn

from caveat_lab.bounds import log_confidence

TYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}
ACTIVATIONS = (nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid)
KINDS = ("dense", "deep", "conv", "normed", "layer normed", "shifted", "cancelling")


def one_of(generator, *options):
    return options[int(torch.randint(len(options), (1,), generator=generator))]


def make_network(generator):
    """A network over 1x2x2 images: plain, normalized over shifted values, shifted out and back, or cancelling."""
    kind, width = one_of(generator, *KINDS), one_of(generator, 4, 8, 16)
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(10**6, (1,), generator=generator)))
        net = nn.Sequential(*_layers(kind, width, generator))
        for part in net.modules():
            if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
                part.running_mean.normal_().mul_(one_of(generator, 1, 10, 1000))
                part.running_var.uniform_(1e-4, 2)
                part.weight.data.normal_()
                net[part.num_features != width or kind == "normed"].bias.data += part.running_mean
    if kind == "shifted":
        by = one_of(generator, 1.0, 100.0, 1e4, 1e6)
        net[1].bias.data += by
        net[3].bias.data -= by * net[3].weight.data.sum(dim=1)
    if kind == "cancelling":
        net[3].weight.data[:, 1] = -net[3].weight.data[:, 0]
        net[3].weight.data[:, :2] *= one_of(generator, 1, 1e3)
    scale = one_of(generator, 1, 2, 4)
    for weight in net.parameters():
        weight.data.mul_(scale)
    return net.eval()


def _layers(kind, width, generator):
    def act():
        return one_of(generator, *ACTIVATIONS)()

    first = [nn.Flatten(), nn.Linear(4, width)]
    if kind == "conv":
        pool = one_of(generator, nn.AvgPool2d, nn.MaxPool2d)
        return [
            nn.Conv2d(1, 3, 2, padding=1), nn.BatchNorm2d(3), act(), pool(2), nn.Flatten(), nn.Linear(3, 4)
        ]  # fmt: skip
    if kind == "normed":
        return [*first, nn.BatchNorm1d(width), act(), nn.Linear(width, 3)]
    if kind == "layer normed":
        return [*first, nn.LayerNorm(width, eps=one_of(generator, 1e-5, 1e-3, 1.0)), act(), nn.Linear(width, 3)]
    middle = [act(), nn.Linear(width, width)] * (2 if kind == "deep" else 1)
    return [*first, *middle, act(), nn.Linear(width, one_of(generator, 2, 3, 5))]


def strongest(net, x, epsilon, dtype, generator, *, tries=60, climbs=20):
    """The largest log-confidence (n,) that the network reaches in its own type.

    Corners, random points of the ball, points next to the input, and steps along the sign of the gradient.
    """
    inputs = x.double()
    low, high = (inputs - epsilon).clamp(0, 1), (inputs + epsilon).clamp(0, 1)
    best = torch.full((len(x),), -math.inf, dtype=torch.float64)

    def tried(points):
        with torch.no_grad():
            return torch.fmax(best, log_confidence(net(points.to(dtype)).double()))

    best = tried(inputs)
    for i in range(tries):
        share = torch.rand(x.shape, generator=generator).double()
        if i % 3 == 1:
            points = (inputs + (2 * share - 1) * epsilon * 1e-3).clamp(low, high)
        else:
            points = low + (high - low) * (share.round() if i % 3 == 0 else share)
        best = tried(points)
    points = inputs.to(dtype)
    for i in range(climbs):
        points = points.detach().requires_grad_()
        (slope,) = torch.autograd.grad(log_confidence(net(points)).sum(), points)
        step = epsilon * (0.5 if i < climbs / 2 else 0.1)
        points = (points.detach().double() + step * slope.sign().double()).clamp(low, high).to(dtype)
        best = tried(points.double())
    return best.numpy()
