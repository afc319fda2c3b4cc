r"""Adaptivity: are sets larger where samples are harder, and covered as promised at every difficulty?

T-CV and T-SS: Jang and Lee, "Quantifying and Improving Adaptivity in Conformal Prediction through Input
Transformations", eqs. (3), (4). SSCV: Angelopoulos, Bates, Jordan and Malik, ICLR 2021, section 4. ESCV: Huang, Xi,
Zhang, Yao, Qiu and Wei, ICML 2024. Deficit and excess: Navratil, Arnold and Elder, 2020, and Seedat, Jeffares, Imrie
and van der Schaar, AISTATS 2023, for sets of classes.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import (
    as_array,
    as_count,
    as_kind,
    as_labels,
    as_level,
    as_list,
    as_mask,
    as_matrix,
    as_vector,
    check_each,
    check_same,
    same_length,
)
from caveat.conformal._bins import SIZE_EDGES, bin_means, equal_mass, signed_r2, strata, worst_violation
from caveat.conformal._ranked import label_ranks
from caveat.errors import CaveatWarning, InputError
from caveat.outputs import Outputs
from caveat.outputs.outputs import demand
from caveat.results import PredictionSets

__all__ = [
    "RANK_EDGES", "adaptivity", "deficit", "escv", "excess", "rank_cv", "rank_ss", "sscv", "steps_short_and_over",
    "t_cv", "t_ss", "true_ranks",
]  # fmt: skip

RANK_EDGES = (1, 2, 4, 7, 11, 101)  # ranks 1, 2-3, 4-6, 7-10, 11-100, 101 and more


def t_cv(*, covered: ArrayLike, ease: ArrayLike, alpha: float, bins: int = 50) -> float:
    r"""Worst |coverage - (1 - alpha)| over bins of equal mass by ease. Smaller is better.

    $$ \max_b \Bigl| \frac{1}{|I_b|} \sum_{i \in I_b} 1\{y_i \in C(x_i)\} - (1 - \alpha) \Bigr| $$

    Jang and Lee, eq. (3).

    Parameters
    ----------
    covered
        Whether each true label is in its set, shape (n,).
    ease
        How little the prediction changes under small changes of the input, shape (n,).
    alpha
        Allowed error of the sets.
    bins
        The paper uses 50.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> t_cv(covered=[1, 1, 0, 1], ease=[0.9, 0.8, 0.1, 0.2], alpha=0.1, bins=2)
    0.4
    """
    hits, easiness = as_mask(covered, "covered"), as_vector(ease, "ease")
    as_count(bins, "bins", most=same_length(covered=hits, ease=easiness))
    return worst_violation(hits, equal_mass(easiness, bins), bins, as_level(alpha, "alpha"))


def t_ss(*, sizes: ArrayLike, ranks: ArrayLike, ease: ArrayLike, bins: int = 50) -> float:
    r"""Signed R squared of mean set size on mean true-label rank across bins by ease. Larger is better, 1 at most.

    $$ \operatorname{sign}(\text{slope}) \cdot \max(0, R^2) $$

    NaN, with a warning, where every bin has the same mean rank: there is then no difficulty to follow. Jang and Lee,
    eq. (4).

    Parameters
    ----------
    sizes
        Set sizes, or widths of intervals, shape (n,).
    ranks
        Rank of the true label, 1 = most probable (``true_ranks``), or absolute errors, shape (n,).
    ease, bins
        As for ``t_cv``.

    Returns
    -------
    float
        Between -1 and 1, or NaN.

    Examples
    --------
    >>> round(t_ss(sizes=[1, 1, 2, 4], ranks=[1, 1, 2, 5], ease=[0.9, 0.8, 0.5, 0.1], bins=4), 4)
    0.9922
    """
    size, rank, easiness = as_vector(sizes, "sizes"), as_vector(ranks, "ranks"), as_vector(ease, "ease")
    as_count(bins, "bins", most=same_length(sizes=size, ranks=rank, ease=easiness))
    number = equal_mass(easiness, bins)
    r2 = float(signed_r2(bin_means(rank, number, bins), bin_means(size, number, bins)))
    if np.isnan(r2):
        warnings.warn("T-SS is undefined: every bin has the same mean rank.", CaveatWarning, stacklevel=2)
    return r2


def sscv(*, covered: ArrayLike, sizes: ArrayLike, alpha: float, edges: tuple[int, ...] = SIZE_EDGES) -> float:
    """Worst |coverage - (1 - alpha)| over strata of set size. Smaller is better.

    The default strata are 0-1, 2-3, 4-10, 11-100, 101 and more. Angelopoulos et al. 2021, section 4.

    Parameters
    ----------
    covered
        Shape (n,): whether the true label of each sample is in its set.
    sizes
        Shape (n,): number of labels in each set.
    alpha
        Allowed error of the sets.
    edges
        Smallest size of each stratum, increasing.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(sscv(covered=[1, 1, 0, 1], sizes=[1, 1, 2, 3], alpha=0.1), 3)
    0.4
    """
    return _worst_stratum(covered, "sizes", sizes, edges, alpha)


def escv(*, covered: ArrayLike, sizes: ArrayLike, alpha: float) -> float:
    """Worst |coverage - (1 - alpha)| over every exact set size from 1 on. Smaller is better.

    Empty sets are left out: they cover nothing by definition, so that one of them would fix the value at 1 - alpha.
    NaN, with a warning, where all sets are empty. Huang et al. 2024. Sizes that few samples have make it noisy: one
    uncovered sample alone in its size gives 1 - alpha.

    Parameters
    ----------
    covered
        Shape (n,): whether the true label of each sample is in its set.
    sizes
        Shape (n,): number of labels in each set.
    alpha
        Allowed error of the sets.

    Returns
    -------
    float
        Between 0 and 1, or NaN.

    Examples
    --------
    >>> escv(covered=[1, 1, 0, 1], sizes=[1, 1, 2, 3], alpha=0.1)
    0.9
    """
    hits, size, alpha = as_mask(covered, "covered"), as_vector(sizes, "sizes"), as_level(alpha, "alpha")
    same_length(covered=hits, sizes=size)
    if not (filled := size > 0).any():
        warnings.warn("ESCV is undefined: every set is empty.", CaveatWarning, stacklevel=2)
        return float("nan")
    _, number = np.unique(size[filled], return_inverse=True)
    return worst_violation(hits[filled], number, int(number.max()) + 1, alpha)


def rank_cv(*, covered: ArrayLike, ranks: ArrayLike, alpha: float, edges: tuple[int, ...] = RANK_EDGES) -> float:
    """Worst |coverage - (1 - alpha)| over strata of the true label's rank. Smaller is better.

    Angelopoulos et al. 2021, section 4 (their difficulty strata: 1, 2-3, 4-6, 7-10, 11-100, 101 and more).

    Parameters
    ----------
    covered
        Shape (n,): whether the true label of each sample is in its set.
    ranks
        Shape (n,): rank of the true label, from :func:`true_ranks`.
    alpha
        Allowed error of the sets.
    edges
        Smallest rank of each stratum, increasing.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(rank_cv(covered=[1, 1, 0, 0], ranks=[1, 1, 2, 5], alpha=0.1), 3)
    0.9
    """
    return _worst_stratum(covered, "ranks", ranks, edges, alpha)


def rank_ss(*, sizes: ArrayLike, ranks: ArrayLike, edges: tuple[int, ...] = RANK_EDGES) -> float:
    """Signed R squared of mean set size on mean rank over strata of the true label's rank. Larger is better.

    NaN, with a warning, where fewer than two strata hold a sample. Huang et al. 2024, section 4.

    Parameters
    ----------
    sizes
        Shape (n,): number of labels in each set.
    ranks
        Shape (n,): rank of the true label, from :func:`true_ranks`.
    edges
        Smallest rank of each stratum, increasing.

    Returns
    -------
    float
        Between -1 and 1, or NaN.

    Examples
    --------
    >>> rank_ss(sizes=[1, 1, 2, 3], ranks=[1, 1, 2, 5])
    0.923...
    """
    size, rank = as_vector(sizes, "sizes"), as_vector(ranks, "ranks")
    same_length(sizes=size, ranks=rank)
    number, bins = _in_strata(rank, edges, "ranks")
    means = bin_means(rank, number, bins), bin_means(size, number, bins)
    used = ~np.isnan(means[0])
    r2 = float(signed_r2(means[0][used], means[1][used]))
    if np.isnan(r2):
        warnings.warn("Rank-SS is undefined: all ranks fall into one stratum.", CaveatWarning, stacklevel=2)
    return r2


def true_ranks(*, probs: ArrayLike, labels: ArrayLike) -> NDArray[np.intp]:
    """Rank of the true label among the probabilities, 1 = most probable; ties go to the smaller label number.

    Parameters
    ----------
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).

    Returns
    -------
    integer array of shape (n,)
        From 1 to C.

    Examples
    --------
    >>> true_ranks(probs=[[0.1, 0.6, 0.3], [0.1, 0.6, 0.3]], labels=[1, 0])
    array([1, 3])
    """
    return label_ranks(*_with_labels(probs, labels))


def steps_short_and_over(
    *, member: ArrayLike, probs: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """For each sample, the classes to add in order of probability until the true one is in, and those to spare.

    Short: labels outside the set that rank no lower than the true one, itself included; 0 if it is in. Over: labels in
    the set that rank below the true one; 0 if it is not in.

    Parameters
    ----------
    member
        Boolean, shape (n, C): which labels are in the set of each sample.
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).

    Returns
    -------
    tuple of two integer arrays of shape (n,)
        Short, whose mean is :func:`deficit`, and over, whose mean is :func:`excess`.

    Examples
    --------
    >>> member = [[False, True, False], [True, True, True]]
    >>> steps_short_and_over(member=member, probs=[[0.1, 0.6, 0.3]] * 2, labels=[0, 1])
    (array([2, 0]), array([0, 2]))
    """
    inside, (rows, true) = as_array(member, "member"), _with_labels(probs, labels)
    check_same("shape", member=inside.shape, probs=rows.shape)
    inside = as_mask(inside.ravel(), "member").reshape(rows.shape)
    own = np.take_along_axis(rows, true[:, None], axis=1)
    columns = np.arange(rows.shape[1])
    above = (rows > own) | ((rows == own) & (columns <= true[:, None]))  # the true label and all ranked before it
    covered = inside[np.arange(true.size), true]
    short = np.where(covered, 0, np.count_nonzero(above & ~inside, axis=1))
    over = np.where(covered, np.count_nonzero(~above & inside, axis=1), 0)
    return short, over


def deficit(*, member: ArrayLike, probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean number of classes that must be added, in order of probability, until the true one is in. Smaller is better.

    Navratil, Arnold and Elder 2020; Seedat et al. 2023. A set of all labels has none: read it together with ``excess``.

    Parameters
    ----------
    member
        Boolean, shape (n, C): which labels are in the set of each sample.
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).

    Returns
    -------
    float
        At least 0.

    Examples
    --------
    >>> deficit(member=[[False, True, False]], probs=[[0.1, 0.6, 0.3]], labels=[0])
    2.0
    """
    return float(steps_short_and_over(member=member, probs=probs, labels=labels)[0].mean())


