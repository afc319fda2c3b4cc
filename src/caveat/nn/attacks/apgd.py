r"""APGD: projected gradient ascent with momentum whose step size halves itself where it stops paying.

$$ z = P(x_k + \eta\, \mathrm{sign} \nabla f(x_k)), \qquad x_{k+1} = P(x_k + a(z - x_k) + (1 - a)(x_k - x_{k-1})) $$

with a = 0.75 (1 in the first step) and eta = 2 epsilon at first. Croce and Hein, "Reliable Evaluation of Adversarial
Robustness with an Ensemble of Diverse Parameter-free Attacks", ICML 2020, arXiv:2003.01690, algorithm 1. No early stop
and no class bookkeeping: each sample keeps the largest value of all its iterates, the last one included.
"""

from __future__ import annotations

import torch
from torch import Tensor

from caveat._internal.checks import as_count
from caveat.nn.attacks.ball import Ball, Climb

__all__ = ["apgd", "checkpoints"]

MOMENTUM = 0.75
ENOUGH = 0.75  # share of steps since the last checkpoint that must have gone up


def checkpoints(steps: int) -> list[int]:
    """After how many of ``steps`` steps the step size is looked at.

    w_j = ceil(p_j N) with p_0 = 0, p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06); in whole percent, since
    0.57 * 100 is more than 57 in floating point.

    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    before, now, found = 0, 22, []
    while now <= 100:
        found.append(-(-now * steps // 100))
        before, now = now, now + max(now - before - 3, 6)
    return sorted(set(found))


def apgd(climb: Climb, start: Tensor, ball: Ball, *, steps: int = 100) -> tuple[Tensor, Tensor]:
    """The best points found from a start (m, ...) inside the ball, and their values (m,).

    Examples
    --------
    >>> from caveat.nn.attacks.ball import climber
    >>> ball = Ball(torch.tensor([[0.5, 0.5]]), 0.25)
    >>> points, values = apgd(climber(lambda z: z[:, 0] - z[:, 1]), ball.x, ball, steps=10)
    >>> points.tolist(), values.tolist()
    ([[0.75, 0.25]], [0.5])
    """
    marks = checkpoints(as_count(steps, "steps"))
    each = (-1, *[1] * (start.ndim - 1))
    x = before = start
    value, gradient = climb(x)
    best, best_value, best_gradient = x, value, gradient
    step = torch.full_like(value, 2 * ball.epsilon)
    rises = torch.zeros_like(value)
    seen_value, halved, last = best_value, torch.zeros_like(value, dtype=torch.bool), 0
    for k in range(1, steps + 1):
        target = ball.project(x + step.reshape(each) * gradient.sign())
        moved = target if k == 1 else ball.project(x + MOMENTUM * (target - x) + (1 - MOMENTUM) * (x - before))
        before, x, old = x, moved, value
        value, gradient = climb(x)
        rises += value > old
        up = value > best_value
        best = torch.where(up.reshape(each), x, best)
        best_gradient = torch.where(up.reshape(each), gradient, best_gradient)
        best_value = torch.where(up, value, best_value)
        if k in marks:
            stuck = ~halved & (best_value <= seen_value)
            halved = (rises < ENOUGH * (k - last)) | stuck
            step = torch.where(halved, step / 2, step)
            back = halved.reshape(each)
            x, before = torch.where(back, best, x), torch.where(back, best, before)
            gradient, value = torch.where(back, best_gradient, gradient), torch.where(halved, best_value, value)
            rises, seen_value, last = torch.zeros_like(rises), best_value, k
    return best, best_value
