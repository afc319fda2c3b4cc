r"""Nearest neighbour guidance: the energy, trusted only where confident training samples point the same way.

$$ s(x) = -E(h)\,G(h), \qquad
   G(h) = \text{mean of the } k \text{ largest } E(h_i) \cos(h, h_i) \text{ over the bank}, \qquad
   E(h) = \log \sum_c e^{z_c} $$

Park, Jung and Teoh, "Nearest Neighbor Guidance for Out-of-Distribution Detection", ICCV 2023, arXiv:2309.14888.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.checks import as_count
from caveat._internal.params import count, share
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits, log_sum_exp
from caveat.scores._statistics import Gathered, Merge, Statistic, unit_rows

__all__ = ["LowestEvidence", "NNGuide"]

_TILE_BYTES = 32 * 2**20  # of the similarity tile, queries x bank rows


@final
@dataclass
class LowestEvidence(Statistic):
    """The smallest logsumexp of the logits over all training rows."""

    reads: ClassVar[tuple[str, ...]] = ("logits",)
    merge: ClassVar[Merge] = {"lowest": min}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return {"lowest": float(log_sum_exp(block.logits.astype(np.float64)).min())}


@final
@dataclass(eq=False)
class NNGuide(Score):
    """Minus the evidence times its support by the nearest bank samples. The larger, the stranger.

    A negative E would turn the order of G around. Where the training data has one, E is replaced by E minus its
    smallest training value, for the bank and for the queries; where all are positive, the formula is the paper's. A
    query can still have less evidence than all of the training data and point away from it besides: its two negative
    signs do not make it an inlier, its score is the positive product.

    Parameters
    ----------
    k
        How many of the largest guidance terms are averaged.
    share
        Share of the training rows in the bank, drawn at random; never fewer than k rows.
    seed
        Of the draw.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    >>> NNGuide(k=1, share=1.0).fit(train).score(Outputs(features=[[4.0, 0.0], [2.0, 1.9]])).round(2)
    array([-12.25,  -5.84])
    """

    k: int = count(10)
    share: float = share(0.01)
    seed: int = count(0, least=0)

    name: ClassVar[str] = "nnguide"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (LowestEvidence(),)
    cost: ClassVar[str] = "CD + MD, M bank rows"
    paper: ClassVar[str] = "Park et al. 2023"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"k": (1, 5, 10, 20, 50, 100)}

    def missing(self, *, train: Outputs | None, outputs: Outputs) -> str:
        if train is not None and train.n < self.k:
            return f"needs at least k = {self.k} training rows, got {train.n}"
        return super().missing(train=train, outputs=outputs)

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        as_count(self.k, "k", most=train.n)
        self.head_weight_, self.head_bias_ = train.head.weight, train.head.bias
        self.shift_ = float(min(0.0, gathered[LowestEvidence()].lowest))
        size = min(train.n, max(self.k, math.ceil(self.share * train.n)))
        drawn = np.sort(np.random.default_rng(self.seed).choice(train.n, size=size, replace=False))
        parts = []
        for block in train[drawn].blocks(("features",)):
            parts.append(
                unit_rows(block.features) * self._evidence(block.features)[:, None].astype(block.features.dtype)
            )
        self.bank_ = np.concatenate(parts)  # unit rows times their evidence: one product gives every guidance term

    def _score(self, block: Outputs) -> NDArray[Any]:
        queries = unit_rows(block.features)
        bank = self.bank_.astype(queries.dtype, copy=False)
        best = np.empty((block.n, 0), dtype=queries.dtype)
        for tile in row_blocks(bank.shape[0], row_bytes=queries.shape[0] * queries.itemsize, block_bytes=_TILE_BYTES):
            terms = np.hstack([best, queries @ bank[tile].T])
            best = np.partition(terms, -self.k, axis=1)[:, -self.k :] if terms.shape[1] > self.k else terms
        guidance = best.mean(axis=1, dtype=np.float64)
        evidence = self._evidence(block.features)
        return np.asarray(-evidence * np.where(evidence < 0, np.abs(guidance), guidance))

    def _evidence(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return log_sum_exp(head_logits(rows, self.head_weight_, self.head_bias_)) - self.shift_
