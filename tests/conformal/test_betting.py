from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat import InputError
from caveat.conformal import mean_bounds
from caveat.conformal.betting import CAP, PRECISION, Bets, random_order

values_in_range = st.lists(st.integers(0, 20).map(lambda k: k / 20), min_size=1, max_size=40).map(np.array)


def test_by_hand():
    # n = 1, x = 1, delta = 1/2: the bet is min(sqrt(2 log 2 / (1/4)), 0.9 / m), and above m = 0.38 that is 0.9 / m.
    # 1 + (0.9 / m)(1 - m) = 2 gives m = 0.9 / 1.9. Against 1 - x = 0 no capital is won: the upper bound is 1.
    found = mean_bounds([1.0], delta=0.5)
    assert found.lower == pytest.approx(0.9 / 1.9, abs=1e-9)
    assert (found.value, found.upper, found.level, found.n) == (1.0, 1.0, 0.5, 1)


def literal_log_capital(values, mean, delta):
    """One value after the other, as the formula is printed."""
    n, log_capital, best = len(values), 0.0, 0.0
    for i, x in enumerate(values):
        past = values[:i]
        means = [(0.5 + sum(past[: j + 1])) / (j + 2) for j in range(i)]
        variance = (0.25 + sum((v - m) ** 2 for v, m in zip(past, means, strict=True))) / (i + 1)
        bet = min(math.sqrt(2 * math.log(1 / delta) / (n * variance)), CAP / mean)
        log_capital += math.log(1 + bet * (x - mean))
        best = max(best, log_capital)
    return best


@given(values_in_range, st.floats(0.01, 1), st.sampled_from([0.2, 0.01]))
@settings(max_examples=50)
def test_the_capital_is_the_literal_one(values, mean, delta):
    assert Bets(values, delta).log_capital(mean) == pytest.approx(literal_log_capital(list(values), mean, delta))


@pytest.mark.parametrize("n", [4096, 5001])
@pytest.mark.parametrize("mean", [1e-9, 0.05, 0.3, 0.7, 1.0])
def test_the_capital_of_a_long_path_is_that_of_every_bet(n, mean):
    values = np.random.default_rng(n).beta(2, 3, size=n)
    values[:20] = 1.0  # a path that is largest early
    for bets in (Bets(values, 0.05), Bets(values, 0.05).upside_down()):
        literal = np.log1p(np.minimum(bets.sizes, CAP / mean) * (bets.values - mean)).cumsum()
        assert bets.log_capital(mean) == pytest.approx(max(0.0, literal.max()), rel=1e-9, abs=1e-9)
        assert bets.upside_down().log_capital(mean) == pytest.approx(Bets(1 - bets.values, 0.05).log_capital(mean))


@given(values_in_range, st.sampled_from([0.2, 0.01]))
@settings(max_examples=50)
def test_the_lower_bound_parts_refuted_means_from_the_others(values, delta):
    bets, target = Bets(values, delta), math.log(1 / delta)
    bound = bets.lower_bound()
    capital = [bets.log_capital(m) for m in np.linspace(0.001, 1, 60)]
    assert (np.diff(capital) <= 1e-12).all()  # it falls with the mean, so that one bound says all
    assert bets.log_capital(min(1.0, bound + 4 * PRECISION)) < target
    assert bound == 0 or bets.log_capital(bound) >= target


@given(values_in_range, st.integers(0, 99))
@settings(max_examples=50)
def test_the_interval_holds_the_average_and_follows_the_range(values, seed):
    found = mean_bounds(values, delta=0.1, rng=seed)
    assert 0 <= found.lower <= found.value <= found.upper <= 1
    stretched = mean_bounds(4 * values - 3, delta=0.1, low=-3, high=1, rng=np.random.default_rng(seed))
    plain = mean_bounds(values, delta=0.1, rng=np.random.default_rng(seed))
    assert stretched.lower == pytest.approx(4 * plain.lower - 3, abs=1e-8)
    mirrored = mean_bounds(1 - values, delta=0.1, rng=np.random.default_rng(seed))
    assert mirrored.lower == pytest.approx(1 - plain.upper, abs=1e-8)


