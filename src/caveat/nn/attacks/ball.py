"""Where an attacker may go, and what the attacker wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

__all__ = ["Ball", "Climb", "Objective", "climber"]

Objective = Callable[[Tensor], Tensor]  # inputs (n, ...) to values (n,); the attacker wants them large
Climb = Callable[[Tensor], tuple[Tensor, Tensor]]  # inputs to values and their gradient by the inputs


@final
@dataclass(frozen=True, eq=False)
class Ball:
    """All inputs within epsilon of x in every entry, and inside the range of inputs."""

    x: Tensor
    epsilon: float
    clip: tuple[float, float] | None = (0.0, 1.0)

    def project(self, z: Tensor) -> Tensor:
        """The nearest input the attacker can reach."""
        z = torch.minimum(torch.maximum(z, self.x - self.epsilon), self.x + self.epsilon)
        return z if self.clip is None else z.clamp(*self.clip)

    def rows(self, part: slice) -> Ball:
        return Ball(self.x[part], self.epsilon, self.clip)


def climber(objective: Objective) -> Climb:
    """Value and gradient of an objective in one pass forwards and one back."""

    def climb(z: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            z = z.detach().requires_grad_()
            values = objective(z)
            if not values.requires_grad:  # the objective does not depend on the input at all
                return values, torch.zeros_like(z)
            (gradient,) = torch.autograd.grad(values.sum(), z)
        return values.detach(), gradient

    return climb
