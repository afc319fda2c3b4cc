r"""Reconstruction error of kernel principal components on the unit sphere.

$$ s(x) = \frac{\lVert \psi - \hat\psi \rVert_2}{\lVert \psi \rVert_2}, \qquad \hat\psi = U U^\top (\psi - \mu) + \mu $$

where $\psi$ is an explicit map with $\psi(h)^\top \psi(h') \approx \exp(-(1 - \cos(h, h')) / \sigma^2)$, the Gaussian
kernel of width $\sigma$ between features scaled to length one. Two maps, two estimators:

- Nystroem: $\psi(h) = K_{mm}^{-1/2} k_m(h)$, kernel values with the M training rows the model was least sure of.
- Fourier: $\psi(h) = \sqrt{2/M}\,(\cos \omega_j^\top h, \sin \omega_j^\top h)_j$ with M/2 random frequencies
  $\omega_j \sim N(0, \sigma^{-2} I)$.

Without a width of the caller's choice, $\sigma^2 = 1 - \lVert \bar h \rVert^2$ with $\bar h$ the mean of the training
features of length one. This is half the mean squared distance between two of them, so that the kernel of a typical pair
is $1/e$. It is the median heuristic (Gretton, Borgwardt, Rasch, Schoelkopf and Smola, JMLR 13, 2012, section 8) with
the mean of the squares in place of the median, since that comes from one walk and adds up over parts.

Fang, Tao, Lv, He, Huang and Yang, "Kernel PCA for Out-of-Distribution Detection", NeurIPS 2024, arXiv:2402.02949, and
its extension "Non-Linear Kernel Selections and Approximations", 2025, arXiv:2505.15284.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from caveat._internal.blocks import by_row_blocks, row_blocks
from caveat._internal.params import check_params, choice, count, level, positive
from caveat._internal.products import row_products
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.scores._base import Score
from caveat.scores._statistics import ClassMoments, FeatureMean, Gathered, Merge, Statistic, unit_rows
from caveat.scores._subspaces import components_for, principal_directions

__all__ = ["KernelPCAError", "LeastConfident", "MappedMoments"]

_NARROWEST = 1e-3  # kernel: features that all point the same way differ by rounding alone
_LEAST, _MOST = 128, 2048  # landmarks or Fourier features, unless the caller says how many
_SMALLEST_EIGENVALUE = 1e-7  # of the landmark kernel, as a share of its largest: below it float32 has only rounding


@final
@dataclass(eq=False)
class KernelPCAError(Score):
    """Share of the kernel feature's length outside the kernel principal subspace. The larger, the stranger.

    Parameters
    ----------
    features
        ``"nystrom"``: landmarks, the training rows with the smallest log-sum-exp of their logits; ``fit`` needs
        logits. ``"fourier"``: random frequencies; ``fit`` needs features alone.
    size
        M: the number of landmarks (all training rows where there are fewer), or of Fourier features, an even number.
        None: two for each of the D features, at least 128 and at most 2048. The run scripts that the authors publish
        take 0.75 D to 4 D, most often 2048.
    width
        Of the kernel (sigma in the formula), between features of length one. None: from the training features, as
        said above. Neither default was chosen by how well it finds outliers; ``tune`` chooses on held-out inliers.
    variance
        Share of the variance of the mapped training features that the subspace holds.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 0.1 * i] for i in range(9)])
    >>> score = KernelPCAError(features="fourier").fit(train)
    >>> score.score(Outputs(features=[[2.0, 0.5], [-1.0, 1.0]])).round(1)
    array([0. , 1.2])
    """

    features: Literal["nystrom", "fourier"] = choice("nystrom", ("nystrom", "fourier"), "features of score kpca_error")
    size: int | None = count(None, least=2)
    width: float | None = positive(None)
    variance: float = level(0.99)

    name: ClassVar[str] = "kpca_error"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "width": (None, 0.3, 0.5, 0.7, 1.0, 1.5),
        "variance": (0.5, 0.9, 0.99, 0.999),
    }

    def __post_init__(self) -> None:
        check_params(self)
        if self.features == "fourier" and (self.size or 0) % 2:
            raise InputError(f"size must be even for Fourier features (a cosine and a sine each), got {self.size}.")

    def can_fit(self, train: Outputs) -> None:
        super().can_fit(train)
        if self.features == "nystrom":
            demand(train, "logits", who="KernelPCAError(features='nystrom')", name="train", verb="picks landmarks by")

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        if self.features == "nystrom" and train is not None and train.has("features") and not train.has("logits"):
            return "needs logits of the training outputs"
        return super().missing(train=train, outputs=outputs)

    def statistics(self) -> tuple[Statistic, ...]:
        direction = (FeatureMean(normalize=True),) if self.width is None else ()
        return (*direction, LeastConfident(self.size)) if self.features == "nystrom" else direction

    def _further(self, train: Outputs, gathered: Gathered) -> tuple[Statistic, ...]:
        if self.width is None:
            mean = gathered[FeatureMean(normalize=True)].mean
            self.width_ = max(1 - float(mean @ mean), _NARROWEST**2) ** 0.5
        else:
            self.width_ = float(self.width)
        if self.features == "nystrom":
            self.anchors_ = unit_rows(gathered[LeastConfident(self.size)].rows)
            values, vectors = np.linalg.eigh(self._raw(self.anchors_.astype(np.float64)))
            sound = values > _SMALLEST_EIGENVALUE * values[-1]
            self.turn_ = vectors[:, sound] / np.sqrt(values[sound])
        else:
            rng = np.random.default_rng(gathered.seed)
            columns = train.features.shape[1]
            size = self.size or size_for(columns)
            self.anchors_ = rng.normal(size=(size // 2, columns)) / self.width_
            self.turn_ = np.eye(size)
        return (self._mapped_moments(gathered),)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        mapped = gathered[self._mapped_moments(gathered)].moments
        values, vectors = principal_directions(mapped.total_scatter)
        # In principal coordinates the last ones are the error, and all together have the length of psi.
        self.turn_ = self.turn_ @ vectors
        self.centre_ = mapped.global_mean @ vectors
        self.inside_ = components_for(values, self.variance)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return by_row_blocks(self._error, block.features, row_bytes=self._row_bytes)

    def _error(self, rows: NDArray[Any]) -> NDArray[Any]:
        mapped = self._map(rows)
        left = mapped[:, self.inside_ :] - self.centre_[self.inside_ :]
        lengths = np.linalg.norm(mapped, axis=1)
        return np.asarray(np.linalg.norm(left, axis=1) / np.maximum(lengths, np.finfo(lengths.dtype).tiny))

    def _mapped_moments(self, gathered: Gathered) -> MappedMoments:
        return MappedMoments(self.features, self.size, self.width, gathered.seed, self)

    @property
    def _row_bytes(self) -> int:
        return 16 * int(self.turn_.shape[0])

    def _map(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """psi of each row, in the coordinates of ``turn_``."""
        return row_products(self._raw(unit_rows(rows.astype(np.float64))), self.turn_)

    def _raw(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Kernel values of unit rows with the landmarks, or their Fourier features, shape (n, M)."""
        product = row_products(rows, self.anchors_, transposed=True)
        if self.features == "nystrom":
            product -= 1
            product /= self.width_**2
            return np.asarray(np.exp(product, out=product))
        return np.asarray(np.hstack([np.cos(product), np.sin(product)]) * np.sqrt(1 / self.anchors_.shape[0]))


