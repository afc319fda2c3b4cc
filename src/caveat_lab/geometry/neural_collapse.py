r"""How close a trained network is to neural collapse, as seen in its features and its last layer.

Papyan, Han and Donoho, "Prevalence of neural collapse during the terminal phase of deep learning training", PNAS
117(40), 2020; the selection and the projections are those of Claros-Olivares and Brockmeier, "A Systematic Analysis of
Out-of-Distribution Detection ...", sections 3.2 and 3.4 and appendix D. With class means $\mu_c$, global mean $\mu$,
$\tilde\mu_c = \mu_c - \mu$, $M = [\tilde\mu_c]$, weights $w_c$ and C classes; every number is 0 at full collapse:

- equinorm: std / mean of $\|\tilde\mu_c\|$ (and of $\|w_c\|$)
- equiangularity: std over pairs of $\cos(\tilde\mu_c, \tilde\mu_{c'})$ (and of the weights)
- maximal equiangularity: mean over pairs of $|\cos + 1/(C - 1)|$ (and of the weights)
- variability collapse: $\mathrm{tr}(\Sigma_W \Sigma_B^+) / C$, $\Sigma_W$ the covariance about the class means (the
  paper prints the global mean), $\Sigma_B$ the mean of $\tilde\mu_c \tilde\mu_c^T$
- self-duality: $\| W^T / \|W\|_F - M / \|M\|_F \|_F^2$
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.checks import as_share, check_known, check_result
from caveat.errors import InputError
from caveat.outputs import Head, Outputs
from caveat.outputs.outputs import demand
from caveat.scores._statistics import ClassMoments, demand_every_class, gather
from caveat.scores._subspaces import class_subspaces, principal_axes, stacked
from caveat.scores._subspaces import within as filtered

__all__ = ["NeuralCollapse", "neural_collapse"]

Projection = Literal["none", "global", "class_pred"]


@final
@dataclass(frozen=True)
class NeuralCollapse:
    """The metrics of one network under one projection. Lower is nearer to collapse; None needs the head.

    Parameters
    ----------
    projection
        Name of the projection of the features, or ``"none"``.
    equinorm, equiangularity, max_equiangularity
        How unequal the class means are in norm and in angle, and how far their angles are from the largest common one.
    variability
        Variability within the classes relative to that between them.
    self_duality
        How far the head is from the class means.
    weight_equinorm, weight_equiangularity, weight_max_equiangularity
        The same as for the class means, of the rows of the head.
    n, n_classes
        Number of training rows and of classes.
    caveat
        A warning in one sentence, or empty.

    Examples
    --------
    >>> labels = np.arange(30) % 3
    >>> frame = np.eye(3) - 1 / 3
    >>> metrics = neural_collapse(Outputs(features=frame[labels], labels=labels, head=Head(frame)))
    >>> round(metrics.equinorm, 6), round(metrics.self_duality, 6), metrics.n_classes
    (0.0, 0.0, 3)
    """

    projection: str
    equinorm: float
    equiangularity: float
    max_equiangularity: float
    variability: float
    self_duality: float | None
    weight_equinorm: float | None
    weight_equiangularity: float | None
    weight_max_equiangularity: float | None
    n: int
    n_classes: int
    caveat: str = ""


def neural_collapse(outputs: Outputs, *, projection: Projection = "none", variance: float = 0.95) -> NeuralCollapse:
    """Neural-collapse metrics of a network's training outputs, in row blocks.

    Parameters
    ----------
    outputs
        Features and labels; with a head, the metrics of the weights and self-duality too. ``"class_pred"`` also needs
        predictions.
    projection
        ``"none"``; ``"global"``: features are filtered to the principal subspace of all of them; ``"class_pred"``: to
        the subspace of the class that was predicted.
    variance
        Share of the variance that a subspace must hold; it has as few directions as that takes.

    Returns
    -------
    NeuralCollapse
        One number for each metric; lower is nearer to collapse.

    Examples
    --------
    >>> frame = np.eye(3) - 1 / 3  # a simplex: three directions at 120 degrees
    >>> labels = np.tile([0, 1, 2], 50)
    >>> noise = np.random.default_rng(0).normal(size=(150, 3)) * 0.01
    >>> metrics = neural_collapse(Outputs(features=frame[labels] + noise, labels=labels, head=Head(frame)))
    >>> metrics.equinorm < 0.01, metrics.max_equiangularity < 0.01, metrics.self_duality < 0.001
    (True, True, True)
    """
    check_known(projection, ("none", "global", "class_pred"), "projection")
    as_share(variance, "variance")
    by = ("predictions",) if projection == "class_pred" else ()
    demand(outputs, "features", "labels", *by, who="neural_collapse")
    counts = np.bincount(outputs.labels, minlength=outputs.n_classes or 1)
    demand_every_class(counts, "neural_collapse")
    if counts.size < 2:
        raise InputError(f"neural_collapse needs at least 2 classes, got {counts.size}.")
    if projection == "class_pred":
        moments = _class_projected(outputs, variance)
    else:
        moments = gather(outputs, [ClassMoments()])[ClassMoments()]
    means, within = moments.means, moments.within_scatter / moments.n
    if projection == "global":
        basis = principal_axes(moments.total_scatter, variance).T
        center = moments.global_mean
        means = (means - center) @ basis @ basis.T + center
        within = basis @ (basis.T @ within @ basis) @ basis.T
    kind = np.promote_types(np.float32, outputs.features.dtype)
    return _measure(projection, moments, means, within, outputs.head, float(np.finfo(kind).eps))


def _measure(
    projection: str, moments: ClassMoments, means: NDArray[np.float64], within: NDArray[np.float64], head: Head | None,
    rounding: float,
) -> NeuralCollapse:  # fmt: skip
    centered = means - moments.counts @ means / moments.n
    equinorm, equiangularity, maximal = _frame(centered, "class means")
    of_weights: tuple[float | None, ...] = (None, None, None)
    duality, caveat = None, ""
    if head is not None:
        weights = head.weight.astype(np.float64)
        of_weights = _frame(weights, "weights")
        duality = float(np.sum((weights / np.linalg.norm(weights) - centered / np.linalg.norm(centered)) ** 2))
    smallest, largest = moments.counts.min(), moments.counts.max()
    if smallest != largest:
        caveat = (f"Classes have {smallest:.0f} to {largest:.0f} samples: the global mean leans to the large ones, and "
                  "the variability collapse grows with that offset.")  # fmt: skip
    return NeuralCollapse(
        projection=projection,
        equinorm=equinorm,
        equiangularity=equiangularity,
        max_equiangularity=maximal,
        variability=_variability(centered, within, size=float(np.linalg.norm(means)), rounding=rounding),
        self_duality=duality,
        weight_equinorm=of_weights[0],
        weight_equiangularity=of_weights[1],
        weight_max_equiangularity=of_weights[2],
        n=int(moments.n),
        n_classes=moments.counts.size,
        caveat=caveat,
    )


def _frame(vectors: NDArray[np.float64], what: str) -> tuple[float, float, float]:
    """Equinorm, equiangularity and maximal equiangularity of C vectors."""
    norms = check_result(np.linalg.norm(vectors, axis=1), f"the length of the {what}")
    if (norms == 0).any():
        raise InputError(f"class {int(np.argmin(norms))} of the {what} is the zero vector, which has no direction.")
    unit = vectors / norms[:, None]
    cosines = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
    to_simplex = np.abs(cosines + 1 / (len(unit) - 1))
    return float(norms.std() / norms.mean()), float(cosines.std()), float(to_simplex.mean())


def _variability(centered: NDArray[np.float64], within: NDArray[np.float64], *, size: float, rounding: float) -> float:
    # Sigma_B = M M^T / C has the singular vectors of M, so its pseudo-inverse needs no D x D decomposition. Centered
    # means of equal classes have one direction less than classes; it shows up as rounding of the means themselves. The
    # features behind a layer normalization have one direction less, too, up to the rounding of their own float type.
    _, singular, directions = np.linalg.svd(centered, full_matrices=False)
    kept = singular > size * max(10 * max(centered.shape) * np.finfo(np.float64).eps, rounding)
    spread = np.einsum("ij,jk,ik->i", directions[kept], within, directions[kept], optimize=True)
    return float(np.sum(spread / singular[kept] ** 2))  # the factor C of the pseudo-inverse and the 1 / C cancel


def _class_projected(outputs: Outputs, variance: float) -> ClassMoments:
    """Moments, by label, of the features filtered to the subspace of their predicted class."""
    kind = np.promote_types(np.float32, outputs.features.dtype)
    means, axes, starts = stacked(class_subspaces(outputs, variance), kind)
    projected = ClassMoments()
    projected.begin(outputs)
    for block in outputs.blocks(("features", "labels", "predictions")):
        rows = filtered(block.features, block.predictions, means, axes, starts)
        projected.update(Outputs(features=rows, labels=block.labels, check=False))
    return projected
