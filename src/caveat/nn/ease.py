r"""Small changes of the input that do not change the prediction of an easy sample.

$$ E(x) = \frac1L \sum_{l=1}^{L} \operatorname{sim}(f(x), f(t_l(x))) $$

The transformations $t_l$ of Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input
Transformations", eq. (1): Gaussian noise with a standard deviation of 0.03 to 0.10 (the paper tunes it), and, in its
appendix C.2, brightness, contrast and saturation, with L = 10 to 50 copies. ``extract(..., transforms=[...])`` runs the
model on one copy per entry and stores its probabilities as ``ease_probs``, from which ``conformal.ease`` is computed.

Noise is added in the units of the model's input. The other three multiply or mix pixels with values from 0 to 1: do not
standardize the inputs, standardize inside the model instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, final

import torch
from torch import Tensor

from caveat._internal.params import check_params, positive
from caveat.errors import InputError

__all__ = ["Brightness", "Contrast", "GaussianNoise", "Saturation", "Transform"]

_GRAY = (0.299, 0.587, 0.114)  # luma weights of ITU-R BT.601


class Transform(Protocol):
    """A changed copy (n, ...) of the inputs (n, ...), random through ``generator`` alone.

    Examples
    --------
    >>> def mirrored(inputs, generator):
    ...     return inputs.flip(-1)
    >>> mirrored(torch.tensor([[1.0, 2.0]]), torch.Generator())
    tensor([[2., 1.]])
    """

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """A changed copy of the inputs.

        Parameters
        ----------
        inputs
            Shape (n, ...).
        generator
            The source of randomness.

        Returns
        -------
        Tensor
            Of the same shape.
        """


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

    sigma: float = positive(0.05)

    def __post_init__(self) -> None:
        check_params(self)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """A noisy copy of the inputs.

        Parameters
        ----------
        inputs
            Shape (n, ...).
        generator
            The source of randomness.

        Returns
        -------
        Tensor
            Of the same shape.
        """
        noise = torch.randn(inputs.shape, generator=generator, dtype=torch.float32)
        return inputs + self.sigma * noise.to(inputs)


@dataclass(frozen=True)
class _Jitter(ABC):
    """A change with a factor f, uniform in [1 - strength, 1 + strength] for each image."""

    strength: float = positive(0.2)

    def __post_init__(self) -> None:
        check_params(self)

    @abstractmethod
    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """A changed copy of the inputs.

        Parameters
        ----------
        inputs
            Shape (n, ...).
        generator
            The source of randomness.

        Returns
        -------
        Tensor
            Of the same shape.
        """

    def _factors(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        shares = torch.rand((inputs.shape[0], *[1] * (inputs.ndim - 1)), generator=generator, dtype=torch.float32)
        return (1 + self.strength * (2 * shares - 1)).to(inputs)


@final
@dataclass(frozen=True)
class Brightness(_Jitter):
    """f x, with f uniform in [1 - strength, 1 + strength] for each image.

    Parameters
    ----------
    strength
        Largest relative change.

    Examples
    --------
    >>> changed = Brightness(0.5)(torch.ones(1, 1, 2, 2), torch.Generator().manual_seed(0))
    >>> changed.unique().numel(), 0.5 <= changed.max().item() <= 1.5
    (1, True)
    """

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return inputs * self._factors(inputs, generator)


@final
@dataclass(frozen=True)
class Contrast(_Jitter):
    """f x + (1 - f) m, with m the mean gray of the image and f as for the brightness.

    Parameters
    ----------
    strength
        Largest relative change.

    Examples
    --------
    >>> gray = torch.full((1, 1, 2, 2), 0.5)  # an image without contrast does not change
    >>> Contrast(0.5)(gray, torch.Generator().manual_seed(0)).flatten()
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        mean = _gray(inputs).flatten(1).mean(dim=1).reshape(-1, *[1] * (inputs.ndim - 1))
        return torch.lerp(mean, inputs, self._factors(inputs, generator))


@final
@dataclass(frozen=True)
class Saturation(_Jitter):
    """f x + (1 - f) g, with g the gray image and f as for the brightness. Needs three channels.

    Parameters
    ----------
    strength
        Largest relative change.

    Examples
    --------
    >>> red = torch.tensor([1.0, 0.0, 0.0]).reshape(1, 3, 1, 1)
    >>> Saturation(0.5)(red, torch.Generator().manual_seed(0)).shape
    torch.Size([1, 3, 1, 1])
    """

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        if inputs.ndim != 4 or inputs.shape[1] != 3:
            raise InputError(f"Saturation needs color images (n, 3, height, width), got {tuple(inputs.shape)}.")
        return torch.lerp(_gray(inputs).expand_as(inputs), inputs, self._factors(inputs, generator))


def _gray(inputs: Tensor) -> Tensor:
    """Gray images (n, 1, ...) of color ones; anything else is gray already."""
    if inputs.ndim != 4 or inputs.shape[1] != 3:
        return inputs
    weights = torch.tensor(_GRAY, dtype=inputs.dtype, device=inputs.device).reshape(1, 3, 1, 1)
    return (inputs * weights).sum(dim=1, keepdim=True)
