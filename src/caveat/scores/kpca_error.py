r"""Reconstruction error of kernel principal components on the unit sphere.

$$ s(x) = \frac{\lVert \psi - \hat\psi \rVert_2}{\lVert \psi \rVert_2}, \qquad \hat\psi = U U^\top (\psi - \mu) + \mu $$

where $\psi$ is an explicit map with $\psi(h)^\top \psi(h') \approx \exp(-(1 - \cos(h, h')) / \sigma^2)$, the Gaussian
kernel of width $\sigma$ between features scaled to length one. Two maps, two estimators:

- Nystroem: $\psi(h) = K_{mm}^{-1/2} k_m(h)$, kernel values with the M training rows the model was least sure of.
- Fourier: $\psi(h) = \sqrt{2/M}\,(\cos \omega_j^\top h, \sin \omega_j^\top h)_j$ with M/2 random frequencies
  $\omega_j \sim N(0, \sigma^{-2} I)$.

Fang, Tao, Lv, He, Huang and Yang, "Kernel PCA for Out-of-Distribution Detection", NeurIPS 2024, arXiv:2402.02949, and
its extension "Non-Linear Kernel Selections and Approximations", 2025, arXiv:2505.15284.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from caveat._blocks import by_row_blocks, row_blocks
from caveat._checks import as_count, as_level, as_positive, check_known
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._pca import components_for, principal_directions
from caveat.scores._stat_least_confident import LeastConfident
from caveat.scores._statistics import ClassMoments, Gathered, Statistic, unit_rows

__all__ = ["KernelPCAError"]

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
        The authors take 2048 to 4096 for ImageNet.
    width
        Of the kernel (sigma in the formula), between features of length one; 0.7 is close to exp(-|h - h'|^2).
    variance
        Share of the variance of the mapped training features that the subspace holds.
    seed
        Of the frequencies.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 0.1 * i] for i in range(9)])
    >>> score = KernelPCAError(features="fourier").fit(train)
    >>> score.score(Outputs(features=[[2.0, 0.5], [-1.0, 1.0]])).round(1)
    array([0. , 1.2])
    """

    features: Literal["nystrom", "fourier"] = "nystrom"
    size: int = 512
    width: float = 0.7
    variance: float = 0.99
    seed: int = 0

    name: ClassVar[str] = "kpca_error"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    cost: ClassVar[str] = "DM + M²"
    paper: ClassVar[str] = "Fang et al. 2024"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        "width": (0.3, 0.5, 0.7, 1.0, 1.5),
        "variance": (0.5, 0.9, 0.99, 0.999),
    }

    def __post_init__(self) -> None:
        check_known(self.features, ("nystrom", "fourier"), "features of score 'kpca_error'")
        as_count(self.size, "size", least=2)
        if self.features == "fourier" and self.size % 2:
            raise InputError(f"size must be even for Fourier features (a cosine and a sine each), got {self.size}.")
        as_positive(self.width, "width")
        as_level(self.variance, "variance")
        as_count(self.seed, "seed", least=0)

    def can_fit(self, train: Outputs) -> None:
        super().can_fit(train)
        if self.features == "nystrom" and not train.has("logits"):
            raise InputError("KernelPCAError(features='nystrom') picks its landmarks by train.logits, which is None. "
                             "Store logits (n, C), or use features='fourier'.")  # fmt: skip

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        if self.features == "nystrom" and train is not None and train.has("features") and not train.has("logits"):
            return "needs logits of the training outputs"
        return super().missing(train=train, outputs=outputs)

    def statistics(self) -> tuple[Statistic, ...]:
        return (LeastConfident(self.size),) if self.features == "nystrom" else ()

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        if self.features == "nystrom":
            self.anchors_ = unit_rows(gathered[LeastConfident(self.size)].rows)
            values, vectors = np.linalg.eigh(self._raw(self.anchors_.astype(np.float64)))
            sound = values > _SMALLEST_EIGENVALUE * values[-1]
            self.turn_ = vectors[:, sound] / np.sqrt(values[sound])
        else:
            rng = np.random.default_rng(self.seed)
            self.anchors_ = rng.normal(size=(self.size // 2, train.features.shape[1])) / self.width
            self.turn_ = np.eye(self.size)
        mapped = ClassMoments()
        mapped.make_room(1, self.turn_.shape[1])
        for block in train.blocks(("features",)):
            for rows in row_blocks(block.n, row_bytes=self._row_bytes):
                part = self._map(block.features[rows])
                mapped.add_rows(part, np.zeros(part.shape[0], dtype=np.intp))
        values, vectors = principal_directions(mapped.total_scatter)
        # In principal coordinates the last ones are the error, and all together have the length of psi.
        self.turn_ = self.turn_ @ vectors
        self.centre_ = mapped.global_mean @ vectors
        self.inside_ = components_for(values, self.variance)

    def _score(self, block: Outputs) -> NDArray[Any]:
        return by_row_blocks(self._error, block.features, row_bytes=self._row_bytes)

    def _error(self, rows: NDArray[Any]) -> NDArray[Any]:
        mapped = self._map(rows)
        left = mapped[:, self.inside_ :] - self.centre_[self.inside_ :].astype(mapped.dtype)
        lengths = np.linalg.norm(mapped, axis=1)
        return np.asarray(np.linalg.norm(left, axis=1) / np.maximum(lengths, np.finfo(lengths.dtype).tiny))

    @property
    def _row_bytes(self) -> int:
        return 16 * self.size

    def _map(self, rows: NDArray[Any]) -> NDArray[Any]:
        """psi of each row, in the coordinates of ``turn_``."""
        mapped: NDArray[Any] = self._raw(unit_rows(rows)) @ self.turn_.astype(rows.dtype)
        return mapped

    def _raw(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Kernel values of unit rows with the landmarks, or their Fourier features, shape (n, M)."""
        product = rows @ self.anchors_.astype(rows.dtype).T
        if self.features == "nystrom":
            return np.asarray(np.exp((product - 1) / rows.dtype.type(self.width**2)))
        waves = np.hstack([np.cos(product), np.sin(product)])
        return np.asarray(waves * rows.dtype.type(np.sqrt(2 / self.size)))
