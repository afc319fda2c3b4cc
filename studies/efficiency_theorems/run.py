"""Theorems 1 to 6 of the efficiency paper as equalities of sets, by enumeration in whole numbers.

    caveat reproduce efficiency-theorems

An idealized conformal predictor depends on the conformity order of the examples only. For few examples all orders (with
ties) are listed, the optimal ones are searched by brute force, and their set is compared with the set that the theorem
names. Q has whole-number weights with the sum W. At a significance level epsilon = k / W every criterion is a fraction
with a denominator up to W, and it is linear in epsilon between two such levels: all comparisons are exact, for all
epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from printed import printed_examples  # in this folder

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SETS = {"S": "N", "U": "M", "F": "E", "OU": "OM", "OF": "OE"}  # a criterion without epsilon is the integral of another
THEOREMS = {"S": 1, "N": 1, "OF": 1, "OE": 1, "U": 2, "M": 2, "F": 3, "E": 3, "OU": 4, "OM": 4}
PHI = {"S_phi, p^2": (0, 1), "S_phi, 2p - p^2": (1, -1)}  # phi' / 2 = first + second * p


def weak_orders(n: int) -> Ints:
    """All ways to rank n things with ties, each once, shape (count, n)."""
    orders: list[list[int]] = [[]]
    for _ in range(n):  # the next thing joins a level or opens one between two others
        orders = [
            [*(value + (opens and value >= level) for value in order), level]
            for order in orders
            for opens in (False, True)
            for level in range(len(set(order)) + opens)
        ]
    return np.array(orders)


def distributions(shape: tuple[int, int], total: int, *, zeros: bool) -> Iterator[Ints]:
    """Every matrix of whole numbers with this sum; positive, or with at least one 0 but no row of zeros."""
    cells = shape[0] * shape[1]
    for bars in combinations(range(1, total + cells * zeros), cells - 1):
        weights = np.diff([0, *bars, total + cells * zeros]).reshape(shape) - zeros
        if not zeros or ((weights == 0).any() and weights.sum(axis=1).all()):
            yield weights


def set_values(weights: Ints) -> dict[str, Ints]:
    """Criteria of sets, times W, for each of the 2^(XY) sets of examples that a predictor may include."""
    count = weights.size
    included = (np.arange(2**count)[:, None] >> np.arange(count) & 1).reshape(-1, *weights.shape)
    size, mass = included.sum(axis=2), weights.sum(axis=1)
    false = size[:, :, None] - included  # labels of the object that are included and are not y
    return {
        "N": size @ mass, "M": (size > 1) @ mass, "E": np.maximum(size - 1, 0) @ mass, "empty": (size == 0) @ mass,
        "OM": ((false > 0) * weights).sum(axis=(1, 2)), "OE": (false * weights).sum(axis=(1, 2)),
    }  # fmt: skip


def curves(weights: Ints, orders: Ints) -> dict[str, Ints]:
    """Each criterion of sets as a function of epsilon, shape (orders, W, 2): at k / W, and just below (k + 1) / W.

    In units of 1 / (W lcm(1..W)). Both values of a k are needed: an example of probability 0 makes a step.
    """
    flat, total = weights.ravel(), int(weights.sum())
    scale, bits = math.lcm(*range(1, total + 1)), 1 << np.arange(flat.size)
    below = (flat * (orders[:, None, :] < orders[:, :, None])).sum(axis=2)
    tied = (flat * (orders[:, None, :] == orders[:, :, None])).sum(axis=2)
    levels = np.arange(total)[:, None]  # the shape is now (orders, k, examples)
    below, tied = below[:, None], tied[:, None]
    active = (below <= levels) & (below + tied > levels)  # p runs through epsilon while tau runs through (0, 1)
    above = (below > levels) @ bits
    whole = above + active @ bits
    start, mass = (below * active).max(axis=2), (tied * active).max(axis=2)
    tables = set_values(weights)
    ends = []
    for step in (0, 1):
        share = scale // mass * (start + mass - np.arange(total) - step)  # chance that the tied examples are included
        ends.append({name: table[whole] * share + table[above] * (scale - share) for name, table in tables.items()})
    return {name: np.stack([end[name] for end in ends], axis=2) for name in tables}


def integral(curve: Ints, phi: tuple[int, int] = (1, 0)) -> Ints:
    """6 W^2 times the integral of a curve, weighted by phi[0] + phi[1] epsilon: exact for linear pieces."""
    k, (first, last) = np.arange(curve.shape[1]), (curve[..., 0], curve[..., 1])
    plain, by_level = 3 * (first + last), first * (3 * k + 1) + last * (3 * k + 2)
    return np.asarray((phi[0] * curve.shape[1] * plain + phi[1] * by_level).sum(axis=1))


def optimal(curve: dict[str, Ints]) -> dict[str, Bools]:
    """Which orders are optimal: at every epsilon for a criterion of sets, tie-breakers as in the paper."""
    answers: dict[str, Bools] = {}
    for free, name in SETS.items():
        least = curve[name] == curve[name].min(axis=0)
        value = integral(curve[name])
        if name in ("M", "E"):
            least[:, :, 1] &= least[:, :, 0]  # the right end is a limit: a tie there counts if it holds before it
            empty = np.where(least, curve["empty"], -1)
            answers[name] = (least & (empty == empty.max(axis=0))).all(axis=(1, 2))
            ties = value == value.min()
            credibility = -integral(curve["empty"])
            answers[free] = ties & (credibility == credibility[ties].min())
        else:
            answers[name], answers[free] = least.all(axis=(1, 2)), value == value.min()
    for name, phi in PHI.items():
        value = integral(curve["N"], phi)
        answers[name] = value == value.min()
    return answers


def refines(orders: Ints, measure: NDArray[Any]) -> Bools:
    """Eq. (15): what the measure separates, the order separates in the same direction."""
    pairs = np.argwhere(measure.ravel()[:, None] < measure.ravel()[None, :])
    return np.asarray((orders[:, pairs[:, 0]] < orders[:, pairs[:, 1]]).all(axis=1))


def tied_within(orders: Ints, shape: tuple[int, int], kinds: NDArray[Any]) -> Bools:
    """Labels of one object with the same entry of ``kinds`` have the same conformity; None: no demand."""
    rows, kept = orders.reshape(-1, *shape), np.ones(len(orders), dtype=bool)
    for x, y, z in ((x, y, z) for x in range(shape[0]) for y, z in combinations(range(shape[1]), 2)):
        if kinds[x, y] is not None and kinds[x, y] == kinds[x, z]:
            kept &= rows[:, x, y] == rows[:, x, z]
    return kept


def named(weights: Ints, orders: Ints) -> dict[int | str, Bools]:
    """The sets of orders that theorems 1 to 4 name, and ``"4 corrected"``."""
    shape, one, half = weights.shape, Fraction(1), Fraction(1, 2)
    cp = np.array([[Fraction(int(w), int(row.sum())) for w in row] for row in weights])
    best = cp.max(axis=1)
    sp_orders, mcp_orders = np.zeros(len(orders), dtype=bool), np.zeros(len(orders), dtype=bool)
    for choice in product(*[np.flatnonzero(row == top) for row, top in zip(cp, best, strict=True)]):
        chosen = np.arange(shape[1]) == np.array(choice)[:, None]
        sp = np.where(chosen, best[:, None], -best[:, None])
        sp_orders |= refines(orders, sp) & tied_within(orders, shape, sp)
        mcp_orders |= refines(orders, cp - np.where(chosen, 0 * one, one))
    top = cp == best[:, None]
    msp = np.where(best[:, None] <= half, 0 * one, np.where(top, best[:, None], -best[:, None]))
    kinds = np.where(best[:, None] < half, "all", np.where(cp < half, "small", None))
    fourth = refines(orders, msp) & tied_within(orders, shape, kinds)
    rows, corner = orders.reshape(-1, *shape), np.ones(len(orders), dtype=bool)
    for x in np.flatnonzero((best == half) & (shape[1] > 2)):
        corner &= rows[:, x, int(np.argmax(top[x]))] == rows[:, x].max(axis=1)
    return {1: refines(orders, cp), 2: sp_orders, 3: mcp_orders, 4: fourth, "4 corrected": fourth & corner}


def check(weights: Ints, orders: Ints) -> dict[str, bool]:
    """Whether the optimal orders of each criterion are those that its theorem names."""
    answers, sets = optimal(curves(weights, orders)), named(weights, orders)
    equal = {name: bool((answers[name] == sets[number]).all()) for name, number in THEOREMS.items()}
    equal |= {name: bool((answers[name] == sets[1]).all()) for name in PHI}
    equal |= {f"{name} subset": bool((answers[name] | ~sets[2]).all()) for name in ("U", "M")}
    equal |= {f"{name} corrected": bool((answers[name] == sets["4 corrected"]).all()) for name in ("OU", "OM")}
    if weights.shape[1] == 2:  # corollary 1: some refinement of CP is optimal for every criterion
        equal["corollary 1"] = all((answers[name] & sets[1]).any() for name in THEOREMS)
    return equal


def check_by_label(weights: Ints) -> dict[str, bool]:
    """Theorem 5: label-conditional p-values. Orders within each label are combined in all ways."""
    within, mass, sizes = weak_orders(len(weights)), weights.sum(axis=1), weights.sum(axis=0)
    steps = math.lcm(*sizes.tolist())  # epsilon = k / steps
    scale = math.lcm(*range(1, int(sizes.max()) + 1))
    totals: dict[str, list[Ints]] = {"N": [], "OE": []}
    refinements = []
    for y, size in enumerate(sizes.tolist()):
        column, stretch = weights[:, y], steps // size
        below = (column * (within[:, None, :] < within[:, :, None])).sum(axis=2) * stretch
        tied = (column * (within[:, None, :] == within[:, :, None])).sum(axis=2)
        out = (np.arange(steps + 1)[:, None] - below[:, None]) * (scale // tied[:, None])
        chance = scale * stretch - np.clip(out, 0, scale * stretch)  # of p > epsilon, shape (orders, levels, X)
        totals["N"].append(chance @ mass * size)
        totals["OE"].append(chance @ (mass - column) * size)
        cp = np.array([Fraction(int(w), int(m)) for w, m in zip(column, mass, strict=True)])
        refinements.append(refines(within, cp))
    combined = np.array(list(product(range(len(within)), repeat=len(sizes))))
    theorem = np.all([kept[combined[:, y]] for y, kept in enumerate(refinements)], axis=0)
    equal = {}
    for free, name in (("S", "N"), ("OF", "OE")):
        curve = sum(table[combined[:, y]] for y, table in enumerate(totals[name]))
        assert isinstance(curve, np.ndarray)
        equal[name] = bool(((curve == curve.min(axis=0)).all(axis=1) == theorem).all())
        area = (curve[:, :-1] + curve[:, 1:]).sum(axis=1)
        equal[free] = bool(((area == area.min()) == theorem).all())
    return equal


def check_two_labels(weights: Ints) -> dict[str, bool]:
    """Theorem 6: two labels, label-conditional. Whether CP is optimal for U (the same as F) and OU, among all orders.

    An M-optimal order is U-optimal as well, because U is the integral of M: what fails for U fails for M and E.
    """
    within, mass = weak_orders(len(weights)), weights.sum(axis=1)
    lines = [[_p_lines(column, order) for order in within] for column in weights.T]
    cp = [[Fraction(int(w), int(m)) for w, m in zip(column, mass, strict=True)] for column in weights.T]
    is_cp = [refines(within, np.array(values)) for values in cp]
    best: dict[str, tuple[Fraction, ...]] = {}
    ours: dict[str, tuple[Fraction, ...]] = {}
    for (i, first), (j, second) in product(enumerate(lines[0]), enumerate(lines[1])):
        smaller = sum(int(m) * _mean_of_smaller(a, b) for m, a, b in zip(mass, first, second, strict=True))
        larger = sum(int(m) * (sum(a) + sum(b)) / 2 for m, a, b in zip(mass, first, second, strict=True)) - smaller
        # the p-value of the other label, on average
        false = sum(int(w[1]) * sum(a) + int(w[0]) * sum(b) for w, a, b in zip(weights, first, second, strict=True))
        for name, value in (("U", (smaller, larger)), ("OU", (false,))):
            best[name] = min(best.get(name, value), value)
            if is_cp[0][i] and is_cp[1][j]:
                ours[name] = min(ours.get(name, value), value)
    return {name: ours[name] == best[name] for name in best}


def _p_lines(column: Ints, order: Ints) -> list[tuple[Fraction, Fraction]]:
    """P-values of one label for all objects: at tau = 0 and at tau = 1."""
    total = int(column.sum())
    return [(Fraction(int(column[order < own].sum()), total), Fraction(int(column[order <= own].sum()), total))
            for own in order]  # fmt: skip


def _mean_of_smaller(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]) -> Fraction:
    """Mean over tau of the smaller of two p-values, each a line from its value at 0 to its value at 1."""
    start, end = a[0] - b[0], a[1] - b[1]
    if start * end >= 0:
        return min(a[0] + a[1], b[0] + b[1]) / 2
    excess = max(start, end) ** 2 / (2 * abs(start - end))  # mean of (a - b)^+: a triangle
    return (a[0] + a[1]) / 2 - excess


def one(case: str) -> list[dict[str, Any]]:
    """One row per criterion: on how many distributions the two sets are equal. A case is "2x3 sum 10 positive"."""
    if case == "examples":
        return printed_examples()
    size, _, total, kind = case.split()
    shape = (int(size[0]), int(size[2]))
    orders = weak_orders(shape[0] * shape[1])
    checks: dict[str, Callable[[Ints], dict[str, bool]]] = {
        "positive": lambda weights: check(weights, orders), "zeros": lambda weights: check(weights, orders),
        "by-label": check_by_label, "two-labels": check_two_labels,
    }  # fmt: skip
    counts: dict[str, list[bool]] = {}
    for weights in distributions(shape, int(total), zeros=kind == "zeros"):
        if kind == "two-labels" and len({Fraction(int(a), int(a + b)) for a, b in weights}) < shape[0]:
            continue  # the proof of theorem 6 is for different Q(1 | x)
        for name, equal in checks[kind](weights).items():
            counts.setdefault(name, []).append(equal)
    return [
        {"shape": size, "W": int(total), "kind": kind, "criterion": name, "distributions": len(all_equal),
         "equal": sum(all_equal)}
        for name, all_equal in counts.items()
    ]  # fmt: skip
