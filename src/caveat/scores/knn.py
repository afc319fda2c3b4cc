r"""Nearest training features: the distance to them (KNN), or their support for the energy (NNGuide).

$$ \text{KNN: } s(x) = \lVert \bar h - \bar h_{(k)} \rVert_2, \qquad \bar h = h / \lVert h \rVert_2
   \text{, or } \bar h = h $$

$$ \text{NNGuide: } s(x) = -E(h)\,G(h), \qquad
   G(h) = \text{mean of the } k \text{ largest } E(h_i) \cos(h, h_i) \text{ over the bank}, \qquad
   E(h) = \log \sum_c e^{z_c} $$

Sun, Ming, Zhu and Li, "Out-of-Distribution Detection with Deep Nearest Neighbors", ICML 2022, arXiv:2204.06507.
Class scores: "Exploring the Link Between Out-of-Distribution Detection and Conformal Prediction with Illustrations of
Its Benefits", appendix C.3. Park, Jung and Teoh, "Nearest Neighbor Guidance for Out-of-Distribution Detection",
ICCV 2023, arXiv:2309.14888.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import by_row_blocks, row_blocks
from caveat._internal.by_row import log_sum_exp
from caveat._internal.checks import as_count, check_known
from caveat._internal.params import count, flag, share
from caveat._internal.products import row_products
from caveat.errors import InputError
from caveat.outputs import Outputs
from caveat.scores._base import Score
from caveat.scores._ivf import InvertedFile, centroids_and_cells, default_cells
from caveat.scores._nearest import k_nearest, kth_nearest, nearest_by_group
from caveat.scores._probabilities import head_logits
from caveat.scores._statistics import Accumulator, Gathered, Merge, Statistic, rows_of, total, unit_rows

__all__ = ["KNN", "LowestEvidence", "NNGuide", "RowLengths", "RowPredictions"]

_TILE_BYTES = 32 * 2**20  # of the similarity tile, queries x bank rows
_FARTHEST = 2.0  # two points of the unit sphere are never further apart
_NEAR = 0.01  # squared distance below which the product has lost too many digits in float32
_RECALL_ROWS = 200  # searched exactly as well, to measure the recall of an index


_INDEXES: WeakKeyDictionary[KNN, tuple[Any, InvertedFile]] = WeakKeyDictionary()  # not a part of the score: not saved


@final
@dataclass
class RowLengths(Accumulator):
    """Euclidean length of the features of each row, in float64: rounding would show where rows are close together."""

    reads: ClassVar[tuple[str, ...]] = ("features",)
    merge: ClassVar[Merge] = {"parts": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return {"parts": [np.sqrt(np.einsum("ij,ij->i", block.features, block.features, dtype=np.float64))]}


@final
@dataclass
class RowPredictions(Accumulator):
    """The predicted class of each row, where the outputs have predictions."""

    reads: ClassVar[tuple[str, ...]] = ("predictions",)
    merge: ClassVar[Merge] = {"parts": total}

    def of_block(self, block: Outputs) -> dict[str, Any]:
        return {"parts": [block.predictions] if block.has("predictions") else []}


@final
@dataclass(eq=False)
class KNN(Score):
    """Euclidean distance to the k-th nearest training feature, rows scaled to length one. The larger, the stranger.

    The training features are the model: they are kept as they were given (a memory-mapped file stays on disk), and
    each block of them is scaled when it is searched.

    As a member of a class, a sample is as strange as its distance to the nearest training feature that the model
    predicted as that class; 2, the largest distance there is, for a class that was never predicted. Without
    normalization there is no largest distance: such a class is as far as the farthest of the others.

    With ``index="ivf"`` the neighbors are approximate: a row is compared with the training rows of its nearest cells
    alone (faiss, extra ``knn``). That is another score, and every promise holds for it as for the exact one, because
    calibration and test rows are searched in the same saved cells with the same ``nprobe``. ``recall_`` is the measured
    share of the true k nearest neighbors that it finds, ``index_bytes_`` the memory of the index. Class scores stay
    exact.

    Parameters
    ----------
    k
        Which neighbor; more than the number of training rows is an error.
    index
        ``"exact"``, or ``"ivf"`` for large banks.
    clusters
        Cells of the index; 0 takes 4 sqrt(n).
    nprobe
        Cells that are searched for each row. More are searched where these hold fewer than k rows.
    normalize
        Scale rows to length one, as Sun et al. do. False takes raw distances, as in the paper on class scores; they are
        searched in float64, and not with ``index="ivf"``.

    Examples
    --------
    >>> train = Outputs(features=[[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    >>> KNN(k=2).fit(train).score(Outputs(features=[[5.0, 0.0], [0.0, 1.0]])).round(3)
    array([0.   , 1.414])
    """

    k: int = count(50)
    index: Literal["exact", "ivf"] = "exact"
    clusters: int = count(0, least=0)
    nprobe: int = count(16)
    normalize: bool = flag(True)

    name: ClassVar[str] = "knn"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features",)
    learns: ClassVar[tuple[Statistic, ...]] = (RowLengths(), RowPredictions())
    walks_alone: ClassVar[str] = "keeps the training rows as its bank"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"k": (1, 5, 10, 20, 50, 100, 200)}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known(self.index, ("exact", "ivf"), "index")
        if self.index == "ivf" and not self.normalize:
            raise InputError("index='ivf' searches rows of length one. Leave normalize=False or the index out.")

    @property
    def least_rows(self) -> int:
        return self.k

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        as_count(self.k, "k", most=train.n)
        self.bank_ = rows_of(train, "features")
        self.lengths_ = np.concatenate(gathered[RowLengths()].parts)
        predictions = gathered[RowPredictions()].parts
        self.predicted_ = np.concatenate(predictions) if predictions else None
        self.centroids_ = self.cells_ = None
        self.recall_: float | None = None
        self.index_bytes_: int | None = None
        if self.index == "ivf":
            n_cells = self.clusters or default_cells(train.n)
            self.centroids_, self.cells_ = centroids_and_cells(self.bank_, n_cells, seed=gathered.seed)
            self.recall_ = self._recall()
            width = self.bank_.shape[1]
            self.index_bytes_ = train.n * (4 * width + 8) + self.centroids_.nbytes

    @property
    def note(self) -> str:
        if self.index == "exact" or not hasattr(self, "fitted_"):
            return ""
        assert self.recall_ is not None
        assert self.index_bytes_ is not None
        assert self.centroids_ is not None
        return (
            f"approximate neighbors: {100 * self.recall_:.1f} % of the {self.k} nearest rows found (measured), "
            f"{self.nprobe} of {len(self.centroids_)} cells searched, index {self.index_bytes_ / 1e6:.1f} MB"
        )

    def _recall(self) -> float:
        """Share of the k nearest rows that the index finds, for rows of the bank drawn at random."""
        n = self.bank_.shape[0]
        drawn = np.sort(np.random.default_rng(0).choice(n, size=min(n, _RECALL_ROWS), replace=False))
        queries = unit_rows(self.bank_[drawn].astype(np.float64))
        exact = k_nearest(queries, self.bank_, self.lengths_, self.k)
        approximate = self._inverted_file().nearest(queries, self.k, self.nprobe)
        hits = sum(np.intersect1d(true, some).size for true, some in zip(exact, approximate, strict=True))
        return hits / exact.size

    def _inverted_file(self) -> InvertedFile:
        """The index, built once from the kept arrays."""
        index = _INDEXES.get(self)
        if index is None or index[0] is not self.cells_:
            assert self.centroids_ is not None
            assert self.cells_ is not None
            index = _INDEXES[self] = (self.cells_, InvertedFile(self.bank_, self.centroids_, self.cells_))
        return index[1]

    def _score(self, block: Outputs) -> NDArray[Any]:
        rows = block.features.astype(np.float64)
        queries = unit_rows(rows) if self.normalize else rows
        if self.index == "ivf":
            neighbor = self._inverted_file().nearest(queries, self.k, self.nprobe)[:, -1]
        else:
            neighbor = kth_nearest(queries, self.bank_, self.lengths_, self.k, raw=not self.normalize)
        # The distance from the product loses all digits near zero, so it is taken from the rows.
        return self._gap(rows, neighbor)

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        if self.predicted_ is None:
            raise InputError("class scores of KNN need the predictions of the training outputs, which had none. "
                             "Fit on outputs with logits, or with features and head.")  # fmt: skip
        rows = block.features.astype(np.float64)
        return self._by_class(rows) if self.normalize else self._raw_by_class(rows)

    def _by_class(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        queries = unit_rows(rows)
        assert self.predicted_ is not None
        assert self.n_classes_ is not None
        closeness, where = nearest_by_group(queries, self.bank_, self.lengths_, self.predicted_, self.n_classes_)
        squared = queries.any(axis=1, keepdims=True) + 1 - 2 * closeness
        distances: NDArray[np.float64] = np.sqrt(np.clip(squared, 0, _FARTHEST**2))  # 2 from a class without rows
        lines, classes = np.nonzero(squared < _NEAR)
        for part in row_blocks(lines.size, row_bytes=8 * queries.shape[1]):
            line, one = lines[part], classes[part]
            distances[line, one] = self._gap(rows[line], where[line, one])
        return distances

    def _raw_by_class(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        assert self.predicted_ is not None
        assert self.n_classes_ is not None
        closeness, where = nearest_by_group(rows, self.bank_, self.lengths_, self.predicted_, self.n_classes_, raw=True)
        distances = np.zeros(closeness.shape)
        for c in np.unique(self.predicted_):  # from the rows: the product has few digits where they are close
            distances[:, c] = self._gap(rows, where[:, c])
        return np.where(np.isneginf(closeness), distances.max(axis=1, keepdims=True), distances)

    def _gap(self, rows: NDArray[np.float64], neighbor: NDArray[np.intp]) -> NDArray[np.float64]:
        """Distance of each row to its neighbor in the bank, both scaled to length one or both raw."""
        distances = np.empty(len(neighbor))
        scaled = unit_rows if self.normalize else np.asarray
        for part in row_blocks(len(neighbor), row_bytes=48 * rows.shape[1]):  # six float64 copies of a row at once
            gap = scaled(rows[part]) - scaled(self.bank_[neighbor[part]].astype(np.float64))
            distances[part] = np.linalg.norm(gap, axis=1)
        return distances


@final
@dataclass
class LowestEvidence(Accumulator):
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
    query can still have less evidence than all of the training data and also point away from it: its two negative
    signs do not make it an inlier, its score is the positive product.

    Parameters
    ----------
    k
        How many of the largest guidance terms are averaged.
    share
        Share of the training rows in the bank, drawn at random; never fewer than k rows.

    Examples
    --------
    >>> from caveat import Head
    >>> train = Outputs(features=[[3.0, 0.0], [0.0, 3.0]], head=Head([[1.0, 0.0], [0.0, 1.0]]))
    >>> NNGuide(k=1, share=1.0).fit(train).score(Outputs(features=[[4.0, 0.0], [2.0, 1.9]])).round(2)
    array([-12.25,  -5.84])
    """

    k: int = count(10)
    share: float = share(0.01)

    name: ClassVar[str] = "nnguide"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    fits_on: ClassVar[tuple[str, ...]] = ("features", "head")
    learns: ClassVar[tuple[Statistic, ...]] = (LowestEvidence(),)
    walks_alone: ClassVar[str] = "draws training rows into its bank"
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {"k": (1, 5, 10, 20, 50, 100)}

    @property
    def least_rows(self) -> int:
        return self.k

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        as_count(self.k, "k", most=train.n)
        self.head_weight_, self.head_bias_ = train.head.weight, train.head.bias
        self.shift_ = float(min(0.0, gathered[LowestEvidence()].lowest))
        size = min(train.n, max(self.k, math.ceil(self.share * train.n)))
        drawn = np.sort(np.random.default_rng(gathered.seed).choice(train.n, size=size, replace=False))
        # Unit rows times their evidence: one product gives every guidance term.
        parts = (block.features for block in Outputs(features=rows_of(train, "features", drawn), check=False).blocks())
        self.bank_ = np.concatenate([unit_rows(p) * self._evidence(p)[:, None].astype(p.dtype) for p in parts])

    def _score(self, block: Outputs) -> NDArray[Any]:
        terms = by_row_blocks(self._guidance_terms, block.features, row_bytes=16 * self.bank_.shape[0])
        guidance = np.sort(terms, axis=1).mean(axis=1)  # in one order, whatever the partition left
        evidence = self._evidence(block.features)
        return np.asarray(-evidence * np.where(evidence < 0, np.abs(guidance), guidance))

    def _guidance_terms(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """The k largest terms of each row, in no order."""
        terms = row_products(unit_rows(rows.astype(np.float64)), self.bank_, transposed=True)
        return np.partition(terms, -self.k, axis=1)[:, -self.k :] if terms.shape[1] > self.k else terms

    def _evidence(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        return log_sum_exp(head_logits(rows, self.head_weight_, self.head_bias_)) - self.shift_
