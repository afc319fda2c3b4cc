r"""Difficulty from input transformations: a prediction that a little noise changes is a hard one.

$$ E(x) = \frac1L \sum_{l=1}^{L} \operatorname{sim}(f(x), f(t_l(x))) $$

with the cosine of probability vectors, or $e^{-|y_1 - y_2|}$ of regression values, as similarity. Samples are grouped
into bins of equal mass by ease, and the edges are kept for new samples. Jang and Lee, "Quantifying and Improving
Adaptivity in Conformal Prediction through Input Transformations", eqs. (1), (2), (6) and algorithm 1.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.arrays import widened
from caveat._internal.blocks import row_blocks
from caveat._internal.checks import (
    Rng,
    as_comparable,
    as_count,
    as_flag,
    as_matrix,
    as_number,
    as_positive,
    as_rng,
    as_vector,
    check_known,
    check_result,
    check_same,
)
from caveat._internal.products import row_products
from caveat.errors import CaveatWarning, InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand

__all__ = ["EaseBins", "cut_bins", "ease", "ease_of", "logit_noise_ease", "regression_ease"]

Floats = NDArray[np.float64]
_MOST_SHARED = 20.0  # sigma up to which the squared weights of shared noise are numbers
_CACHE_BYTES = 2**19  # of a copy: many small steps on it stay in the cache of a core


def ease(*, probs: ArrayLike, transformed: ArrayLike) -> Floats:
    """Mean cosine between the probabilities of each sample and of its transformed copies, shape (n,). Larger is easier.

    Parameters
    ----------
    probs
        Shape (n, C): probabilities of the original inputs.
    transformed
        Shape (L, n, C): probabilities of L transformed copies.

    Returns
    -------
    array of shape (n,)
        Between 0 and 1.

    Examples
    --------
    >>> ease(probs=[[1.0, 0.0], [0.5, 0.5]], transformed=[[[1.0, 0.0], [1.0, 0.0]]]).round(3)
    array([1.   , 0.707])
    """
    return ease_of(Outputs(probs=probs, ease_probs=transformed))


def regression_ease(*, prediction: ArrayLike, transformed: ArrayLike) -> Floats:
    """Mean of exp(-|change|) of a predicted value over transformed copies, shape (n,). Larger is easier.

    Parameters
    ----------
    prediction
        Shape (n,), in units in which a change of one is large: standardize targets first.
    transformed
        Shape (L, n).

    Returns
    -------
    array of shape (n,)
        Between 0 and 1.

    Examples
    --------
    >>> regression_ease(prediction=[0.0, 0.0], transformed=[[0.0, 1.0]]).round(3)
    array([1.   , 0.368])
    """
    original, copies = as_vector(prediction, "prediction"), as_matrix(transformed, "transformed")
    check_same("number of samples", prediction=original.size, transformed=copies.shape[1])
    return np.asarray(np.exp(-np.abs(copies - original)).mean(axis=0))


def ease_of(outputs: Outputs) -> Floats:
    """Ease of each sample from ``outputs.ease_probs``.

    Parameters
    ----------
    outputs
        Outputs with probabilities, and with ``ease_probs`` (copies, n, C): probabilities of transformed copies.

    Returns
    -------
    array of shape (n,)
        Mean cosine, as in :func:`ease`; larger is easier.

    Examples
    --------
    >>> ease_of(Outputs(probs=[[1.0, 0.0], [0.5, 0.5]], ease_probs=[[[1.0, 0.0], [1.0, 0.0]]])).round(3)
    array([1.   , 0.707])
    """
    demand(outputs, "ease_probs", "probs", who="difficulty")
    parts = []
    for block in outputs.blocks(("probs", "ease_probs")):
        parts.append(sum(_cosine(block.probs, copy) for copy in block.ease_probs) / block.ease_probs.shape[0])
    return np.concatenate(parts)


def logit_noise_ease(
    outputs: Outputs, *, sigma: float, rng: Rng, copies: int = 20, shared: bool = False
) -> Floats:  # fmt: skip
    """Ease under Gaussian noise on the logits: a stand-in where there are no inputs to transform, shape (n,).

    Parameters
    ----------
    outputs
        With logits.
    sigma
        Standard deviation of the noise, in units of the logits.
    rng
        Draws the noise.
    copies
        L, the number of noisy copies.
    shared
        Whether all rows get the same L draws of the noise. Ease is then one function of the logits, rows are compared
        under the same noise, and the cosines are two matrix products: 100 copies take less time than 20 with noise of
        each row's own. ``sigma`` is at most 20 then.

    Returns
    -------
    array of shape (n,)
        Between 0 and 1; larger is easier.

    Examples
    --------
    >>> sure, unsure = [9.0, 0.0], [0.1, 0.0]
    >>> eases = logit_noise_ease(Outputs(logits=[sure, unsure]), sigma=1.0, rng=np.random.default_rng(0))
    >>> bool(eases[0] > 0.99 > eases[1])
    True
    """
    rng = as_rng(rng)
    as_positive(sigma, "sigma")
    as_count(copies, "copies")
    demand(outputs, "logits", who="logit_noise_ease")
    if as_flag(shared, "shared"):
        return _shared_noise_ease(outputs, as_number(sigma, "sigma", most=_MOST_SHARED), rng, copies)
    parts = []
    for block in outputs.blocks(("logits",)):
        for rows in row_blocks(block.n, row_bytes=8 * block.logits.shape[1], block_bytes=_CACHE_BYTES):
            logits = widened(block.logits[rows])
            original, total = _evidence(logits), np.zeros(logits.shape[0])
            length = np.vecdot(original, original)
            for _ in range(copies):
                noisy = rng.standard_normal(logits.shape, dtype=np.float32)
                noisy *= np.float32(sigma)
                copy = _evidence(noisy + logits)
                total += np.minimum(np.vecdot(original, copy) / np.sqrt(length * np.vecdot(copy, copy)), 1.0)
            parts.append(total / copies)
    return check_result(np.concatenate(parts), "the cosine")


def _shared_noise_ease(outputs: Outputs, sigma: float, rng: np.random.Generator, copies: int) -> Floats:
    """With noise that all rows share, exp(z + noise) is exp(z) times weights, and both sums of a cosine are products.

    cos = sum_c o_c^2 w_c / sqrt(sum_c o_c^2 sum_c o_c^2 w_c^2), with o = exp(z) and w = exp(noise)
    """
    weights = np.exp(sigma * rng.standard_normal((copies, int(outputs.n_classes or 0)))).T
    parts = []
    width = 8 * max(copies, weights.shape[0])
    for block in outputs.blocks(("logits",)):
        for rows in row_blocks(block.n, row_bytes=width, block_bytes=_CACHE_BYTES):
            squares = _evidence(widened(block.logits[rows]))
            np.square(squares, out=squares)
            lengths = row_products(squares, np.square(weights))
            lengths *= squares.sum(axis=1)[:, None]
            cosines = row_products(squares, weights)
            cosines /= np.sqrt(lengths, out=lengths)
            parts.append(np.minimum(cosines, 1.0, out=cosines).mean(axis=1))
    return check_result(np.concatenate(parts), "the cosine")


@final
@dataclass(frozen=True, eq=False)
class EaseBins:
    """Bins of equal mass by ease; bin 0 holds the hardest samples.

    Parameters
    ----------
    edges
        Where one bin ends and the next begins, rising, shape (B - 1,).
    edges_apart
        False: a sample on an edge belongs to the bin above. True: it belongs to neither; the samples on the i-th edge
        are a group of their own, number B + i.

    Examples
    --------
    >>> bins = EaseBins.cut([0.1, 0.5, 0.6, 0.9], 2)
    >>> bins.edges, bins.assign([0.0, 0.59, 0.6, 1.0])
    (array([0.6]), array([0, 0, 1, 1]))
    >>> bins = EaseBins.cut_for_same([0.1, 0.5, 0.6, 0.9], 2)
    >>> bins.edges, bins.assign([0.0, 0.5, 0.59, 1.0])
    (array([0.5]), array([0, 2, 1, 1]))
    """

    edges: Floats
    edges_apart: bool = False

    def __post_init__(self) -> None:
        edges = as_comparable(self.edges, "edges")
        if edges.ndim != 1 or (np.diff(edges) <= 0).any():
            raise InputError(f"edges must be a rising vector, got shape {edges.shape}.")
        object.__setattr__(self, "edges", edges)

    @classmethod
    def cut(cls, ease: ArrayLike, bins: int) -> EaseBins:
        """Edges such that each bin holds as nearly the same number of these samples as ties allow.

        Equal eases are never split, so there may be fewer bins than requested.

        Parameters
        ----------
        ease
            Eases, shape (n,).
        bins
            Number of bins.

        Returns
        -------
        EaseBins
            The bins; ``assign`` says in which one a sample is.
        """
        values = np.sort(as_vector(ease, "ease"))
        as_count(bins, "bins", most=values.size)
        starts = np.arange(1, bins) * values.size // bins
        edges = np.unique(values[starts])
        return cls(edges[edges > values[0]])

    @classmethod
    def cut_for_same(cls, ease: ArrayLike, bins: int) -> EaseBins:
        """Edges for the calibration of these same samples, which keep them exchangeable with a new one in each bin.

        An edge is the ease of one of the samples, and a new sample of a bin never lies on its edge, so the two are not
        exchangeable. Without the edge, the samples of the bin and the new one are: swapping two samples strictly
        between the same edges moves no edge.

        Parameters
        ----------
        ease
            Eases of the calibration samples, shape (n,).
        bins
            Number of bins.

        Returns
        -------
        EaseBins
            The bins, with the edges apart.
        """
        values = np.sort(as_vector(ease, "ease"))
        as_count(bins, "bins", most=values.size)
        ends = np.arange(1, bins) * (values.size + 1) // bins  # of n + 1 samples: the new one counts
        return cls(np.unique(values[ends - 1]), edges_apart=True)

    @property
    def count(self) -> int:
        """How many bins there are, edges not counted."""
        return int(self.edges.size) + 1

    def assign(self, ease: ArrayLike) -> NDArray[np.intp]:
        """The bin of each sample, 0..B-1; with ``edges_apart``, B + i on the i-th edge.

        Parameters
        ----------
        ease
            Eases, shape (n,).

        Returns
        -------
        integer array of shape (n,)
            The bins.
        """
        values = as_vector(ease, "ease")
        number = np.searchsorted(self.edges, values, side="right")
        if self.edges_apart:
            number[np.searchsorted(self.edges, values, side="left") < number] += self.edges.size
        return np.asarray(number)


def cut_bins(
    ease: ArrayLike, binning: ArrayLike | Literal["calibration"], bins: int
) -> tuple[EaseBins, NDArray[np.intp], NDArray[np.bool_], str]:
    """The bins by which to calibrate samples of this ease.

    Returns the bins, the group of each sample, which samples calibrate (all, but for one that is alone on an edge), and
    a sentence, which is also a warning, if a bin has no calibration sample.
    """
    own = as_vector(ease, "ease")
    if isinstance(binning, str):
        check_known(binning, ("calibration",), "binning")
        cut = EaseBins.cut_for_same(own, bins)
    else:
        other = as_vector(binning, "binning")
        if np.array_equal(np.sort(other), np.sort(own)):
            raise InputError("binning holds the ease of the calibration samples themselves. Pass "
                             "binning='calibration', which cuts on them and keeps the promise.")  # fmt: skip
        cut = EaseBins.cut(other, bins)
    number = cut.assign(own)
    size = np.bincount(number, minlength=cut.count)
    note = ""
    if empty := np.count_nonzero(size[: cut.count] == 0):
        note = f"{empty} of {cut.count} difficulty bins hold no calibration sample: nothing is excluded there."
        warnings.warn(note, CaveatWarning, stacklevel=3)
    return cut, number, (number < cut.count) | (size[number] > 1), note


def _evidence(logits: NDArray[Any]) -> Floats:
    """Softmax of each row up to a factor, which no cosine notices."""
    top = np.argmax(logits, axis=1)[:, None]  # numpy finds the place faster than the largest itself
    shifted = logits - np.take_along_axis(logits, top, axis=1)
    np.exp(shifted, out=shifted)
    return np.asarray(shifted, dtype=np.float64)


def _cosine(a: NDArray[Any], b: NDArray[Any]) -> Floats:
    cross = np.einsum("ij,ij->i", a, b, dtype=np.float64)
    lengths = np.einsum("ij,ij->i", a, a, dtype=np.float64) * np.einsum("ij,ij->i", b, b, dtype=np.float64)
    return np.asarray(np.minimum(check_result(cross / np.sqrt(lengths), "the cosine"), 1.0))
