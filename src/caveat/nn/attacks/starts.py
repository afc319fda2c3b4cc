"""Where an attack begins. Certified networks are flat at the point itself, so the start decides how far it gets.

``toward_id`` is the strongest against them: project samples of the other side (training images, where confidence
is raised) into the ball, and begin at the one that scores best.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from caveat._internal.checks import Rng, as_rng, check_known
from caveat.errors import InputError
from caveat.nn.attacks.ascent import Ball, Objective, each_row

__all__ = ["RANDOM", "STARTS", "make_start"]

RANDOM = frozenset({"full", "small", "toward_id"})  # these differ from one restart to the next
SMALL = 0.01
Start = Callable[[Ball, np.random.Generator], Tensor]


def _full(ball: Ball, rng: np.random.Generator) -> Tensor:
    noise = _uniform(ball.x, rng)
    return ball.x + ball.epsilon * noise / each_row(noise.abs().flatten(1).amax(dim=1), noise)


def _contrast(ball: Ball, rng: np.random.Generator) -> Tensor:
    low, high = (-np.inf, np.inf) if ball.clip is None else ball.clip
    return torch.where(ball.x > high - ball.epsilon, high, (ball.x - ball.epsilon).clamp(min=low))


def _decontrast(ball: Ball, rng: np.random.Generator) -> Tensor:
    mean = each_row(ball.x.flatten(1).mean(dim=1), ball.x)
    return ball.x + (mean - ball.x).clamp(-ball.epsilon, ball.epsilon)


def _uniform(like: Tensor, rng: np.random.Generator) -> Tensor:
    return torch.as_tensor(rng.uniform(-1, 1, size=tuple(like.shape))).to(like)


STARTS: dict[str, Start] = {
    "point": lambda ball, rng: ball.x,
    "small": lambda ball, rng: ball.x + _uniform(ball.x, rng) * min(SMALL, ball.epsilon),
    "full": _full,
    "contrast": _contrast,
    "decontrast": _decontrast,
    "lower": lambda ball, rng: ball.x - ball.epsilon,
}


def make_start(
    name: str,
    ball: Ball,
    objective: Objective,
    rng: Rng,
    *,
    candidates: Tensor | None = None,
    tries: int = 64,
    batch_size: int = 512,
) -> Tensor:
    """The start of that name for every sample, inside the ball.

    ``point``: the input. ``small``: up to 0.01 away. ``full``: random, its largest change exactly epsilon.
    ``contrast``: nearly white pixels become white, the rest as dark as the ball allows (GOOD appendix A).
    ``decontrast``: towards the mean of the image (ProoD). ``lower``: everything darker. ``toward_id``: of ``tries``
    candidates drawn and projected into the ball, the best for each sample.
    """
    check_known(name, (*STARTS, "toward_id"), "start")
    rng = as_rng(rng)
    if name != "toward_id":
        return ball.project(STARTS[name](ball, rng))
    if candidates is None:
        raise InputError(
            "start 'toward_id' needs candidates, inputs of the other side; pass candidates=training images."
        )
    drawn = candidates[torch.as_tensor(rng.permutation(candidates.shape[0])[:tries], device=candidates.device)]
    best = ball.x
    with torch.no_grad():
        best_value = torch.cat([objective(part) for part in torch.split(ball.x, batch_size)])
        every = torch.arange(ball.x.shape[0], device=ball.x.device)
        for rows in torch.split(every, max(1, batch_size // drawn.shape[0])):
            part = ball.rows(slice(int(rows[0]), int(rows[-1]) + 1))
            m = len(part.x)
            moved = part.project(drawn[:, None])  # (candidates, samples, ...)
            values, which = objective(moved.flatten(0, 1)).reshape(-1, m).max(dim=0)
            chosen = moved[which, torch.arange(m, device=which.device)]
            up = each_row(values > best_value[rows], best)
            best = best.index_copy(0, rows, torch.where(up, chosen, best[rows]))
    return best
