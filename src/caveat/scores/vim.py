r"""Residual and virtual-logit matching (ViM): the length of the feature outside the principal subspace.

$$ \text{residual: } s(x) = \lVert P^\perp (h - o) \rVert_2, \qquad o = -W^+ b $$

$$ \text{ViM: } s(x) = \alpha \lVert P^\perp (h - o) \rVert_2 - \log \sum_k \exp z_k(x), \qquad
   \alpha = \frac{\sum_i \max_k z_k(x_i)}{\sum_i \lVert P^\perp (h_i - o) \rVert_2} $$

The subspace is spanned by the D' largest eigenvectors of the second moment of the training features about o, where all
logits are zero; their mean is not removed. ViM takes the residual as one more logit, against the evidence in the real
ones.

Wang, Li, Feng and Zhang, "ViM: Out-Of-Distribution with Virtual-logit Matching", CVPR 2022, arXiv:2203.10807.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.by_row import log_sum_exp, row_lengths, row_max
from caveat._internal.checks import as_count
from caveat._internal.params import count
from caveat._internal.products import row_products
from caveat.errors import CaveatWarning
from caveat.outputs import Head, Outputs
from caveat.scores._base import Score
from caveat.scores._statistics import Accumulator, ClassMoments, Gathered, Merge, Statistic, total
from caveat.scores._subspaces import principal_directions

__all__ = ["Residual", "ViM"]


@final
@dataclass(eq=False)
class Residual(Score):
    """Length of the feature outside the principal subspace of the training features. The larger, the stranger.

    Parameters
    ----------
    dimension
        D', the dimension of the principal subspace; D or more is an error. None: the paper's rule, 1000 from 2048
        features on, 512 from 768 on, else half of them.

    Examples
    --------
    >>> from caveat import Head
    >>> head = Head([[1.0, 0.0], [-1.0, 0.0]])
    >>> train = Outputs(features=[[5.0, 0.1], [-5.0, -0.1]], head=head)
    >>> Residual().fit(train).score(Outputs(features=[[9.0, 0.0], [0.0, 3.0]], head=head)).round(1)
    array([0.2, 3. ])
    """

    dimension: int | None = count(None)

    name: ClassVar[str] = "residual"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        return dimensions_to_try(outputs)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.origin_, self.outside_ = outside_principal_space(gathered[ClassMoments()], train.head, self.dimension)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return residual_length(block.features, self.origin_, self.outside_)


def principal_dimension(width: int) -> int:
    """D' of the ViM paper for D features.

    >>> [principal_dimension(width) for width in (2048, 2047, 768, 767)]
    [1000, 512, 512, 383]
    """
    return 1000 if width >= 2048 else 512 if width >= 768 else width // 2


def dimensions_to_try(outputs: Outputs) -> dict[str, tuple[int | None, ...]]:
    """Values of ``dimension`` for tuning: the default, and from an eighth to seven eighths of the features."""
    width = int(outputs.features.shape[1])
    shares = {width * eighths // 8 for eighths in (1, 2, 3, 5, 6, 7)}
    return {"dimension": (None, *sorted(shares - {0, width, principal_dimension(width)}))}


def outside_principal_space(
    moments: ClassMoments, head: Head, dimension: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The origin o (D,) and an orthonormal basis (D, D - D') of what the principal subspace leaves out."""
    width = head.n_features
    inside = principal_dimension(width) if dimension is None else dimension
    as_count(inside, "dimension", least=0, most=width - 1)
    # Weights that sum to zero over the classes, as training tends to leave them, have a singular value that is zero up
    # to rounding: it must not be inverted. How much rounding there is in float64 depends on the solver that found them.
    rounding = max(head.weight.shape) * float(np.finfo(np.float32).eps)
    origin = -np.linalg.pinv(head.weight.astype(np.float64), rcond=rounding) @ head.bias.astype(np.float64)
    shift = moments.global_mean - origin
    about_origin = moments.total_scatter + moments.n * np.outer(shift, shift)
    return origin, principal_directions(about_origin)[1][:, inside:]


_CACHE_BYTES = 2**20  # of rows: their differences from the origin stay in the cache


def residual_length(
    rows: NDArray[Any], origin: NDArray[np.float64], outside: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Length of each row, seen from the origin, along the basis ``outside``."""
    lengths = np.empty(len(rows))
    for part in row_blocks(len(rows), row_bytes=8 * rows.shape[1], block_bytes=_CACHE_BYTES):
        lengths[part] = row_lengths(row_products(rows[part] - origin, outside))
    return lengths


_SMALLEST_RESIDUAL = 1e-6  # as a share of the training features' length: below it there is only rounding


@final
@dataclass
class VirtualScale(Accumulator):
    """Sums over the training rows: largest logit, length outside the principal space, whole length."""

    dimension: int | None
    origin: NDArray[np.float64] = field(compare=False, repr=False)
    outside: NDArray[Any] = field(compare=False, repr=False)

    reads: ClassVar[tuple[str, ...]] = ("features", "logits")
    merge: ClassVar[Merge] = {"evidence": total, "residual": total, "length": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        rows = {
            "evidence": row_max(block.logits),
            "residual": residual_length(block.features, self.origin, self.outside),
            "length": row_lengths(block.features),
        }
        return {name: float(values.sum(dtype=np.float64)) for name, values in rows.items()}


@final
@dataclass(eq=False)
class ViM(Score):
    """Scaled residual minus the log-sum-exp of the logits. The larger, the stranger.

    Where the training features have no residual at all (fewer rows than D'), it is taken as one millionth of their
    length: any residual of a new sample then outweighs its logits.

    Parameters
    ----------
    dimension
        D', the dimension of the principal subspace, as for :class:`Residual`.

    Examples
    --------
    >>> from caveat import Head
    >>> head = Head([[1.0, 0.0], [-1.0, 0.0]])
    >>> train = Outputs(features=[[5.0, 0.1], [-5.0, -0.1], [5.0, -0.1]], head=head)
    >>> ViM().fit(train).score(Outputs(features=[[9.0, 0.0], [5.0, 3.0]], head=head)).round(0)
    array([ -6., 162.])
    """

    dimension: int | None = count(None)

    name: ClassVar[str] = "vim"
    needs: ClassVar[tuple[str, ...]] = ("features", "logits")
    fits_on: ClassVar[tuple[str, ...]] = ("features", "logits", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (ClassMoments(),)

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        return dimensions_to_try(outputs)

    def _further(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        self.origin_, self.outside_ = outside_principal_space(gathered[ClassMoments()], train.head, self.dimension)
        return (VirtualScale(self.dimension, self.origin_, self.outside_),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        sums = gathered[VirtualScale(self.dimension, self.origin_, self.outside_)]
        if sums.evidence < 0:
            warnings.warn("the largest training logit is negative on average, so the residual of ViM counts backwards. "
                          "Pass logits, not log-probabilities.", CaveatWarning, stacklevel=5)  # fmt: skip
        residual = max(sums.residual, _SMALLEST_RESIDUAL * sums.length, np.finfo(np.float64).tiny)
        self.alpha_ = sums.evidence / residual

    def _score(self, block: Outputs) -> NDArray[Any]:
        residual = residual_length(block.features, self.origin_, self.outside_)
        return np.asarray(self.alpha_ * residual - log_sum_exp(block.logits))