@final
@dataclass
class MappedMoments(Statistic):
    """Mean and scatter of the kernel features psi of the training rows."""

    features: str
    size: int | None
    width: float | None
    seed: int
    score: KernelPCAError = field(compare=False, repr=False)  # knows the map that follows from these

    reads: ClassVar[tuple[str, ...]] = ("features",)
    merge: ClassVar[Merge] = {"moments": operator.add}

    def begin(self, train: Outputs) -> None:
        self.moments = ClassMoments()
        self.moments.make_room(1, self.score.turn_.shape[1])

    def update(self, block: Outputs) -> None:
        for rows in row_blocks(block.n, row_bytes=self.score._row_bytes):
            part = self.score._map(block.features[rows])
            self.moments.add_rows(part, np.zeros(part.shape[0], dtype=np.intp))


@final
@dataclass
class LeastConfident(Statistic):
    """The ``size`` features with the smallest log-sum-exp of their logits, ascending; the first seen on a tie."""

    size: int | None

    reads: ClassVar[tuple[str, ...]] = ("features", "logits")

    def begin(self, train: Outputs) -> None:
        self._most = self.size or size_for(train.features.shape[1])
        kind = np.result_type(train.features.dtype, np.float32)
        self.rows: NDArray[Any] = np.empty((0, train.features.shape[1]), dtype=kind)
        self.confidence: NDArray[np.float64] = np.empty(0)

    def update(self, block: Outputs) -> None:
        self._keep(block.features, np.asarray(logsumexp(block.logits.astype(np.float64), axis=1)))

    def __add__(self, other: Self) -> Self:
        both = copy.copy(self)
        both._keep(other.rows, other.confidence)
        return both

    def _keep(self, rows: NDArray[Any], confidence: NDArray[np.float64]) -> None:
        everyone = np.concatenate([self.confidence, confidence])
        least = np.argsort(everyone, kind="stable")[: self._most]
        old = least < self.confidence.size
        merged = np.empty((least.size, rows.shape[1]), dtype=self.rows.dtype)
        merged[old] = self.rows[least[old]]
        merged[~old] = rows[least[~old] - self.confidence.size]
        self.rows, self.confidence = merged, everyone[least]


def size_for(width: int) -> int:
    """Landmarks or frequencies for features of this width: two for each feature, from 128 to 2048.

    >>> [size_for(width) for width in (12, 64, 512, 2048)]
    [128, 128, 1024, 2048]
    """
    return min(max(_LEAST, 2 * width), _MOST)
