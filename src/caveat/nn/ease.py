r"""Small changes of the input that leave an easy sample's prediction alone.

$$ E(x) = \frac1L \sum_{l=1}^{L} \operatorname{sim}(f(x), f(t_l(x))) $$

The transformations $t_l$ of Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input
Transformations", eq. (1): Gaussian noise with a standard deviation of 0.03 to 0.10 (the paper tunes it), and, in its
appendix C.2, brightness, contrast and saturation, with L = 10 to 50 copies. ``extract(..., transforms=[...])`` runs the
model on one copy per entry and stores its probabilities as ``ease_probs``; ``conformal.ease`` makes the ease of them.

Noise is added in the units of the model's input. The other three multiply or mix pixels, as one does with values from 0
to 1: on inputs that were standardised, standardise inside the model instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor

from caveat._internal.checks import as_positive
from caveat.errors import InputError

__all__ = ["Brightness", "Contrast", "GaussianNoise", "Saturation", "Transform"]

_GREY = (0.299, 0.587, 0.114)  # luma weights of ITU-R BT.601


class Transform(Protocol):
    """A changed copy (n, ...) of the inputs (n, ...), random through ``generator`` alone."""

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor: ...


@final
@dataclass(frozen=True)
class GaussianNoise:
    """x + d, d ~ N(0, sigma^2) for every value.

    Parameters
    ----------
    sigma
        Standard deviation in the units of the input.

    Examples
    --------
    >>> noisy = GaussianNoise(0.1)(torch.zeros(500, 3), torch.Generator().manual_seed(0))
    >>> round(noisy.std().item(), 2)
    0.1
    """

    sigma: float = 0.05

    def __post_init__(self) -> None:
        as_positive(self.sigma, "sigma")

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float32)
        return inputs + self.sigma * noise.to(inputs)


@final
@dataclass(frozen=True)
class Brightness:
    """f x, with f uniform in [1 - strength, 1 + strength] for each image."""

    strength: float = 0.2

    def __post_init__(self) -> None:
        as_positive(self.strength, "strength")

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return inputs * _factors(inputs, self.strength, generator)


@final
@dataclass(frozen=True)
class Contrast:
    """f x + (1 - f) m, with m the mean grey of the image and f as for the brightness."""

    strength: float = 0.2

    def __post_init__(self) -> None:
        as_positive(self.strength, "strength")

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        mean = _grey(inputs).flatten(1).mean(dim=1).reshape(-1, *[1] * (inputs.ndim - 1))
        return torch.lerp(mean, inputs, _factors(inputs, self.strength, generator))


@final
@dataclass(frozen=True)
class Saturation:
    """f x + (1 - f) g, with g the grey image and f as for the brightness. Needs three channels."""

    strength: float = 0.2

    def __post_init__(self) -> None:
        as_positive(self.strength, "strength")

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        if inputs.ndim != 4 or inputs.shape[1] != 3:
            raise InputError(f"Saturation needs colour images (n, 3, height, width), got {tuple(inputs.shape)}.")
        return torch.lerp(_grey(inputs).expand_as(inputs), inputs, _factors(inputs, self.strength, generator))


def _factors(inputs: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    shares = torch.rand((inputs.shape[0], *[1] * (inputs.ndim - 1)), generator=generator, dtype=torch.float32)
    return (1 + strength * (2 * shares - 1)).to(inputs)


def _grey(inputs: Tensor) -> Tensor:
    """Grey images (n, 1, ...) of colour ones; anything else is grey already."""
    if inputs.ndim != 4 or inputs.shape[1] != 3:
        return inputs
    weights = torch.tensor(_GREY, dtype=inputs.dtype, device=inputs.device).reshape(1, 3, 1, 1)
    return (inputs * weights).sum(dim=1, keepdim=True)
