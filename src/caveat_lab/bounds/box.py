r"""A box of tensors, by its center and its radius.

$$ \{ z : |z - c| \le r \} $$

entry by entry. Through an affine map the center goes as a point does, c' = W c + b, and the radius through the absolute
weights, r' = |W| r: two products instead of the four of Bitterwolf, Meinke and Hein, "Certifiably Adversarially Robust
Detection of Out-of-Distribution Data", NeurIPS 2020, eq. (3), and the same box.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from caveat.errors import InputError
from caveat_lab.bounds.arithmetic import REAL, Arithmetic

__all__ = ["Box", "cast_box", "check_range", "input_box", "per_sample"]


@final
@dataclass(frozen=True, eq=False)
class Box:
    """All tensors within ``radius`` of ``center``, entry by entry; rows are samples.

    Parameters
    ----------
    center, radius
        Tensors of one shape; no radius is negative.

    Examples
    --------
    >>> box = Box.between(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 2.0]))
    >>> box.center, box.radius
    (tensor([0.5000, 2.0000]), tensor([0.5000, 0.0000]))
    """

    center: Tensor
    radius: Tensor

    @classmethod
    def between(cls, lower: Tensor, upper: Tensor) -> Box:
        """The box between two corners.

        Parameters
        ----------
        lower, upper
            Smallest and largest value of each entry.

        Returns
        -------
        Box
            With its center halfway.
        """
        center = (lower + upper) / 2
        return cls(center, upper - center)

    @property
    def lower(self) -> Tensor:
        return self.center - self.radius

    @property
    def upper(self) -> Tensor:
        return self.center + self.radius

    @property
    def shape(self) -> torch.Size:
        return self.center.shape

    def widened(self, terms: int, slack: Arithmetic = REAL) -> Box:
        """A box that also holds the rounding of a sum of ``terms`` products with entries of this box.

        A sum of k products is off by at most gamma_k (|W| |c| + |b|). Because the radius goes through |W| as well,
        moving gamma_k |c| into it pays for the sum before it is made.

        Parameters
        ----------
        terms
            Number of products in a sum.
        slack
            The arithmetic of the network. Default: real numbers, so that only the bound itself is rounded.

        Returns
        -------
        Box
            The wider box.
        """
        size = torch.abs(self.center).add_(self.radius)
        radius = (size * slack.relative(terms)).add_(self.radius)
        return Box(self.center, slack.in_range(radius, size))


def cast_box(box: Box, slack: Arithmetic) -> Box:
    """The box, and what becomes of its inputs when they are cast to the type of a network."""
    if slack.dtype == box.center.dtype:
        return box
    box = box.widened(1)  # its ends are rounded
    ends = slack.cast(box.lower, box.upper)
    box = Box.between(torch.minimum(ends[0], box.lower), torch.maximum(ends[1], box.upper))
    return Box(box.center, box.radius + slack.tiny)  # the center may underflow


def input_box(x: Tensor, epsilon: float | Tensor, clip: tuple[float, float] | None = (0.0, 1.0)) -> Box:
    r"""The inputs an attacker can reach: within epsilon of x in every entry, and inside the range of inputs.

    $$ \{ z \in [0,1]^d : \|z - x\|_\infty \le \epsilon \} $$

    Parameters
    ----------
    x
        Inputs (n, ...).
    epsilon
        The radius; one number, or one for each sample (n,).
    clip
        Smallest and largest value an input can have; None if inputs are not bounded.

    Returns
    -------
    Box
        One box per sample.

    Examples
    --------
    >>> box = input_box(torch.tensor([[0.1, 0.5]]), 0.3)
    >>> box.lower, box.upper
    (tensor([[0.0000, 0.2000]]), tensor([[0.4000, 0.8000]]))
    """
    reach = per_sample(epsilon, x)
    if clip is None:
        return Box(x, reach.expand_as(x))
    low, high = clip
    check_range(x, clip)
    return Box.between((x - reach).clamp(min=low), (x + reach).clamp(max=high))


def check_range(x: Tensor, clip: tuple[float, float]) -> None:
    """Raise unless inputs lie inside their range: a ball around another one, cut off there, is empty."""
    if not clip[0] < clip[1]:
        raise InputError(f"clip must be (smallest, largest), got {clip!r}.")
    least, most = (float(end) for end in torch.aminmax(x.detach()))
    if not clip[0] <= least <= most <= clip[1]:
        raise InputError(f"x must lie between {clip[0]:g} and {clip[1]:g}, got values from {least!r} to {most!r}. "
                         "Put the normalization into the model, or pass clip=None.")  # fmt: skip


def per_sample(epsilon: float | Tensor, x: Tensor) -> Tensor:
    """Epsilon as a tensor that broadcasts over x: one number, or one for each sample."""
    reach: Any = torch.as_tensor(epsilon, dtype=x.dtype, device=x.device)
    if reach.ndim:
        if reach.shape != x.shape[:1]:
            raise InputError(f"epsilon must be one number or one per sample ({x.shape[0]},), got {tuple(reach.shape)}.")
        reach = reach.reshape(-1, *[1] * (x.ndim - 1))
    return reach  # type: ignore[no-any-return]
