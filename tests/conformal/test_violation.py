from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betaincinv
from scipy.stats import binom

from caveat.conformal import boundary, violation_probability
from caveat.conformal import violation as module
from caveat.errors import InputError


def oracle(b: np.ndarray) -> float:
    """The slow literal recursion: q_j is the chance that j is the first rank with U_(j) > b_j."""
    n, kept = b.size, b[b < 1]
    ranks, first = np.arange(1, kept.size + 1), []
    for j in ranks:
        earlier, before = ranks[: j - 1], kept[: j - 1]
        back = binom.pmf(j - earlier, n - earlier + 1, (kept[j - 1] - before) / (1 - before))
        first.append(binom.pmf(j - 1, n, kept[j - 1]) - np.dot(first, back))
    return float(np.sum(first))


def equal(n: int, eta: float) -> np.ndarray:
    i = np.arange(1, n + 1)
    return betaincinv(i, n + 1 - i, 1 - eta)


def test_by_hand():
    # One uniform exceeds 0.9 with chance 0.1.
    assert violation_probability([0.9]) == pytest.approx(0.1, abs=1e-14)
    # Two stay below (0.5, 0.8): both <= 0.5 (0.25), or one <= 0.5 and the other in (0.5, 0.8] (2 * 0.5 * 0.3).
    assert violation_probability([0.5, 0.8]) == pytest.approx(1 - 0.25 - 0.3, abs=1e-14)
    # b_n = 1 asks nothing of the largest: the smallest of three exceeds 0.2 with chance 0.8^3; 1 - 0.6^3 - 3*0.4*0.6^2
    # is the chance that two are <= 0.4.
    assert violation_probability([0.2, 1.0, 1.0]) == pytest.approx(0.8**3, abs=1e-14)
    assert violation_probability([0.4, 0.4, 1.0]) == pytest.approx(0.6**3 + 3 * 0.4 * 0.6**2, abs=1e-14)


def test_nothing_and_everything():
    assert violation_probability(np.ones(50)) == 0.0
    assert violation_probability(np.zeros(50)) == pytest.approx(1.0, abs=1e-12)
    assert violation_probability(np.linspace(0.01, 0.5, 50)) == pytest.approx(1.0, abs=1e-12)  # all 50 below 0.5


@pytest.mark.parametrize(
    "b",
    [
        equal(1, 0.05), equal(2, 0.05), equal(7, 0.01), equal(60, 0.003), equal(400, 0.0005), equal(400, 0.2),
        boundary(300, 0.1, "dkwm"), boundary(301, 0.1, "simes"), boundary(300, 0.1, "asymptotic"),
        np.repeat([0.1, 0.35, 0.4, 0.98], 60),  # jumps and ties
        np.concatenate([np.full(10, 0.6), np.linspace(0.6, 0.99, 290)]),  # starts far above the counts
        np.minimum(1, np.linspace(0.3, 1.3, 250)),
    ],
    ids=lambda b: f"n{b.size}-{b[0]:.3g}",
)  # fmt: skip
def test_equals_the_literal_recursion(b):
    assert violation_probability(b) == pytest.approx(oracle(b), rel=1e-9, abs=1e-12)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_equals_the_literal_recursion_on_any_boundary(values):
    b = np.sort(np.array(values)) / 1000
    assert violation_probability(b) == pytest.approx(oracle(b), abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.integers(0, 29), st.floats(0, 0.2))
@settings(max_examples=60, deadline=None)
def test_a_higher_boundary_is_crossed_less(values, at, rise):
    b = np.sort(np.array(values))
    higher = b.copy()
    higher[at % b.size :] = np.minimum(1, np.maximum(higher[at % b.size :], higher[at % b.size] + rise))
    assert violation_probability(higher) <= violation_probability(b) + 1e-12


@pytest.mark.parametrize("direct", [0, 10**9])
@pytest.mark.parametrize("n", [2000, 5000])
def test_strides_by_fft_and_by_hand_agree(monkeypatch, n, direct):
    b = equal(n, 1.5e-4)
    expected = violation_probability(b)
    monkeypatch.setattr(module, "DIRECT", direct)
    assert violation_probability(b) == pytest.approx(expected, rel=1e-10)


def test_large_n_equals_the_recursion():
    b = equal(2500, 1.5e-4)
    assert violation_probability(b) == pytest.approx(oracle(b), rel=1e-9)


# Exact violation probabilities, 5 digits; the last column is min(simes, asymptotic), both at delta.
KNOWN = [
    (100, 0.01, 0.01000, 0.00222, 0.00927, 0.01592),
    (100, 0.10, 0.10000, 0.02733, 0.06320, 0.10951),
    (1000, 0.01, 0.01000, 0.00391, 0.01225, 0.01744),
    (1000, 0.10, 0.10000, 0.04161, 0.07636, 0.12128),
    (9000, 0.01, None, None, None, 0.01776),
]


@pytest.mark.parametrize(("n", "delta", "simes", "dkwm", "asymptotic", "smaller"), KNOWN)
def test_known_answers(n, delta, simes, dkwm, asymptotic, smaller):
    curves = {name: boundary(n, delta, name) for name in ("simes", "dkwm", "asymptotic")}
    for name, known in (("simes", simes), ("dkwm", dkwm), ("asymptotic", asymptotic)):
        if known is not None:
            assert violation_probability(curves[name]) == pytest.approx(known, abs=5.1e-6)
    assert violation_probability(np.minimum(curves["simes"], curves["asymptotic"])) == pytest.approx(
        smaller, abs=5.1e-6
    )


@pytest.mark.parametrize(("n", "eta"), [(60, 0.004), (500, 0.002)])
def test_agrees_with_simulation(n, eta):
    rng, trials = np.random.default_rng(n), 20_000
    b = equal(n, eta)
    ordered = np.sort(rng.random((trials, n)), axis=1)
    seen, exact = (ordered > b).any(axis=1).mean(), violation_probability(b)
    assert abs(seen - exact) < 4 * np.sqrt(exact * (1 - exact) / trials)


@pytest.mark.slow
def test_large_n_agrees_with_simulation():
    n, rng, trials = 20_000, np.random.default_rng(1), 20_000
    b = boundary(n, 0.1)
    crossed = 0
    for _ in range(100):
        gaps = np.cumsum(rng.standard_exponential((trials // 100, n + 1)), axis=1)
        crossed += (gaps[:, :-1] / gaps[:, -1:] > b).any(axis=1).sum()
    assert abs(crossed / trials - 0.1) < 4 * np.sqrt(0.09 / trials)


def test_errors_name_the_row():
    with pytest.raises(InputError, match="b must lie between 0 and 1, got 1.5 at row 1"):
        violation_probability([0.5, 1.5])
    with pytest.raises(InputError, match=r"b must not decrease, got 0.2 at row 2.*minimum\.accumulate"):
        violation_probability([0.1, 0.4, 0.2])
    with pytest.raises(InputError, match="b has NaN, first at row 0"):
        violation_probability([np.nan])
    with pytest.raises(InputError, match="non-empty vector"):
        violation_probability([])
