r"""Length of the feature outside the principal subspace, seen from the point where all logits are equal to nothing.

$$ s(x) = \lVert P^\perp (h - o) \rVert_2, \qquad o = -W^+ b $$

The subspace is spanned by the D' largest eigenvectors of the second moment of the training features about o; their
mean is not removed.

Wang, Li, Feng and Zhang, "ViM: Out-Of-Distribution with Virtual-logit Matching", CVPR 2022, arXiv:2203.10807.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_count
from caveat._internal.params import count
from caveat.outputs import Head, Outputs
from caveat.scores._base import Score
from caveat.scores._pca import principal_directions
from caveat.scores._statistics import ClassMoments, Gathered, Statistic

__all__ = ["Residual"]


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
    cost: ClassVar[str] = "D²"
    paper: ClassVar[str] = "Wang et al. 2022"

    def statistics(self) -> tuple[Statistic, ...]:
        return (ClassMoments(),)

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


def outside_principal_space(
    moments: ClassMoments, head: Head, dimension: int | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The origin o (D,) and an orthonormal basis (D, D - D') of what the principal subspace leaves out."""
    width = head.n_features
    inside = principal_dimension(width) if dimension is None else dimension
    as_count(inside, "dimension", least=0, most=width - 1)
    # Weights that sum to zero over the classes, as training tends to leave them, have a singular value that is zero up
    # to the rounding of their own float type: it must not be inverted.
    rounding = max(head.weight.shape) * float(np.finfo(head.weight.dtype).eps)
    origin = -np.linalg.pinv(head.weight.astype(np.float64), rcond=rounding) @ head.bias.astype(np.float64)
    shift = moments.global_mean - origin
    about_origin = moments.total_scatter + moments.n * np.outer(shift, shift)
    return origin, principal_directions(about_origin)[1][:, inside:]


def residual_length(rows: NDArray[Any], origin: NDArray[np.float64], outside: NDArray[np.float64]) -> NDArray[Any]:
    """Length of each row, seen from the origin, along the basis ``outside``."""
    return np.asarray(np.linalg.norm((rows - origin.astype(rows.dtype)) @ outside.astype(rows.dtype), axis=1))