def test_a_two_sided_interval_spends_half_of_delta_on_each_side():
    values = np.random.default_rng(0).random(200)
    both, sides = mean_bounds(values, delta=0.1, two_sided=True), mean_bounds(values, delta=0.05)
    assert (both.lower, both.upper) == (sides.lower, sides.upper)
    assert (both.level, sides.level, both.method) == (0.9, 0.95, "betting")


def test_the_order_of_the_bets_is_fixed_by_seed_and_values():
    values = np.random.default_rng(0).random(200)
    assert mean_bounds(values) == mean_bounds(values, rng=0)
    assert mean_bounds(values) != mean_bounds(values, rng=1)
    assert mean_bounds(values).value - mean_bounds(values).lower < math.sqrt(math.log(20) / 400)  # Hoeffding's


def refuted(draws, mean, delta):
    return np.mean([Bets(row, delta).log_capital(mean) >= math.log(1 / delta) for row in draws])


def allowed(delta, trials):
    return delta + 4 * math.sqrt(delta * (1 - delta) / trials)


DRAWS = {  # name: (draws of a shape, their mean)
    "uniform": (lambda rng, shape: rng.random(shape), 0.5),
    "coin": (lambda rng, shape: (rng.random(shape) < 0.9) * 1.0, 0.9),
    "rare": (lambda rng, shape: (rng.random(shape) < 0.02) * 1.0, 0.02),
    "skewed": (lambda rng, shape: rng.beta(0.2, 1.8, shape), 0.1),
    "few values": (lambda rng, shape: rng.integers(0, 3, shape) / 2, 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize(
    "n", [20, 100, pytest.param(50, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.slow)]
)
def test_the_promise_holds_on_both_sides(name, delta, n):
    draw, mean = DRAWS[name]
    rng, trials = np.random.default_rng(n), 2000
    rows = draw(rng, (trials, n))
    assert refuted(rows, mean, delta) <= allowed(delta, trials)
    assert refuted(1 - rows, 1 - mean, delta) <= allowed(delta, trials)


@pytest.mark.parametrize("name", ["uniform", "skewed"])
def test_sorted_values_do_no_harm(name):
    draw, mean = DRAWS[name]
    rng, trials, delta = np.random.default_rng(0), 1500, 0.1
    rows = np.sort(draw(rng, (trials, 100)))
    assert refuted(rows[:, ::-1], mean, delta) > 0.9  # what betting in the order of the values would do
    for order in (1, -1):
        mixed = [row[::order][random_order(row[::order], 0)] for row in rows]
        assert refuted(mixed, mean, delta) <= allowed(delta, trials)
        assert refuted([1 - row for row in mixed], 1 - mean, delta) <= allowed(delta, trials)
    some = [mean_bounds(row, delta=delta).lower > mean for row in rows[:300]]
    assert some == [refuted([row[random_order(row, 0)]], mean, delta) == 1 for row in rows[:300]]


def test_adding_the_maxima_of_two_halves_breaks_the_promise():
    rng, trials, n, delta, mean = np.random.default_rng(1), 1500, 200, 0.1, 0.5
    rows = rng.random((trials, n))
    target = math.log(1 / delta)
    halves = [(Bets(row[: n // 2], delta), Bets(row[n // 2 :], delta)) for row in rows]
    added = [first.log_capital(mean) + second.log_capital(mean) for first, second in halves]
    assert np.mean(np.array(added) >= target) > 0.15
    assert refuted(rows, mean, delta) <= allowed(delta, trials)


def test_many_equal_values():
    best = 0.05 ** (1 / 1000)  # no bound can be above: a mean of that gives 1,000 ones in 5 % of draws
    lower = mean_bounds(np.ones(1000), delta=0.05).lower
    assert 1 - best < 1 - lower < 1.2 * (1 - best)
    assert mean_bounds(np.zeros(30)).lower == 0.0
    assert mean_bounds(np.full(500, 0.25)).lower > 0.23


def test_errors():
    with pytest.raises(InputError, match="values must lie between 0 and 1, got 1.5 at row 1"):
        mean_bounds([0.5, 1.5])
    with pytest.raises(InputError, match="low must be below high"):
        mean_bounds([0.5], low=1, high=1)
    with pytest.raises(InputError, match="rng must be"):
        mean_bounds([0.5], rng="3")
    with pytest.raises(InputError, match="delta must be strictly between"):
        mean_bounds([0.5], delta=0)
