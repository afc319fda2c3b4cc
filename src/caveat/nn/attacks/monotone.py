r"""Monotone PGD: heavy-ball ascent along the raw gradient that never accepts a fall.

$$ v \leftarrow 0.9\, v + \nabla f(x), \qquad x \leftarrow P(x + \eta v) $$

If the objective did not fall, the step is kept and eta grows by 1.1; otherwise point and velocity go back to the last
accepted ones and eta halves. Each sample has its own eta. Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix A. Where
gradients are tiny but not zero, their sign is noise and their direction is not: this finds what APGD misses.
"""

from __future__ import annotations

import torch
from torch import Tensor

from caveat._internal.checks import as_count
from caveat.nn.attacks.ball import Ball, Climb

__all__ = ["monotone"]


def monotone(
    climb: Climb, start: Tensor, ball: Ball, *, steps: int = 200, rate: float = 0.1, momentum: float = 0.9
) -> tuple[Tensor, Tensor]:
    """The points reached from a start (m, ...) inside the ball, and their values (m,): never below the start's.

    Examples
    --------
    >>> from caveat.nn.attacks.ball import climber
    >>> ball = Ball(torch.tensor([[0.5, 0.5]]), 0.25)
    >>> points, values = monotone(climber(lambda z: z[:, 0] - z[:, 1]), ball.x, ball, steps=10)
    >>> points.tolist(), values.tolist()
    ([[0.75, 0.25]], [0.5])
    """
    each = (-1, *[1] * (start.ndim - 1))
    x, velocity = start, torch.zeros_like(start)
    value, gradient = climb(x)
    size = torch.full_like(value, rate)
    for _ in range(as_count(steps, "steps")):
        pushed = momentum * velocity + gradient
        moved = ball.project(x + size.reshape(each) * pushed)
        new_value, new_gradient = climb(moved)
        good = new_value >= value  # a tie is a success
        kept = good.reshape(each)
        x, velocity = torch.where(kept, moved, x), torch.where(kept, pushed, velocity)
        gradient, value = torch.where(kept, new_gradient, gradient), torch.where(good, new_value, value)
        size = torch.where(good, size * 1.1, size * 0.5)
    return x, value
