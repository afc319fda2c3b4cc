"""Each bettor is a martingale under uniform p-values and equals its definition step by step."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import logsumexp

from caveat import InputError
from caveat.drift import PlugInHistogram, PowerMixture, SimpleJumper
from caveat.drift.bettors import default_bettors, log_mean

KINDS = [SimpleJumper, PowerMixture, PlugInHistogram]
P = np.random.default_rng(0).beta(0.7, 1.3, size=60)


@pytest.mark.parametrize(
    "kind", [SimpleJumper, PlugInHistogram]
)  # powers are not bounded: see the mean of powers below
@pytest.mark.parametrize("before", [0, 1, 7])
def test_the_next_bet_is_fair(kind, before):
    # E[capital after | past] over a uniform p is the capital before, for any past
    def after(p):
        bettor = kind()
        return math.exp(bettor.update(np.append(P[:before], p))[-1])

    now = math.exp(kind().update(P[:before])[-1]) if before else 1.0
    edges = np.linspace(0, 1, 11)  # the histogram jumps there
    mean = sum(quad(after, a, b)[0] for a, b in itertools.pairwise(edges))
    assert mean == pytest.approx(now)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_matter(kind):
    whole, parts = kind().update(P), kind()
    assert np.concatenate([parts.update(part) for part in np.split(P, [0, 1, 5, 40])]).tolist() == whole.tolist()


@pytest.mark.parametrize("bettor", default_bettors(), ids=["fast", "slow", "powers", "histogram"])
def test_blocks_of_every_size_have_the_same_bits(bettor):
    # 1,100 points pass four of the stretches after which a capital is written as a logarithm
    points = np.concatenate([np.random.default_rng(1).random(600), np.random.default_rng(2).beta(0.4, 1, size=500)])
    points[[5, 255, 700]] = 2.0**-60, 1 - 2.0**-53, 0.5
    bettor.restart()
    one_by_one = np.concatenate([bettor.update(points[i : i + 1]) for i in range(points.size)]).tolist()
    state = bettor.state()
    for size in [*range(2, 60), 255, 256, 257, 511, 512, 513, 1099, 1100]:
        bettor.restart()
        blocks = [bettor.update(points[start : start + size]) for start in range(0, points.size, size)]
        assert np.concatenate(blocks).tolist() == one_by_one
        assert bettor.state() == state


@pytest.mark.parametrize("jump", [0.01, 1e-4, 1.0])
@pytest.mark.parametrize("runs", [(0.5,), (0.01,), (0.99,), (0.01, 0.99), (0.999, 0.001, 0.5), (1e-12, 1 - 1e-12)])
def test_the_jumper_has_the_capital_of_its_three_bets(jump, runs):
    # Long runs leave nearly nothing on the other side, which then has to win all of it back.
    rng = np.random.default_rng(3)
    points = np.concatenate([np.clip(p + 0.001 * rng.normal(size=500), 1e-13, 1 - 1e-13) for p in runs])
    stakes, log = [1 / 3] * 3, 0.0
    for p, capital in zip(points.tolist(), SimpleJumper(jump=jump).update(points).tolist(), strict=True):
        spread = [(1 - jump) * stake + jump * sum(stakes) / 3 for stake in stakes]
        stakes = [stake * (1 + sign * (p - 0.5)) for stake, sign in zip(spread, (-1, 0, 1), strict=True)]
        log += math.log(sum(stakes))
        stakes = [stake / sum(stakes) for stake in stakes]
        assert capital == pytest.approx(log, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_on(kind):
    first, second = kind(), kind()
    first.update(P[:20])
    second.restore(first.state())
    assert second.update(P[20:]).tolist() == first.update(P[20:]).tolist()
    second.restart()
    assert second.update(P).tolist() == kind().update(P).tolist()


def test_a_state_of_another_form_is_refused():
    bettor = PlugInHistogram()
    for state in (bettor.state()[:-1], PlugInHistogram(bins=11).state()):
        with pytest.raises(InputError, match="state must have 15 numbers"):
            bettor.restore(state)


def test_the_histogram_bets_the_recent_shares_and_keeps_a_reserve():
    counts, reserve, bet, log = np.zeros(10), 0.5, 0.5, 0.0
    for p, capital in zip(P, PlugInHistogram().update(P), strict=True):
        place = int(p * 10)
        factor = 10 * (counts[place] + 5) / (counts.sum() + 50)
        reserve, bet = 0.999 * reserve + 0.0005, (0.999 * bet + 0.0005) * factor
        log += math.log(reserve + bet)
        reserve, bet = reserve / (reserve + bet), bet / (reserve + bet)
        counts *= math.exp(-1 / 300)
        counts[place] += 1
        assert capital == pytest.approx(log)


def test_the_power_mixture_is_the_mean_of_powers():
    epsilon = (np.arange(10) + 0.5) / 10
    products = [np.prod(e * side ** (e - 1)) for side in (P, 1 - P) for e in epsilon]
    assert PowerMixture().update(P)[-1] == pytest.approx(math.log(np.mean(products)))


def test_the_mean_of_log_capitals_does_not_overflow():
    assert log_mean(np.array([[2000.0, -3000.0], [0.0, -3000.0]])).tolist() == [2000.0 - math.log(2), -3000.0]


@given(st.integers(1, 33), st.integers(0, 99))
def test_the_mean_of_log_capitals_is_that_of_each_column_alone(rows, seed):
    logs = np.random.default_rng(seed).normal(size=(rows, 9)) * 10.0 ** np.random.default_rng(seed).integers(-1, 4)
    means = log_mean(logs)
    assert means.tolist() == [log_mean(logs[:, i : i + 1].copy())[0] for i in range(9)]
    assert means == pytest.approx(logsumexp(logs, axis=0) - math.log(rows), rel=1e-13, abs=1e-13)


def test_constraints_are_declared():
    for make in (lambda: SimpleJumper(jump=0), lambda: PowerMixture(powers=0), lambda: PlugInHistogram(bins=1)):
        with pytest.raises(InputError):
            make()
    assert {type(bettor) for bettor in default_bettors()} == set(KINDS)


@pytest.mark.parametrize("bettor", [SimpleJumper, PowerMixture, PlugInHistogram])
@pytest.mark.parametrize("p_values", [[1, 2, 1], [-0.1], [np.nan], [[0.5]], 0.5, ["a"], [0.5 + 1j], [[1], [1, 2]]])
def test_what_are_no_p_values_are_refused_and_bet_nothing(bettor, p_values):
    made = bettor()
    before = made.state()
    with pytest.raises(InputError, match="p_values"):
        made.update(p_values)
    assert np.array_equal(np.array(made.state(), dtype=object), np.array(before, dtype=object))


def test_p_values_of_0_and_1_leave_a_capital():
    for p_values in ([0.0], [1.0], [0.0, 1.0, 0.5], [1, 0, 0]):
        assert np.isfinite(PowerMixture().update(p_values)).all()
    # inside, nothing is moved: a literal mean over the powers of both sides
    for p in (2.0**-52, 0.3, 1 - 2.0**-53):
        mean = np.mean([[e * p ** (e - 1), e * (1 - p) ** (e - 1)] for e in (np.arange(10) + 0.5) / 10])
        assert PowerMixture().update(np.array([p]))[0] == pytest.approx(math.log(mean))
