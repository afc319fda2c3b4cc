"""Theorems 1 to 6 of the efficiency paper by enumeration, and the code that enumerates them."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from caveat.conformal.idealised import OPTIMAL, efficiency, measure
from caveat.metrics import better

HALF = np.array([[1, 1, 2]])  # Q = (1/4, 1/4, 1/2)


@pytest.fixture(scope="module")
def theorems(study):
    return study("efficiency_theorems")


def some_distributions(theorems, shape, total, count, *, zeros=False):
    """A seeded sample of the grid."""
    all_of_them = list(theorems.distributions(shape, total, zeros=zeros))
    picks = np.random.default_rng(0).permutation(len(all_of_them))[:count]
    return [all_of_them[i] for i in picks]


def test_all_orders_are_listed_once(theorems):
    # 1, 3, 13, 75, 541: the ordered Bell numbers
    for n, count in ((1, 1), (2, 3), (3, 13), (4, 75), (5, 541)):
        orders = {tuple(order) for order in theorems.weak_orders(n).tolist()}
        assert len(orders) == len(theorems.weak_orders(n)) == count
        assert all(set(order) == set(range(max(order) + 1)) for order in orders)


def test_the_grid_of_distributions_is_complete(theorems):
    # stars and bars: C(7, 2) with positive weights; with zeros C(10, 2) less those 21 ones
    positive = list(theorems.distributions((1, 3), 8, zeros=False))
    zeros = list(theorems.distributions((1, 3), 8, zeros=True))
    assert (len(positive), len(zeros)) == (21, 45 - 21)
    assert {int(w.sum()) for w in positive + zeros} == {8}
    assert all(w.min() > 0 for w in positive)
    assert all(w.min() == 0 for w in zeros)


def literal_value(weights, order, epsilon, name):
    """Mean of a criterion of sets over tau and Q, by fractions and one object after the other."""
    total = Fraction(int(weights.sum()))
    starts = [
        [sum(w for w, a in zip(weights.flat, order.flat, strict=True) if a < own) for own in row] for row in order
    ]
    sizes = [
        [sum(w for w, a in zip(weights.flat, order.flat, strict=True) if a == own) for own in row] for row in order
    ]
    # the tau from which a label is in the set, for each example
    taus = [
        [min(max((epsilon * total - int(b)) / int(t), Fraction(0)), Fraction(1)) for b, t in zip(*pair, strict=True)]
        for pair in zip(starts, sizes, strict=True)
    ]
    cuts = sorted({Fraction(0), Fraction(1), *(tau for row in taus for tau in row)})
    mean = Fraction(0)
    for low, high in pairwise(cuts):
        for x, row in enumerate(taus):
            inside = [y for y, tau in enumerate(row) if tau <= low]
            for y in range(len(row)):
                false = len(set(inside) - {y})
                value = {"N": len(inside), "M": len(inside) > 1, "E": max(len(inside) - 1, 0), "empty": not inside,
                         "OM": false > 0, "OE": false}[name]  # fmt: skip
                mean += (high - low) * int(weights[x, y]) / total * value
    return mean


@pytest.mark.parametrize("shape", [(2, 2), (1, 4), (2, 3)])
def test_curves_against_the_definition(theorems, shape):
    orders = theorems.weak_orders(shape[0] * shape[1])
    rng = np.random.default_rng(1)
    for weights in some_distributions(theorems, shape, 8, 3):
        picks = orders[rng.permutation(len(orders))[:4]]
        curves = theorems.curves(weights, picks)
        unit = 8 * 840  # W and the least common multiple of 1..8
        for name, curve in curves.items():
            for i, order in enumerate(picks):
                for k in (1, 3, 6):
                    exact = literal_value(weights, order.reshape(shape), Fraction(k, 8), name)
                    assert Fraction(int(curve[i, k, 0]), unit) == exact
                    assert curve[i, k - 1, 1] == curve[i, k, 0]  # no steps without examples of probability 0


def test_integrals_are_the_criteria_without_epsilon(theorems):
    weights = np.array([[1, 2, 2], [3, 1, 1]])
    orders = theorems.weak_orders(6)[::400]
    curves, unit = theorems.curves(weights, orders), 10 * 2520 * 6 * 10**2
    for i, order in enumerate(orders):
        exact = efficiency(weights / 10, order.reshape(2, 3))
        for free, name in theorems.SETS.items():
            assert theorems.integral(curves[name])[i] / unit == pytest.approx(exact[free])
        assert 1 - theorems.integral(curves["empty"])[i] / unit == pytest.approx(exact["credibility"])


def test_s_phi_against_a_fine_grid_of_tau(theorems):
    from caveat.conformal.idealised import p_lines

    weights = np.array([[1, 2, 2], [3, 1, 1]])
    order = theorems.weak_orders(6)[[700]]
    below, tied = p_lines(weights / 10, order.reshape(2, 3).astype(float))
    p = below + (np.arange(2000)[:, None, None] + 0.5) / 2000 * tied
    by_tau = ((p**2).sum(axis=2) * weights.sum(axis=1) / 10).sum(axis=1).mean()
    curve = theorems.curves(weights, order)["N"]
    # phi' = 2p: 2 / W^2 times the sum over k, in units of 1 / (6 W lcm)
    assert 2 * theorems.integral(curve, (0, 1))[0] / (6 * 10 * 2520 * 10**2) == pytest.approx(by_tau, abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "total", "count"), [((1, 3), 10, 36), ((1, 4), 9, 56), ((2, 2), 9, 56), ((2, 3), 10, 30), ((3, 2), 9, 20)]
)
def test_theorems_1_to_4_name_the_optimal_orders(theorems, shape, total, count):
    orders = theorems.weak_orders(shape[0] * shape[1])
    for weights in some_distributions(theorems, shape, total, count):
        equal = theorems.check(weights, orders)
        # theorem 4 as printed fails if and only if the largest probability of an object is 1/2, with 3 or more labels
        corner = shape[1] > 2 and (2 * weights.max(axis=1) == weights.sum(axis=1)).any()
        assert equal.pop("OU") == equal.pop("OM") == (not corner), weights
        assert all(equal.values()), (weights, equal)


def test_theorem_4_names_an_order_that_is_not_optimal_at_one_half(theorems):
    orders = theorems.weak_orders(3)
    answers, sets = theorems.optimal(theorems.curves(HALF, orders)), theorems.named(HALF, orders)
    wrong = orders[sets[4] & ~answers["OM"]]
    assert wrong.tolist() == [[1, 1, 0]]  # the label of probability 1/2 conforms less than the two others
    assert not (answers["OM"] & ~sets[4]).any()
    q = HALF / 4
    for epsilon in (0.1, 0.3, 0.45):
        assert efficiency(q, [[1, 1, 0]], epsilon=epsilon)["OM"] == pytest.approx(1)
        assert efficiency(q, measure(q, "msp"), epsilon=epsilon)["OM"] == pytest.approx(1 - epsilon)
    assert efficiency(q, [[1, 1, 0]])["OU"] == pytest.approx(3 / 4)
    assert efficiency(q, measure(q, "msp"))["OU"] == pytest.approx(1 / 2)


def test_labels_of_probability_0_break_theorems_2_and_4(theorems):
    for shape, total in (((1, 3), 8), ((2, 3), 3)):
        orders = theorems.weak_orders(shape[0] * shape[1])
        for weights in some_distributions(theorems, shape, total, 20, zeros=True):
            answers, sets = theorems.optimal(theorems.curves(weights, orders)), theorems.named(weights, orders)
            for name in ("S", "N", "OF", "OE", *theorems.PHI):
                assert (answers[name] == sets[1]).all()
            for name in ("F", "E"):
                assert (answers[name] == sets[3]).all()
            half = (2 * weights.max(axis=1) == weights.sum(axis=1)).any()
            for name, number in (("U", 2), ("M", 2), ("OU", 4), ("OM", 4)):
                if number == 4 and half:  # the corner of theorem 4: some that it names are not optimal
                    assert (sets[number] & ~answers[name]).any()
                else:  # more orders are optimal than are named
                    assert (answers[name] & ~sets[number]).any()
                    assert not (sets[number] & ~answers[name]).any()
    two_labels = theorems.weak_orders(4)
    for weights in theorems.distributions((2, 2), 5, zeros=True):
        assert all(theorems.check(weights, two_labels).values())


@pytest.mark.parametrize(("shape", "total"), [((3, 2), 9), ((2, 3), 9), ((4, 2), 9)])
def test_theorem_5_names_the_label_conditional_optima(theorems, shape, total):
    for weights in some_distributions(theorems, shape, total, 12):
        assert theorems.check_by_label(weights) == dict.fromkeys(("N", "S", "OE", "OF"), True)


def test_theorem_6_fails_for_unconfidence_by_hand(theorems):
    weights = np.array([[1, 1], [1, 2], [2, 3]])  # Q(1 | x) = 1/2, 1/3, 2/5
    assert theorems.check_two_labels(weights) == {"U": False, "OU": True}
    q = weights / 10
    # A: p-values tau / 2 for one label of every object and 1/2 + tau / 2 for the other: U = 1/4, at 1/2 no set of two
    a = efficiency(q, [[1, 0], [1, 0], [0, 1]], epsilon=0.5, by_label=True)
    assert (a["U"], a["F"], a["M"], a["E"]) == pytest.approx((0.25, 0.25, 0, 0))
    # CP: the smaller p-values are tau / 6, tau / 4, 1/6 + tau / 2: U = .2 / 12 + .3 / 8 + .5 * 5/12; for the third
    # object both exceed 1/2 if tau > 2/3: M = .5 / 3
    cp = efficiency(q, measure(q, "cp"), epsilon=0.5, by_label=True)
    assert (cp["U"], cp["F"], cp["M"], cp["E"]) == pytest.approx((0.2625, 0.2625, 1 / 6, 1 / 6))


def test_two_labels_against_the_exact_criteria_of_the_library(theorems):
    within = theorems.weak_orders(3)
    for weights in (
        np.array([[1, 2], [1, 1], [3, 1]]),
        np.array([[1, 1], [2, 1], [3, 2]]),
        np.array([[3, 1], [1, 1], [2, 3]]),
    ):
        q = weights / weights.sum()
        values = [efficiency(q, np.stack([a, b], axis=1), by_label=True) for a in within for b in within]
        cp = efficiency(q, measure(q, "cp"), by_label=True)
        for name, optimal in theorems.check_two_labels(weights).items():
            assert optimal == (cp[name] <= min(value[name] for value in values) + 1e-12)


def test_the_measures_of_the_library_are_among_the_optimal_orders(theorems):
    orders = theorems.weak_orders(6)
    positive = some_distributions(theorems, (2, 3), 10, 10)
    for weights in [*positive, *some_distributions(theorems, (2, 3), 4, 20, zeros=True)]:
        answers = theorems.optimal(theorems.curves(weights, orders))
        for criterion, name in OPTIMAL.items():
            levels = np.unique(measure(weights / weights.sum(), name), return_inverse=True)[1].ravel()
            (place,) = np.flatnonzero((orders == levels).all(axis=1))
            assert answers[criterion][place], (weights, criterion)


def test_no_order_beats_the_optimal_measure_by_the_tie_rules(theorems):
    q = np.random.default_rng(0).dirichlet(np.ones(6)).reshape(2, 3)  # not on a grid
    ours = {name: efficiency(q, measure(q, name), epsilon=0.3) for name in set(OPTIMAL.values())}
    worse = dict.fromkeys(OPTIMAL, 0)
    for order in theorems.weak_orders(6)[::5]:
        theirs = efficiency(q, order.reshape(2, 3), epsilon=0.3)
        for criterion, name in OPTIMAL.items():
            verdict = better(ours[name], theirs, criterion, tolerance=1e-9)
            assert verdict != "second", (criterion, order)
            worse[criterion] += verdict == "first"
    assert min(worse.values()) > 200  # the criteria do tell orders apart
