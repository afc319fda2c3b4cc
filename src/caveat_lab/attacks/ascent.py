r"""Ascent inside a ball around each input: starts, APGD and monotone PGD.

**Starts.** Certified networks are flat at the input itself, so the start decides how far an attack gets. ``toward_id``
is the strongest against them: project samples of the other side (training images, where confidence is raised) into the
ball, and begin at the one that scores best.

**APGD**, projected gradient ascent with momentum whose step size halves itself where it stops paying:

$$ z = P(x_k + \eta\, \mathrm{sign} \nabla f(x_k)), \qquad x_{k+1} = P(x_k + a(z - x_k) + (1 - a)(x_k - x_{k-1})) $$

with a = 0.75 (1 in the first step) and eta = 2 epsilon at first. Croce and Hein, "Reliable Evaluation of Adversarial
Robustness with an Ensemble of Diverse Parameter-free Attacks", ICML 2020, arXiv:2003.01690, algorithm 1. No early stop
and no class bookkeeping: each sample keeps the largest value of all its iterates, the last one included.

**Monotone PGD**, heavy-ball ascent along the raw gradient that never accepts a fall:

$$ v \leftarrow 0.9\, v + \nabla f(x), \qquad x \leftarrow P(x + \eta v) $$

If the objective did not fall, the step is kept and eta grows by 1.1; otherwise point and velocity go back to the last
accepted ones and eta halves. Each sample has its own eta. Bitterwolf, Meinke and Hein, NeurIPS 2020, appendix A. Where
gradients are tiny but not zero, their sign is noise and their direction is not: this finds what APGD misses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from caveat._internal.checks import Rng, as_rng, check_known
from caveat.errors import InputError

__all__ = ["RANDOM", "STARTS", "Ball", "Climb", "Objective", "apgd", "checkpoints", "climber", "each_row", "make_start",
           "monotone"]  # fmt: skip

Objective = Callable[[Tensor], Tensor]  # inputs (n, ...) to values (n,), which the attack makes large
Climb = Callable[[Tensor], tuple[Tensor, Tensor]]  # inputs to values and their gradient by the inputs
RANDOM = frozenset({"full", "small", "toward_id"})  # these differ from one restart to the next
SMALL = 0.01
MOMENTUM = 0.75
ENOUGH = 0.75  # share of steps since the last checkpoint that must have gone up


@final
@dataclass(frozen=True, eq=False)
class Ball:
    """All inputs within epsilon of x in every entry, and inside the range of inputs.

    Parameters
    ----------
    x
        Inputs, shape (n, ...).
    epsilon
        Radius in every entry.
    clip
        Smallest and largest value of an input; None if inputs are not bounded.

    Examples
    --------
    >>> Ball(torch.tensor([[0.1, 0.5]]), 0.25).project(torch.tensor([[-1.0, 0.6]]))
    tensor([[0.0000, 0.6000]])
    """

    x: Tensor
    epsilon: float
    clip: tuple[float, float] | None = (0.0, 1.0)

    def project(self, z: Tensor) -> Tensor:
        """The nearest input in the ball.

        Parameters
        ----------
        z
            Inputs, shape (n, ...).

        Returns
        -------
        Tensor
            Of the same shape.
        """
        z = torch.minimum(torch.maximum(z, self.x - self.epsilon), self.x + self.epsilon)
        return z if self.clip is None else z.clamp(*self.clip)

    def rows(self, part: slice | Tensor) -> Ball:
        """The ball around some of the inputs.

        Parameters
        ----------
        part
            Which rows.

        Returns
        -------
        Ball
            With the same radius and range.
        """
        return Ball(self.x[part], self.epsilon, self.clip)


def climber(objective: Objective) -> Climb:
    """Value and gradient of an objective in one forward and one backward pass.

    Parameters
    ----------
    objective
        Function of inputs (n, ...) that gives values (n,), which the attack makes large.

    Returns
    -------
    callable
        Function of inputs that gives values (n,) and gradients (n, ...).

    Examples
    --------
    >>> climb = climber(lambda z: z.square().sum(dim=1))
    >>> climb(torch.tensor([[1.0, 2.0]]))
    (tensor([5.]), tensor([[2., 4.]]))
    """

    def climb(z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            values = objective(z)
            if not values.requires_grad:  # the objective does not depend on the input at all
                return values, torch.zeros_like(z)
            (gradient,) = torch.autograd.grad(values.sum(), z)
        return values.detach(), gradient

    return climb


def each_row(values: Tensor, like: Tensor) -> Tensor:
    """Values (n,) in a shape that broadcasts over ``like`` (n, ...)."""
    return values.reshape(-1, *[1] * (like.ndim - 1))


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


STARTS: dict[str, Callable[[Ball, np.random.Generator], Tensor]] = {
    "point": lambda ball, rng: ball.x,
    "small": lambda ball, rng: ball.x + _uniform(ball.x, rng) * min(SMALL, ball.epsilon),
    "full": _full,
    "contrast": _contrast,
    "decontrast": _decontrast,
    "lower": lambda ball, rng: ball.x - ball.epsilon,
}


def make_start(
    name: str, ball: Ball, objective: Objective, rng: Rng, *, candidates: Tensor | None = None, tries: int = 64,
    batch_size: int = 512,
) -> Tensor:  # fmt: skip
    """The start of that name for every sample, inside the ball.

    ``point``: the input. ``small``: up to 0.01 away. ``full``: random, its largest change exactly epsilon.
    ``contrast``: nearly white pixels become white, the rest as dark as the ball allows (GOOD appendix A).
    ``decontrast``: towards the mean of the image (ProoD). ``lower``: everything darker. ``toward_id``: of ``tries``
    candidates drawn and projected into the ball, the best for each sample.

    Parameters
    ----------
    name
        Name of the start.
    ball
        The inputs that are allowed.
    objective
        What the attack makes large; ``toward_id`` compares candidates by it.
    rng
        Seed, or a generator.
    candidates
        Inputs of the other side, for ``toward_id``.
    tries
        Number of candidates.
    batch_size
        Rows per forward pass.

    Returns
    -------
    Tensor
        Points inside the ball, shape (n, ...).

    Examples
    --------
    >>> ball = Ball(torch.tensor([[0.5, 0.9]]), 0.25)
    >>> make_start("contrast", ball, lambda z: z[:, 0], rng=0)
    tensor([[0.2500, 1.0000]])
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


