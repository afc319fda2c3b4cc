r"""Projection filtering: a score on what the principal subspaces of the training data leave of a feature.

With P the leading principal axes of all training features (mean mu) and P_c those of class c (mean mu_c, by label):

$$ \hat h = P P^\top (h - \mu) + \mu, \qquad \hat h^c = P_c P_c^\top (h - \mu_c) + \mu_c, \qquad
   \hat h^{avg} = \frac1C \sum_c \hat h^c, \qquad \hat h^{pred} = \hat h^{\hat y}, \qquad
   \hat g^{class}_c = w_c^\top \hat h^c + b_c $$

Claros-Olivares and Brockmeier, "A Systematic Analysis of Out-of-Distribution Detection Under Representation and
Training Paradigm Shifts", section 3.2, appendix A.4 and Table 3. In print the columns of mahalanobis, nnguide, fdbd,
pnml and gradnorm have slipped one to the left; the result tables (8 to 10) show that they lack the class projection.
kpca_error is missing from Table 3 and has all four in the result tables.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from caveat._internal.blocks import row_blocks
from caveat._internal.by_row import row_lengths
from caveat._internal.checks import check_known
from caveat._internal.params import check_params, share
from caveat._internal.products import row_products
from caveat._internal.rounding import Rounding
from caveat.errors import InputError
from caveat.outputs import Head, Outputs
from caveat.scores import _subspaces
from caveat.scores._base import Score
from caveat.scores._probabilities import head_logits
from caveat.scores._statistics import ClassMoments, Gathered, Statistic, gather
from caveat.scores.mahalanobis import Mahalanobis

__all__ = ["TABLE", "Projected", "projections_of"]

_Subspaces = Iterable[tuple[NDArray[Any], NDArray[Any]]]  # mean and axes of each class in turn
VARIANCES = (0.5, 0.8, 0.9, 0.95, 0.99)  # kept by the subspaces, that tune tries
_IN_MEMORY = 256 * 2**20  # bytes of projected training features that are held in memory, not in a temporary file
_MAPPED_ROWS = 4096  # at once: kernel features can be many times wider than the features


class Row(NamedTuple):
    """What of a score is projected, and by which projections."""

    what: str
    projections: tuple[str, ...]


NONE = Row("", ())
_ALL = ("global", "class", "class_pred", "class_avg")
_SCORES = {
    Row("cosine", _ALL): ("ctm", "ctm_mean"),
    Row("logits", _ALL): ("energy", "msp", "max_logit", "entropy", "gen", "renyi", "guessing", "collision"),
    Row("features", ("global", "class_pred", "class_avg")): ("mahalanobis", "nnguide", "fdbd", "pnml", "gradnorm"),
    Row("reconstruction", _ALL): ("pca_error", "kpca_error"),
}
TABLE: Mapping[str, Row] = {name: row for row, names in _SCORES.items() for name in names}


@final
@dataclass(eq=False)
class Projected(Score):
    """A score on projected features, logits or probabilities. The larger, the stranger.

    What is projected, and what the score then reads (Table 3 of the paper):

    ===================================  ====================  ====================  ================================
    score                                global                class                 class_pred, class_avg
    ===================================  ====================  ====================  ================================
    energy, max_logit                    logits g(h^)          logits g^class        logits g(h^pred), g(h^avg)
    msp, entropy, gen, renyi, guessing,  softmax of g(h^)      softmax of g^class    softmax of g(h^pred), g(h^avg)
    collision
    ctm, ctm_mean                        max_k cos(v_k, h^)    max_k cos(v_k, h^k)   max_k cos(v_k, h^pred), h^avg
    mahalanobis, nnguide, fdbd, pnml,    h^ and g(h^)          does not exist        h^pred, h^avg and their logits
    gradnorm
    pca_error                            ||h - h^|| / ||h||    min_k ||h - h^k||     ||h - h^pred||, ||h - h^avg||
                                                               / ||h||               / ||h||
    kpca_error                           the same with its kernel features psi(h) in place of h
    vim, neco, residual, confidence      does not exist        does not exist        does not exist
    ===================================  ====================  ====================  ================================

    A score that learns is fitted on the projected training features, with their true labels and the head as it is.
    The predicted class y^ is that of the head on the feature before projection. v_k is the weight w_k for ctm and the
    class mean for ctm_mean, which a projection onto its own class leaves in place.

    All of it is affine: global, class and class_avg logits are one product with a changed head, mahalanobis under
    global and class_avg one with a changed whitening, other class_avg features one D x D product, class_pred one
    product per predicted class.

    Parameters
    ----------
    inner
        The score, with its parameters, or its name; it is copied, not fitted itself.
    projection
        ``"global"``, ``"class"``, ``"class_pred"`` or ``"class_avg"``, as far as the score has it.
    variance
        Share of the variance that a subspace keeps, with as few axes as that takes. A class of one sample has none
        to keep: everything is projected onto that sample.

    Examples
    --------
    >>> from caveat.scores import Energy
    >>> train = Outputs(features=[[3.0, 0.1], [0.0, 0.0], [6.0, -0.1]], head=Head([[1.0, 2.0], [0.0, 1.0]]))
    >>> flat = Projected(Energy(), "global", variance=0.9).fit(train)
    >>> flat.score(Outputs(features=[[3.0, 0.0], [3.0, 50.0]])).round(1)
    array([-3. , -2.3])
    >>> Projected(Energy(), "globe")
    Traceback (most recent call last):
    caveat.errors.InputError: unknown projection of energy 'globe'. Did you mean 'global'? Known: class, ...
    """

    inner: Score
    projection: str
    variance: float = share(0.95)

    def __post_init__(self) -> None:
        given: Any = self.inner
        if isinstance(given, str):
            from caveat.scores.catalogue import make

            self.inner = make(given)
        if not isinstance(self.inner, Score) or isinstance(self.inner, Projected):
            raise InputError(f"a projection wraps a score such as MSP() or 'msp', got {type(self.inner).__name__}.")
        allowed = TABLE.get(self.inner.name, NONE).projections
        if not allowed:
            able = ", ".join(name for name, row in TABLE.items() if row.projections)
            raise InputError(f"score '{self.inner.name}' has no projection. These have: {able}.")
        check_known(self.projection, allowed, f"projection of {self.inner.name}")
        check_params(self)

    # These three are fixed for a class of score; here they follow from the score inside.

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.inner.name}_{self.projection}"

    @property
    def needs(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("features",)

    @property
    def fits_on(self) -> tuple[str, ...]:  # type: ignore[override]
        reads = {*self.inner.fits_on, *self.inner.needs}
        fields = ["features"]
        if self.projection != "global" or {"labels", "correct"} & set(self.inner.fits_on):
            fields.append("labels")
        if self.projection == "class_pred" or reads & {"logits", "probs", "predictions", "correct", "head"}:
            fields.append("head")
        return tuple(fields)

    def grid_for(self, outputs: Outputs) -> Mapping[str, tuple[Any, ...]]:
        # The variance of the projection takes the place of the one that a reconstruction error has by itself.
        return {**self.inner.grid_for(outputs), "variance": VARIANCES}

    def without_class_scores(self) -> Score:
        return replace(self, inner=self.inner.without_class_scores())

    def class_scores(self, outputs: Outputs) -> NDArray[np.float64]:
        if type(self.inner)._class_scores is Score._class_scores:
            raise InputError(f"{type(self.inner).__name__} has no class scores, projected or not: it judges a sample "
                             "as a whole.")  # fmt: skip
        return super().class_scores(outputs)

    def statistics(self) -> tuple[Statistic, ...]:
        moments = (self.projection == "global" and not self._in_kernel_space) or self._whitens
        return (ClassMoments(),) if moments else ()

    @property
    def _what(self) -> str:
        return TABLE[self.inner.name].what

    @property
    def _whitens(self) -> bool:
        """Whether the score reads differences of features alone, and these through a matrix."""
        plain = isinstance(self.inner, Mahalanobis) and not self.inner.normalize
        return plain and self.projection in ("global", "class_avg")

    @property
    def _in_kernel_space(self) -> bool:
        return self.inner.name == "kpca_error"

    def all_rows(self) -> str:
        return (
            ""
            if self.projection == "global" and self._what == "logits"
            else "projects the training rows before it learns"
        )

    def _fit(self, train: Outputs, gathered: Gathered) -> None:
        self.inner_ = replace(self.inner)  # type: ignore[type-var]
        head = train.head
        self.head_weight_: Any = None if head is None else head.weight
        self.head_bias_: Any = None if head is None else head.bias
        if self._in_kernel_space:  # only the map is needed: a rotation to principal coordinates changes no distance
            self.inner_.prepare(train, gather(train, self.inner_.statistics()).with_seed(gathered.seed))
        if self.projection == "global":
            self._fit_global(train, gathered)
        else:
            self._fit_classes(train)
        if self._whitens:
            # A distance in projected features is one in all features with another whitening: one product for three.
            self.inner_.fit_mapped(train, gathered, self.operator_)  # type: ignore[attr-defined]
            for name in ("operator_", "offset_", "means_", "axes_", "starts_"):
                vars(self).pop(name, None)
        elif self._what in ("features", "cosine") and self.projection != "class" and self.inner.fits_on:
            self.inner_.fit(self._filtered(train), rng=gathered.seed)

    def _fit_global(self, train: Outputs, gathered: Gathered) -> None:
        if self._in_kernel_space:
            moments = ClassMoments.of_rows(
                self._mapped(rows)
                for block in train.blocks(("features",))
                for rows in np.array_split(block.features, 1 + block.n // _MAPPED_ROWS)
            )
        else:
            moments = gathered[ClassMoments()]
        mean, axes = moments.global_mean, _subspaces.principal_axes(moments.total_scatter, self.variance)
        if self._what == "logits":
            self._change_head(axes.T @ axes, mean - axes.T @ (axes @ mean))
        elif self._whitens:
            self.operator_ = axes.T @ axes
        else:
            self._keep([(mean, axes)], train)

    def _fit_classes(self, train: Outputs) -> None:
        mapped = self._mapped if self._in_kernel_space else None
        subspaces = _subspaces.class_subspaces(train, self.variance, mapped=mapped)
        if self.projection == "class_avg":
            self._fit_average(subspaces)
        elif self.projection == "class" and self._what == "logits":
            self._fit_class_heads(self.head_weight_, subspaces, self.head_bias_)
        else:
            self._keep(subspaces, train)
            if self._what == "cosine" and self.projection == "class":
                kept = list(zip(self.means_, np.split(self.axes_, self.starts_[1:-1]), strict=True))
                towards = self.means_ if self.inner.name == "ctm_mean" else self.head_weight_
                self._fit_class_heads(towards, kept)
                self.lengths_ = np.linalg.norm(towards.astype(np.float64), axis=1)
                rest = [mean - axes.T @ (axes @ mean) for mean, axes in kept]
                self.rest_ = np.array([vector @ vector for vector in rest])  # ||h^c||^2 = ||P_c^T h||^2 + this

    def _fit_average(self, subspaces: _Subspaces) -> None:
        """One operator and one offset: the mean of the class projections."""
        operator = offset = np.zeros(1)
        waiting: list[NDArray[Any]] = []  # many short products into a D x D matrix would cost more than a few long ones
        count = 0
        for mean, axes in subspaces:
            offset = offset + mean - axes.T @ (axes @ mean)
            waiting.append(axes)
            count += 1
            if sum(some.shape[0] for some in waiting) >= mean.size:
                operator = operator + _squared(waiting)
                waiting = []
        operator = operator + _squared(waiting) if waiting else operator
        if self._what == "logits":
            self._change_head(operator / count, offset / count)
        else:
            self.operator_, self.offset_ = operator / count, offset / count

    def _fit_class_heads(self, towards: NDArray[Any], subspaces: _Subspaces, bias: NDArray[Any] | float = 0.0) -> None:
        """The head whose row c gives v_c . h^c: P_c P_c^T v_c, and what the mean adds."""
        weights, offsets = [], []
        for vector, (mean, axes) in zip(towards.astype(np.float64), subspaces, strict=True):
            coordinates = axes @ vector
            weights.append(axes.T @ coordinates)
            offsets.append(vector @ mean - coordinates @ (axes @ mean))
        self.projected_weight_ = np.stack(weights)
        self.projected_bias_ = np.array(offsets) + bias

    def _change_head(self, operator: NDArray[Any], offset: NDArray[Any]) -> None:
        """The head that gives on h the logits of ``operator @ h + offset``."""
        weight = self.head_weight_.astype(np.float64)
        self.projected_weight_ = weight @ operator
        self.projected_bias_ = self.head_bias_ + weight @ offset

    def _keep(self, subspaces: _Subspaces, train: Outputs) -> None:
        self.means_, self.axes_, self.starts_ = _subspaces.stacked(subspaces, self._float_type(train))

    @staticmethod
    def _float_type(train: Outputs) -> np.dtype[Any]:
        return np.promote_types(np.float32, train.features.dtype)

    def _filtered(self, train: Outputs) -> Outputs:
        """The training outputs after projection, logits to be had from the head; large ones lie in a temporary file."""
        shape, kind = train.features.shape, self._float_type(train)
        if train.n * shape[1] * kind.itemsize <= _IN_MEMORY:
            rows = np.empty(shape, dtype=kind)
        else:
            with tempfile.TemporaryFile() as room:  # the map outlives the name
                rows = np.memmap(room, dtype=kind, mode="w+", shape=shape)
        for block in row_blocks(train.n, row_bytes=shape[1] * kind.itemsize):
            rows[block] = self._filter(train.features[block].astype(kind, copy=False))
        labels = train.labels if train.has("labels") else None
        return Outputs(features=rows, labels=labels, head=self._head(), check=False)

    @property
    def rounding(self) -> Rounding:
        return self.inner_.rounding

    def _score(self, block: Outputs) -> NDArray[Any]:
        if self._what == "reconstruction":
            parts = 1 + block.n // _MAPPED_ROWS if self._in_kernel_space else 1
            return np.concatenate([self._error(rows) for rows in np.array_split(block.features, parts)])
        if self._what == "cosine" and self.projection == "class":
            return np.asarray(-self._cosines(block.features).max(axis=1))
        return self.inner_._score(self._seen(block.features))

    def _class_scores(self, block: Outputs) -> NDArray[Any]:
        if self._what == "cosine" and self.projection == "class":
            return -self._cosines(block.features)
        return self.inner_._class_scores(self._seen(block.features))

    def _seen(self, rows: NDArray[Any]) -> Outputs:
        """What the score inside reads of these features."""
        in_two_steps = hasattr(self, "axes_") or hasattr(self, "operator_")  # a file of version 0.2
        if self._whitens and not in_two_steps:
            return Outputs(features=rows, check=False)
        if self._what != "logits":
            return Outputs(features=self._filter(rows), head=self._head(), check=False)
        if self.projection == "class_pred":
            logits = head_logits(self._filter(rows), self.head_weight_, self.head_bias_)
        else:
            logits = head_logits(rows, self.projected_weight_, self.projected_bias_)
        return Outputs(logits=logits, check=False)

    def _head(self) -> Head | None:
        return None if self.head_weight_ is None else Head(self.head_weight_, self.head_bias_)

    def _filter(self, rows: NDArray[Any], predicted: NDArray[np.intp] | None = None) -> NDArray[Any]:
        """Projected features; ``predicted`` where the rows are not what the head reads."""
        if self.projection == "class_avg":
            return row_products(rows, self.operator_) + self.offset_
        if self.projection == "global":
            which = np.zeros(rows.shape[0], dtype=np.intp)
        else:
            which = self._predicted(rows) if predicted is None else predicted
        return _subspaces.within(rows, which, self.means_, self.axes_, self.starts_)

    def _predicted(self, rows: NDArray[Any]) -> NDArray[np.intp]:
        return np.asarray(head_logits(rows, self.head_weight_, self.head_bias_).argmax(axis=1))

    def _mapped(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Kernel features psi(h)."""
        mapped: NDArray[Any] = self.inner_._map(rows)  # type: ignore[attr-defined]
        return mapped

    def _error(self, features: NDArray[Any]) -> NDArray[np.float64]:
        rows = self._mapped(features) if self._in_kernel_space else features
        which = None
        if self.projection == "class":
            which = _subspaces.nearest_subspace(rows, self.means_, self.axes_, self.starts_)
        elif self.projection == "class_pred":
            which = self._predicted(features)
        error = row_lengths(rows - self._filter(rows, which))
        length = row_lengths(rows)
        return np.asarray(error / np.where(length > 0, length, 1))  # a zero row has no length to compare with

    def _cosines(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """cos(v_k, h^k), shape (n, C)."""
        along = head_logits(rows, self.projected_weight_, self.projected_bias_)
        length = np.sqrt(_subspaces.squared_coordinates(rows, self.axes_, self.starts_) + self.rest_)
        length *= self.lengths_
        return np.asarray(np.divide(along, length, out=np.zeros_like(along), where=length > 0))


def _squared(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Sum of P P^T over axes P^T, shape (D, D)."""
    axes = np.concatenate(parts)
    product: NDArray[Any] = axes.T @ axes
    return product


def projections_of(name: str) -> tuple[str, ...]:
    """Which projections a score of the catalogue takes; empty if it takes none.

    Parameters
    ----------
    name
        Name of the score in ``catalogue()``.

    Returns
    -------
    tuple of str
        Values for the projection of :class:`Projected`.

    Examples
    --------
    >>> projections_of("mahalanobis"), projections_of("vim")
    (('global', 'class_pred', 'class_avg'), ())
    """
    from caveat.scores.catalogue import catalogue

    check_known(name, {*TABLE, *(entry.name for entry in catalogue())}, "score")
    return TABLE.get(name, NONE).projections
