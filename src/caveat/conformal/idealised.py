r"""The idealized setting: the distribution is known, and every criterion of efficiency is an exact number.

For a joint distribution Q over finitely many objects and labels and a conformity measure A (larger = more typical),

$$ p(x, y) = Q\{A < A(x, y)\} + \tau\,Q\{A = A(x, y)\}, \qquad \tau \sim U(0, 1) \text{, shared by all examples} $$

or the same within each label (label-conditional). Optimal: CP for S, N, OF, OE; SP for U, M; MCP for F, E; MSP for OU,
OM. Vovk, Nouretdinov, Fedorova, Petej and Gammerman, "Criteria of Efficiency for Conformal Prediction", COPA 2016,
eqs. (11), (14), (43), theorems 1-4.

The theorems also name all other optimal orders. ``caveat reproduce efficiency-theorems`` lists all orders of few
examples and finds three gaps. Theorem 4 is wrong for an object whose most probable label has probability exactly 1/2 if
there are three or more labels: that label must conform at least as much as the others. Theorems 2 and 4 need
Q(x, y) > 0 with three or more labels: else more orders are optimal. The four measures are optimal in both cases.
Theorem 6 (label-conditional, two labels: CP is optimal for U, M, F, E, too) has a counterexample with three objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caveat._internal.checks import as_level, as_matrix, check_known, check_same
from caveat.errors import InputError

__all__ = ["OPTIMAL", "efficiency", "measure", "p_lines"]

Floats = NDArray[np.float64]

OPTIMAL = {  # which conformity measure is optimal for which criterion
    "S": "cp", "N": "cp", "OF": "cp", "OE": "cp", "U": "sp", "M": "sp", "F": "mcp", "E": "mcp",
    "OU": "msp", "OM": "msp",
}  # fmt: skip


def measure(q: ArrayLike, name: Literal["cp", "sp", "mcp", "msp"]) -> Floats:
    """An optimal conformity measure of a joint distribution, shape (X, Y). The larger, the more typical.

    With f(x) the largest conditional probability of x and y_hat(x) the first label that has it:

    - ``cp``, conditional probability: Q(y | x)
    - ``sp``, signed predictability: f(x) for y_hat(x), -f(x) for the others
    - ``mcp``, modified conditional probability: Q(y | x), minus 1 for all labels but y_hat(x)
    - ``msp``, modified signed predictability: sp where f(x) > 1/2, else 0

    Parameters
    ----------
    q
        Joint distribution, shape (X, Y); sums to 1.
    name
        ``"cp"``, ``"sp"``, ``"mcp"`` or ``"msp"``.

    Returns
    -------
    array of shape (X, Y)
        The conformity of every example.

    Examples
    --------
    >>> measure([[0.2, 0.3, 0.5]], "sp"), measure([[0.2, 0.3, 0.5]], "msp")
    (array([[-0.5, -0.5,  0.5]]), array([[0., 0., 0.]]))
    """
    check_known(name, ("cp", "sp", "mcp", "msp"), "conformity measure")
    joint = _joint(q)
    # 0.14 / 0.7 and 0.06 / 0.3 are the same probability, but not in floats: what is equal must stay tied.
    conditional = np.round(joint / joint.sum(axis=1, keepdims=True), 12)
    if name == "cp":
        return np.asarray(conditional)
    best = conditional.max(axis=1, keepdims=True)
    chosen = np.arange(joint.shape[1]) == np.argmax(conditional, axis=1)[:, None]
    if name == "mcp":
        return np.asarray(conditional - ~chosen)
    signed = np.where(chosen, best, -best)
    return np.asarray(signed if name == "sp" else np.where(best > 0.5, signed, 0.0))


def p_lines(q: ArrayLike, a: ArrayLike, *, by_label: bool = False) -> tuple[Floats, Floats]:
    """The p-values of the idealized conformal predictor as lines in tau: p = below + tau * tied.

    Parameters
    ----------
    q
        Joint distribution, shape (X, Y); sums to 1.
    a
        Conformity of every example, shape (X, Y); the larger, the more typical.
    by_label
        Label-conditional p-values (eq. 43).

    Returns
    -------
    tuple of two arrays of shape (X, Y)
        ``below`` and ``tied``.

    Examples
    --------
    >>> p_lines([[0.2, 0.3, 0.5]], [[0.1, 0.4, 0.5]])
    (array([[0. , 0.2, 0.5]]), array([[0.2, 0.3, 0.5]]))
    """
    joint, values = _joint(q), as_matrix(a, "a")
    check_same("shape", a=values.shape, q=joint.shape)
    below, tied = np.empty(joint.shape), np.empty(joint.shape)
    for columns in [slice(y, y + 1) for y in range(joint.shape[1])] if by_label else [slice(None)]:
        levels, where = np.unique(values[:, columns], return_inverse=True)
        mass = np.bincount(where.ravel(), weights=joint[:, columns].ravel(), minlength=levels.size)
        mass = mass / joint[:, columns].sum()
        start = np.concatenate([[0.0], np.cumsum(mass)[:-1]])
        below[:, columns], tied[:, columns] = start[where], mass[where]
    return below, tied


def efficiency(q: ArrayLike, a: ArrayLike, *, epsilon: float | None = None, by_label: bool = False) -> dict[str, float]:
    """The exact criteria of the idealized conformal predictor; keys as in ``metrics.efficiency``.

    Every criterion is, for one object, a piecewise linear function of tau. Between two crossings of the lines (with
    each other, and with epsilon) it is linear, so its mean is its value in the middle: exact, nothing is simulated.

    Parameters
    ----------
    q
        Joint distribution, shape (X, Y); sums to 1.
    a
        Conformity of every example, shape (X, Y); the larger, the more typical.
    epsilon
        Significance level of the sets; None leaves the criteria of sets out.
    by_label
        Label-conditional p-values (eq. 43).

    Returns
    -------
    dict
        Letter of the criterion -> value.

    Examples
    --------
    >>> q = [[0.2, 0.3, 0.5]]
    >>> [round(efficiency(q, measure(q, name))["U"], 6) for name in ("cp", "sp")]
    [0.35, 0.25]
    """
    joint = _joint(q)
    below, tied = p_lines(joint, a, by_label=by_label)
    rows, labels, weights = [], [], []
    for x in range(joint.shape[0]):
        cuts = _crossings(below[x], tied[x], None if epsilon is None else as_level(epsilon, "epsilon"))
        middle, length = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts)
        p = below[x] + middle[:, None] * tied[x]
        for y in np.flatnonzero(joint[x]):
            rows.append(p)
            labels.append(np.full(middle.size, y))
            weights.append(length * joint[x, y])
    return criteria(
        np.concatenate(rows), labels=np.concatenate(labels), epsilon=epsilon, weights=np.concatenate(weights)
    )


def criteria(
    p: NDArray[Any],
    *,
    labels: NDArray[np.intp] | None,
    epsilon: float | None,
    weights: NDArray[np.float64] | None = None,
    phi: Callable[[NDArray[Any]], ArrayLike] | None = None,
) -> dict[str, float]:
    r"""The ten criteria of efficiency: weighted means over the rows of p-values (n, C). Smaller is better.

    | free of epsilon | at epsilon |
    |---|---|
    | S, sum of p-values: $\sum_y p^y$ | N, number of labels: $|\Gamma|$ |
    | U, unconfidence: the second largest p | M, multiple: $1\{|\Gamma| > 1\}$ |
    | F, fuzziness: $\sum_y p^y - \max_y p^y$ | E, excess: $(|\Gamma| - 1)^+$ |
    | OU, observed unconfidence: $\max_{y \ne y_i} p^y$ | OM, observed multiple: $1\{|\Gamma \setminus y_i| > 0\}$ |
    | OF, observed fuzziness: $\sum_{y \ne y_i} p^y$ | OE, observed excess: $|\Gamma \setminus y_i|$ |

    with the set $\Gamma = \{y : p^y > \epsilon\}$ and the true label $y_i$. Equal U or F: the smaller credibility (mean
    largest p) wins; equal M or E: the larger share of empty sets.

    S_phi is the sum of $\phi(p^y)$ for an increasing function $\phi$, by default not computed.

    Section 2 of the paper, S_phi: remark after theorem 1. Without labels no observed criterion, without epsilon no
    criterion of sets.
    """

    def mean(values: NDArray[Any]) -> float:
        return float(np.average(values.astype(np.float64, copy=False), weights=weights))

    # Sums are float64 whatever p is; p itself stays, so that an epsilon rounded like it still ties with it.
    total, largest = p.sum(axis=1, dtype=np.float64), p.max(axis=1)
    second = np.partition(p, -2, axis=1)[:, -2] if p.shape[1] > 1 else np.zeros(p.shape[0])
    means = {"S": mean(total), "U": mean(second), "F": mean(total - largest), "credibility": mean(largest)}
    if phi is not None:
        means["S_phi"] = mean(_transformed(p, phi).sum(axis=1))
    own = None if labels is None else np.take_along_axis(p, labels[:, None], axis=1)[:, 0]
    if labels is not None and own is not None:
        others = np.where(np.arange(p.shape[1]) == labels[:, None], -np.inf, p)
        best_other = others.max(axis=1) if p.shape[1] > 1 else np.zeros(p.shape[0])
        means |= {"OU": mean(best_other), "OF": mean(total - own)}
    if epsilon is None:
        return means
    size = np.count_nonzero(p > epsilon, axis=1)
    means |= {"N": mean(size), "M": mean(size > 1), "E": mean(np.maximum(size - 1, 0)), "empty": mean(size == 0)}
    if own is not None:
        wrong = size - (own > epsilon)
        means |= {"OM": mean(wrong > 0), "OE": mean(wrong)}
    return means


def _transformed(p: NDArray[Any], phi: Callable[[NDArray[Any]], ArrayLike]) -> Floats:
    """phi of every p-value, refused where phi decreases: a smaller sum would no longer be better."""
    values = as_matrix(phi(p.astype(np.float64, copy=False)), "phi(p_values)")
    check_same("shape", **{"phi(p_values)": values.shape, "p_values": p.shape})
    order = np.argsort(p, axis=None)
    if (np.diff(values.ravel()[order]) < -1e-12 * np.ptp(values)).any():  # exp may err in the last bit
        raise InputError("phi must increase with its argument, but a larger p-value has a smaller phi.")
    return values.astype(np.float64)


def _crossings(below: Floats, tied: Floats, epsilon: float | None) -> Floats:
    """0, 1 and every tau between them where two lines cross, or one crosses epsilon."""
    slopes, heights = np.subtract.outer(tied, tied), np.subtract.outer(below, below)
    crossings = [-heights[slopes != 0] / slopes[slopes != 0]]
    if epsilon is not None:
        crossings.append((epsilon - below[tied > 0]) / tied[tied > 0])
    inside = np.concatenate(crossings)
    return np.unique(np.concatenate([[0.0, 1.0], inside[(inside > 0) & (inside < 1)]]))


def _joint(q: ArrayLike) -> Floats:
    joint = as_matrix(q, "q").astype(np.float64)
    if (joint < 0).any() or abs(joint.sum() - 1) > 1e-9:
        raise InputError(f"q must be a joint distribution: no negative value, sum 1; got the sum {joint.sum():.6g}.")
    if (empty := joint.sum(axis=1) == 0).any():
        raise InputError(f"every object of q must have positive probability, but row {int(np.argmax(empty))} has none.")
    return joint