def checkpoints(steps: int) -> list[int]:
    """The numbers of steps, out of ``steps``, after which the step size is revised.

    w_j = ceil(p_j N) with p_0 = 0, p_1 = 0.22, p_{j+1} = p_j + max(p_j - p_{j-1} - 0.03, 0.06); in whole percent, since
    0.57 * 100 is more than 57 in floating point.

    Parameters
    ----------
    steps
        Number of steps N.

    Returns
    -------
    list of int
        The numbers, rising.

    Examples
    --------
    >>> checkpoints(100)
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    before, now, marks = 0, 22, []
    while now <= 100:
        marks.append(-(-now * steps // 100))
        before, now = now, now + max(now - before - 3, 6)
    return sorted(set(marks))


def apgd(climb: Climb, start: Tensor, ball: Ball, *, steps: int = 100) -> tuple[Tensor, Tensor]:
    """The best points found from a start (m, ...) inside the ball, and their values (m,).

    Parameters
    ----------
    climb
        Gives values (m,) and gradients (m, ...); see :func:`climber`.
    start
        Points inside the ball, shape (m, ...).
    ball
        The inputs that are allowed.
    steps
        Number of steps.

    Returns
    -------
    tuple of two Tensor
        Points (m, ...) and their values (m,).

    Examples
    --------
    >>> ball = Ball(torch.tensor([[0.5, 0.5]]), 0.25)
    >>> points, values = apgd(climber(lambda z: z[:, 0] - z[:, 1]), ball.x, ball, steps=10)
    >>> points.tolist(), values.tolist()
    ([[0.75, 0.25]], [0.5])
    """
    marks = checkpoints(steps)
    x = before = start
    value, gradient = climb(x)
    best, best_value, best_gradient = x, value, gradient
    step = torch.full_like(value, 2 * ball.epsilon)
    rises = torch.zeros_like(value)
    seen_value, halved, last = best_value, torch.zeros_like(value, dtype=torch.bool), 0
    for k in range(1, steps + 1):
        target = ball.project(x + each_row(step, x) * gradient.sign())
        moved = target if k == 1 else ball.project(x + MOMENTUM * (target - x) + (1 - MOMENTUM) * (x - before))
        before, x, old = x, moved, value
        value, gradient = climb(x)
        rises += value > old
        up = value > best_value
        best = torch.where(each_row(up, x), x, best)
        best_gradient = torch.where(each_row(up, x), gradient, best_gradient)
        best_value = torch.where(up, value, best_value)
        if k in marks:
            stuck = ~halved & (best_value <= seen_value)
            halved = (rises < ENOUGH * (k - last)) | stuck
            step = torch.where(halved, step / 2, step)
            back = each_row(halved, x)
            x, before = torch.where(back, best, x), torch.where(back, best, before)
            gradient, value = torch.where(back, best_gradient, gradient), torch.where(halved, best_value, value)
            rises, seen_value, last = torch.zeros_like(rises), best_value, k
    return best, best_value


def monotone(
    climb: Climb, start: Tensor, ball: Ball, *, steps: int = 200, rate: float = 0.1, momentum: float = 0.9
) -> tuple[Tensor, Tensor]:
    """The points reached from a start (m, ...) inside the ball, and their values (m,): never below the start's.

    Parameters
    ----------
    climb
        Gives values (m,) and gradients (m, ...); see :func:`climber`.
    start
        Points inside the ball, shape (m, ...).
    ball
        The inputs that are allowed.
    steps
        Number of steps.
    rate
        First step size.
    momentum
        Share of the last step that is kept.

    Returns
    -------
    tuple of two Tensor
        Points (m, ...) and their values (m,).

    Examples
    --------
    >>> ball = Ball(torch.tensor([[0.5, 0.5]]), 0.25)
    >>> points, values = monotone(climber(lambda z: z[:, 0] - z[:, 1]), ball.x, ball, steps=10)
    >>> points.tolist(), values.tolist()
    ([[0.75, 0.25]], [0.5])
    """
    x, velocity = start, torch.zeros_like(start)
    value, gradient = climb(x)
    size = torch.full_like(value, rate)
    for _ in range(steps):
        pushed = momentum * velocity + gradient
        moved = ball.project(x + each_row(size, x) * pushed)
        new_value, new_gradient = climb(moved)
        good = new_value >= value  # a tie is a success
        kept = each_row(good, x)
        x, velocity = torch.where(kept, moved, x), torch.where(kept, pushed, velocity)
        gradient, value = torch.where(kept, new_gradient, gradient), torch.where(good, new_value, value)
        size = torch.where(good, size * 1.1, size * 0.5)
    return x, value
