"""A self-supervised loss of tabular inputs, the extra input of the difficulty model of SSCP.

Seedat, Jeffares, Imrie and van der Schaar, "Improving Adaptive Conformal Prediction Using Self-Supervised Learning",
AISTATS 2023, with a closed-form model in place of their network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import Rng, as_matrix, as_rng, check_result
from caveat._internal.params import check_params, count, level, positive
from caveat.errors import NotFittedError

Floats = NDArray[np.float64]


@final
@dataclass(eq=False)
class MaskedReconstruction:
    """Self-supervised loss of tabular inputs: how badly masked columns are filled in from the others.

    A ridge regression on the inputs and on random tanh features of them; closed form, no training loop.

    Parameters
    ----------
    share
        Share of the columns masked at a time; a masked column is set to its mean.
    copies
        How many masks each sample is judged by.
    features
        Number of random features.
    ridge
        Strength of the regularization per training row.
    """

    share: float = level(0.3)
    copies: int = count(10)
    features: int = count(100, least=0)
    ridge: float = positive(1e-3)

    def __post_init__(self) -> None:
        check_params(self)

    def fit(self, x: ArrayLike, rng: Rng) -> Self:
        """Learn to fill in masked columns."""
        rng = as_rng(rng)
        rows = as_matrix(x, "x").astype(np.float64)
        self.center_ = rows.mean(axis=0)
        spread = rows.std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1.0)
        width = rows.shape[1]
        self.mix_ = rng.normal(size=(width, self.features)) / np.sqrt(width)
        self.shift_ = rng.normal(size=self.features)
        scaled = (rows - self.center_) / self.spread_
        inputs = 1 + width + self.features
        gram, cross = np.zeros((inputs, inputs)), np.zeros((inputs, width))
        for _ in range(self.copies):
            seen = self._expand(scaled * self._kept(scaled.shape, rng))
            gram += seen.T @ seen
            cross += seen.T @ scaled
        penalty = self.ridge * rows.shape[0] * self.copies
        self.weights_ = np.linalg.solve(gram + penalty * np.eye(gram.shape[0]), cross)
        return self

    def loss(self, x: ArrayLike, rng: Rng) -> Floats:
        """Mean squared error on masked columns, in units of their spread, shape (n,). Larger is more unusual."""
        if not hasattr(self, "weights_"):
            raise NotFittedError("MaskedReconstruction has not seen data. Call fit(x, rng) before loss(...).")
        rng = as_rng(rng)
        rows = as_matrix(x, "x", width=self.center_.size)
        scaled = (rows - self.center_) / self.spread_
        total, counted = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
        for _ in range(self.copies):
            kept = self._kept(scaled.shape, rng)
            error = (self._expand(scaled * kept) @ self.weights_ - scaled) ** 2
            total += (error * ~kept).sum(axis=1)
            counted += (~kept).sum(axis=1)
        return check_result(total / counted, "the loss")

    def _kept(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Which entries are left: at least one masked in every row."""
        noise = rng.random(shape)
        hidden = max(1, round(self.share * shape[1]))
        return np.asarray(noise > np.partition(noise, hidden - 1, axis=1)[:, hidden - 1 : hidden])

    def _expand(self, scaled: Floats) -> Floats:
        ones = np.ones((scaled.shape[0], 1))
        return np.hstack([ones, scaled, np.tanh(scaled @ self.mix_ + self.shift_)])
