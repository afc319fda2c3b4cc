r"""Selective metrics in which every class counts the same, however many samples it has.

Risk is that of balanced accuracy: the error rate of each class, averaged over the classes. Coverage stays the plain
share of accepted samples. Definitions as in FD-Shifts (Jaeger, Lueth, Klein and Bungert, ICLR 2023, and Traub et al.,
NeurIPS 2024): a class of which nothing is accepted contributes no selective risk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_labels, same_length
from caveat.metrics.selective import scored_answers

__all__ = ["balanced_augrc", "balanced_aurc"]


def balanced_aurc(*, score: ArrayLike, correct: ArrayLike, labels: ArrayLike) -> float:
    r"""Area under the class-averaged selective risk against coverage (trapezoid). Lower is better.

    $$ r(\tau) = \frac1K \sum_c \frac{\#\{y = c,\ \text{wrong},\ s \le \tau\}}{\#\{y = c,\ s \le \tau\}} $$

    Parameters
    ----------
    score, correct, labels
        Shape (n,): strangeness, whether the answer was right, and the true class.

    Examples
    --------
    >>> round(balanced_aurc(score=[1, 2, 3, 4], correct=[1, 0, 1, 0], labels=[0, 0, 0, 1]), 4)
    0.1875
    """
    values, wrong, group = _by_class(score, correct, labels)
    order = np.argsort(values, kind="stable")
    # Only the class of the sample just accepted changes its rate: add up the changes, in the order of acceptance.
    by_class = order[np.argsort(group[order], kind="stable")]
    first = np.concatenate([[True], group[by_class][1:] != group[by_class][:-1]])
    start = np.flatnonzero(first)[np.cumsum(first) - 1]
    accepted = np.arange(values.size) - start + 1
    errors = np.cumsum(wrong[by_class])
    errors = errors - (errors[start] - wrong[by_class][start])
    rate = errors / accepted
    change = np.empty(values.size)
    change[by_class] = rate - np.where(first, 0.0, np.roll(rate, 1))
    ends = _group_ends(values[order])
    risk = np.cumsum(change[order])[ends] / (group.max() + 1)
    return float(np.trapezoid(np.append(risk[0], risk), np.append(0.0, (ends + 1) / values.size)))


def balanced_augrc(*, score: ArrayLike, correct: ArrayLike, labels: ArrayLike) -> float:
    r"""Area under the class-balanced generalised risk against coverage (trapezoid). Lower is better.

    An error of class c weighs $n / (K n_c)$, so that full coverage has the balanced error rate.

    Parameters
    ----------
    score, correct, labels
        Shape (n,): strangeness, whether the answer was right, and the true class.

    Examples
    --------
    >>> round(balanced_augrc(score=[1, 2, 3, 4], correct=[1, 0, 1, 0], labels=[0, 0, 0, 1]), 4)
    0.1667
    """
    values, wrong, group = _by_class(score, correct, labels)
    sizes = np.bincount(group)
    weight = wrong / (sizes.size * sizes[group])
    order = np.argsort(values)
    ends = _group_ends(values[order])
    risk = np.cumsum(weight[order])[ends]
    return float(np.trapezoid(np.append(0.0, risk), np.append(0.0, (ends + 1) / values.size)))


def _by_class(
    score: ArrayLike, correct: ArrayLike, labels: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.intp]]:
    values, right = scored_answers(score, correct)
    true = as_labels(labels, "labels")
    same_length(score=values, labels=true)
    _, group = np.unique(true, return_inverse=True)
    return values, ~right, group


def _group_ends(values_sorted: NDArray[np.float64]) -> NDArray[np.intp]:
    return np.append(np.flatnonzero(values_sorted[1:] != values_sorted[:-1]), values_sorted.size - 1)