def excess(*, member: ArrayLike, probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean number of classes that could go, from the least probable up, before the true one. Smaller is better.

    Navratil, Arnold and Elder 2020; Seedat et al. 2023. An empty set has none: read it together with ``deficit``.

    Parameters
    ----------
    member
        Boolean, shape (n, C): which labels are in the set of each sample.
    probs
        Probabilities, shape (n, C).
    labels
        True classes, shape (n,).

    Returns
    -------
    float
        At least 0.

    Examples
    --------
    >>> excess(member=[[True, True, True]], probs=[[0.1, 0.6, 0.3]], labels=[1])
    2.0
    """
    return float(steps_short_and_over(member=member, probs=probs, labels=labels)[1].mean())


def adaptivity(
    sets: PredictionSets, outputs: Outputs, *, ease: ArrayLike | None = None, bins: int = 50
) -> dict[str, float]:
    """Coverage, mean size and every adaptivity metric of prediction sets, by name.

    ``ease`` of each sample is needed for T-CV and T-SS; without it they are left out.

    Parameters
    ----------
    sets
        Prediction sets of n samples.
    outputs
        Outputs of the same samples, with labels and probabilities.
    ease
        Shape (n,): ease of each sample; larger is easier.
    bins
        Number of bins of equal mass by ease.

    Returns
    -------
    dict
        Keys ``coverage``, ``size``, ``deficit``, ``excess``, ``SSCV``, ``ESCV``, ``Rank-CV`` and ``Rank-SS``; with
        ``ease`` also ``T-CV`` and ``T-SS``.

    Examples
    --------
    >>> outputs = Outputs(probs=[[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]], labels=[0, 2])
    >>> sets = PredictionSets(np.array([[True, False, False], [True, True, False]]), alpha=0.1, level=0.9)
    >>> values = adaptivity(sets, outputs, ease=[0.9, 0.2], bins=2)
    >>> values["coverage"], values["size"], values["deficit"], values["T-SS"]
    (0.5, 1.5, 0.5, 1.0)
    """
    as_kind(sets, PredictionSets, "sets")
    demand(outputs, "probs", "labels", who="adaptivity")
    member, labels, alpha = sets.to_dense(), outputs.labels, sets.alpha
    covered, sizes, ranks = sets.covers(labels), sets.sizes, true_ranks(probs=outputs.probs, labels=labels)
    short, over = steps_short_and_over(member=member, probs=outputs.probs, labels=labels)
    values = {
        "coverage": float(covered.mean()),
        "size": float(sizes.mean()),
        "deficit": float(short.mean()),
        "excess": float(over.mean()),
        "SSCV": sscv(covered=covered, sizes=sizes, alpha=alpha),
        "ESCV": escv(covered=covered, sizes=sizes, alpha=alpha),
        "Rank-CV": rank_cv(covered=covered, ranks=ranks, alpha=alpha),
        "Rank-SS": rank_ss(sizes=sizes, ranks=ranks),
    }
    if ease is not None:
        values["T-CV"] = t_cv(covered=covered, ease=ease, alpha=alpha, bins=bins)
        values["T-SS"] = t_ss(sizes=sizes, ranks=ranks, ease=ease, bins=bins)
    return values


def _with_labels(probs: ArrayLike, labels: ArrayLike) -> tuple[NDArray[Any], NDArray[np.intp]]:
    rows = as_matrix(probs, "probs")
    true = as_labels(labels, "labels", n_classes=rows.shape[1])
    same_length(labels=true, probs=rows)
    return rows, true


def _worst_stratum(covered: ArrayLike, name: str, values: ArrayLike, edges: tuple[int, ...], alpha: float) -> float:
    hits, by = as_mask(covered, "covered"), as_vector(values, name)
    same_length(**{"covered": hits, name: by})
    return worst_violation(hits, *_in_strata(by, edges, name), as_level(alpha, "alpha"))


def _in_strata(values: NDArray[np.float64], edges: tuple[int, ...], name: str) -> tuple[NDArray[np.intp], int]:
    """The stratum of each value, and how many strata there are."""
    edges = tuple(as_count(edge, "edges", least=0) for edge in as_list(edges, "edges"))
    if list(edges) != sorted(set(edges)):
        raise InputError(f"edges must rise strictly, got {edges}.")
    number = strata(values, edges)
    check_each(values, number >= 0, name, f"be at least the first edge {edges[0]}")
    return number, len(edges)
