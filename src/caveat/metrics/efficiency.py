"""Efficiency of conformal predictors: how narrow their answers are, by the ten criteria of Vovk et al."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import (
    as_kind,
    as_labels,
    as_level,
    as_matrix,
    as_number,
    check_each,
    check_known,
    same_length,
)
from caveat.conformal.idealised import criteria
from caveat.errors import InputError

__all__ = ["better", "efficiency"]

_TIE_BREAKER = {"U": "credibility", "F": "credibility", "M": "empty", "E": "empty"}


def efficiency(
    *,
    p_values: ArrayLike,
    labels: ArrayLike | None = None,
    epsilon: float | None = None,
    phi: Callable[[NDArray[Any]], ArrayLike] | None = None,
) -> dict[str, float]:
    r"""The ten criteria by their letters: S, U, F, OU, OF and, at epsilon, N, M, E, OM, OE. Smaller is better.

    The formulas are in ``conformal.idealised.criteria``. The tie-breakers are given too: ``credibility`` (mean largest
    p-value, smaller is better) for U and F, ``empty`` (share of empty sets, larger is better) for M and E.

    Vovk, Nouretdinov, Fedorova, Petej and Gammerman, "Criteria of Efficiency for Conformal Prediction", COPA 2016,
    section 2.

    Parameters
    ----------
    p_values
        Shape (n, C): p-value of every label.
    labels
        True labels (n,); without them the four observed criteria are left out.
    epsilon
        Significance level of the sets {y : p > epsilon}; without it the five criteria of sets are left out.
    phi
        A strictly increasing, continuously differentiable function on [0, 1], applied to an array of p-values. Adds
        ``S_phi``, the mean sum of phi(p) (remark after theorem 1). The same predictors are optimal for S_phi and for S,
        whatever phi is: a phi with a steep start, such as ``lambda p: np.log1p(100 * p)``, weighs small p-values more.

    Returns
    -------
    dict
        Letter of the criterion -> value, and the tie-breakers ``credibility`` and ``empty``. Criteria that need labels,
        epsilon or phi are left out without them.

    Examples
    --------
    >>> criteria = efficiency(p_values=[[0.9, 0.2, 0.05], [0.3, 0.6, 0.15]], labels=[0, 0], epsilon=0.1)
    >>> {letter: round(value, 3) for letter, value in sorted(criteria.items()) if len(letter) < 3}
    {'E': 1.5, 'F': 0.35, 'M': 1.0, 'N': 2.5, 'OE': 1.5, 'OF': 0.5, 'OM': 1.0, 'OU': 0.4, 'S': 1.1, 'U': 0.25}
    """
    p = as_matrix(p_values, "p_values")
    check_each(p, (p >= 0) & (p <= 1), "p_values", "lie between 0 and 1")
    true = None if labels is None else as_labels(labels, "labels", n_classes=p.shape[1])
    same_length(p_values=p, labels=p if true is None else true)
    if phi is not None and not callable(phi):
        raise InputError(f"phi must be a function of an array of p-values, got {phi!r}.")
    level = None if epsilon is None else as_level(epsilon, "epsilon")
    return criteria(p, labels=true, epsilon=level, phi=phi)


def better(
    first: Mapping[str, float],
    second: Mapping[str, float],
    criterion: Literal["S", "U", "F", "OU", "OF", "N", "M", "E", "OM", "OE"],
    *,
    tolerance: float = 0.0,
) -> Literal["first", "second", "tied"]:
    """Which of two efficiencies is better by a criterion, tie-breaker included.

    Parameters
    ----------
    first, second
        Two results of :func:`efficiency`.
    criterion
        Letter of the criterion.
    tolerance
        Differences up to this one are ties.

    Returns
    -------
    str
        ``"first"``, ``"second"`` or ``"tied"``.

    Examples
    --------
    >>> better({"M": 0.1, "empty": 0.02}, {"M": 0.1, "empty": 0.05}, "M")
    'second'
    """
    check_known(criterion, ("S", "U", "F", "OU", "OF", "N", "M", "E", "OM", "OE"), "criterion")
    tolerance = as_number(tolerance, "tolerance", least=0)
    for name in filter(None, (criterion, _TIE_BREAKER.get(criterion))):
        if name not in as_kind(first, Mapping, "first") or name not in as_kind(second, Mapping, "second"):
            raise InputError(f"both efficiencies must hold {name!r}. Compute them with labels and epsilon.")
        gap = as_number(first[name], f"first[{name!r}]") - as_number(second[name], f"second[{name!r}]")
        if abs(gap) > tolerance:  # of empty sets, more is better
            return "first" if (gap < 0) == (name != "empty") else "second"
    return "tied"
