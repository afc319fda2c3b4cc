r"""The arithmetic that a certificate is about, and what rounding can change in it.

One operation is off by a factor 1 + d with |d| <= u, the unit roundoff, and by ``tiny`` where its result underflows. A
sum of n products, in any order and with or without fused operations, is off by at most

$$ \gamma_n \sum_i |w_i| |x_i|, \qquad \gamma_n = \frac{n u}{1 - n u} $$

Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM 2002, sections 3.1 and 3.5. Kernels that add up
half precision in float32 and round once are within the same bound. Where n u >= 1 there is no bound. Convolutions by
Winograd's or by Fourier transforms are not sums of these products: they are not covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import Any, final

import torch
from torch import Tensor, nn

from caveat.errors import InputError

__all__ = ["FLOAT64", "REAL", "Arithmetic", "arithmetic_of"]

_OWN = torch.finfo(torch.float64).eps  # bounds are computed in float64, twice its unit roundoff
# Types from the finest to the coarsest.
_TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
# What cutting off the digits of a factor can change, relative to it, by the precision that torch is set to.
_COARSER_PRODUCTS = {"bf16": ("bfloat16", 2.0**-8), "tf32": ("TF32", 2.0**-10)}


@final
@dataclass(frozen=True)
class Arithmetic:
    """Floating-point numbers and what they can be off by.

    Parameters
    ----------
    name
        Such as ``"float32"``.
    dtype
        Type of the inputs.
    unit
        Unit roundoff u; 0 for real numbers.
    tiny
        Results below it may become 0.
    largest
        Results beyond it may become infinite.
    products
        What rounding the factors of a product further can change in it, relative to it.

    Examples
    --------
    >>> FLOAT64.lost(3) / FLOAT64.unit, REAL.lost(3)
    (3.000000000000001, 0.0)
    """

    name: str
    dtype: torch.dtype
    unit: float
    tiny: float
    largest: float
    products: float = 0.0

    def lost(self, terms: int) -> float:
        """gamma_n: what a network's sum of n products is off by, relative to the sum of their sizes.

        Parameters
        ----------
        terms
            The number of products.

        Returns
        -------
        float
            Infinite where there is no bound.
        """
        steps = terms * self.unit
        if steps >= 1:
            return math.inf
        gamma = steps / (1 - steps)
        return gamma + self.products * (1 + gamma)

    def relative(self, terms: int) -> float:
        """The same for the network and for its bound together, whose own sums are in float64.

        Parameters
        ----------
        terms
            The number of products.

        Returns
        -------
        float
            With room for a bias and a last conversion; infinite where there is no bound.
        """
        return 2 * (terms + 4) * _OWN + self.lost(terms + 2)  # with a bias, and a last conversion

    def underflow(self, terms: int, size: Tensor) -> float:
        """What a sum of products may lose where they, or factors, are too small and become 0.

        Parameters
        ----------
        terms
            The number of products.
        size
            Sizes of the factors.

        Returns
        -------
        float
            The absolute error.
        """
        return self.tiny * terms * (1 + float(size.detach().max())) if self.tiny else 0.0

    def cast(self, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        """The ends of what float64 inputs between two ends become when they are cast to this type.

        A cast keeps the order of numbers, so the ends of the inputs become those of the result.

        Parameters
        ----------
        lower, upper
            The ends, in float64.

        Returns
        -------
        tuple of Tensor
            The ends after the cast, in float64.
        """
        return tuple(end.to(self.dtype).to(end.dtype) for end in (lower, upper))  # type: ignore[return-value]

    def in_range(self, value: Tensor, size: Tensor, most: float = 1.0) -> Tensor:
        """A value that is infinite where sums may overflow: there is no bound then.

        Parameters
        ----------
        value
            Such as the radius of a box.
        size
            The largest sums that may occur.
        most
            The largest number is multiplied by this before the comparison.

        Returns
        -------
        Tensor
            ``value``, or infinity.
        """
        limit = self.largest * most
        return value if math.isinf(limit) else value.masked_fill(size > limit, torch.inf)


_DOUBLE = torch.finfo(torch.float64)
REAL = Arithmetic("real", torch.float64, 0.0, 0.0, math.inf)
FLOAT64 = Arithmetic("float64", torch.float64, _DOUBLE.eps / 2, _DOUBLE.smallest_normal, _DOUBLE.max)


def arithmetic_of(model: nn.Module) -> Arithmetic:
    """The arithmetic that a model computes in: that of its coarsest float type.

    Float32 products may be coarser by a setting of torch: TF32 on a GPU, bfloat16 anywhere; then so is the result.

    Parameters
    ----------
    model
        Any module.

    Returns
    -------
    Arithmetic
        Float32 for a model without numbers, unless torch has another default.

    Examples
    --------
    >>> arithmetic_of(nn.Linear(2, 2)).name, arithmetic_of(nn.Linear(2, 2).bfloat16()).name
    ('float32', 'bfloat16')
    """
    tensors = [value for value in chain(model.parameters(), model.buffers()) if value.is_floating_point()]
    types = {value.dtype for value in tensors} or {torch.get_default_dtype()}
    if strange := types - set(_TYPES):
        raise InputError(
            f"the float type of the weights must be one of {', '.join(map(_name, _TYPES))}, got "
            f"{', '.join(sorted(map(_name, strange)))}. Convert the model with .float()."
        )
    dtype = max(types, key=_TYPES.index)
    limits = torch.finfo(dtype)
    # Half precision keeps its subnormal numbers; the others may be set to flush them to 0.
    tiny = limits.smallest_normal * limits.eps if dtype == torch.float16 else limits.smallest_normal
    on_cpu = all(value.device.type == "cpu" for value in tensors)
    name, unit = _coarser_products(on_cpu) if dtype == torch.float32 else ("", 0.0)
    label = f"{_name(dtype)} with {name} products" if name else _name(dtype)
    return Arithmetic(label, dtype, limits.eps / 2, tiny, limits.max, (1 + unit) ** 2 - 1)


def _coarser_products(on_cpu: bool) -> tuple[str, float]:
    """What torch is allowed to round the factors of float32 products to, in any of its layers."""
    kinds: Any = torch.backends
    places = [kinds, kinds.mkldnn, kinds.mkldnn.matmul, kinds.mkldnn.conv]
    if not on_cpu:
        places += [kinds.cudnn, kinds.cudnn.conv, kinds.cuda.matmul]
    allowed = {place.fp32_precision for place in places}
    return next((coarser for kind, coarser in _COARSER_PRODUCTS.items() if kind in allowed), ("", 0.0))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
