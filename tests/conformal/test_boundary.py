from __future__ import annotations

import math

import numpy as np
import pytest

from caveat.conformal import boundary, violation_probability
from caveat.conformal.boundary import METHODS, boundary_violation
from caveat.errors import InputError


def test_simes_by_its_literal_product():
    n, delta = 11, 0.07
    k = n // 2
    expected = np.empty(n)
    for i in range(1, n + 1):
        product = math.prod((i - j) / (n - j) for j in range(k)) if i >= k else 0.0
        expected[n - i] = 1 - (delta * product) ** (1 / k)
    assert boundary(n, delta, "simes") == pytest.approx(expected)


def test_dkwm_by_hand():
    # sqrt(log(2/0.1) / (2*8)) = sqrt(2.9957323 / 16) = 0.4327046
    assert boundary(8, 0.1, "dkwm")[:2] == pytest.approx([0.125 + 0.4327046, 0.25 + 0.4327046], abs=1e-7)
    assert boundary(8, 0.1, "dkwm")[-1] == 1


def test_asymptotic_by_hand_and_flat_beyond_the_middle():
    n, delta = 100, 0.05
    log_log = math.log(math.log(n))
    c = -math.log(-math.log(1 - delta)) + 2 * log_log + 0.5 * math.log(log_log) - 0.5 * math.log(math.pi)
    c /= math.sqrt(2 * log_log)
    b = boundary(n, delta, "asymptotic")
    assert b[9] == pytest.approx(0.1 + c * math.sqrt(10 * 90) / n**1.5)
    assert b[59] == pytest.approx(0.6 + c / (2 * math.sqrt(n)))


# FPR@TPR95 of tables 4 and 5 of "Exploring the Link ...", n = 9000, percent: marginal and corrected.
PUBLISHED = [
    (0.01, 46.77, 48.98), (0.01, 29.48, 31.48), (0.01, 34.54, 36.65), (0.01, 84.55, 86.78), (0.01, 95.84, 98.07),
    (0.05, 46.77, 48.58), (0.05, 34.54, 36.27), (0.05, 84.55, 86.37), (0.05, 95.84, 97.66),
]  # fmt: skip


@pytest.mark.parametrize(("delta", "marginal", "corrected"), PUBLISHED)
def test_published_corrections(delta, marginal, corrected):
    b = boundary(9000, delta, "asymptotic")
    assert 100 * b[round(90 * marginal)] == pytest.approx(corrected, abs=0.04)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n", [16, 17, 100, 1001])
def test_is_a_boundary_and_never_falls(method, n):
    b = boundary(n, 0.1, method)
    assert b.shape == (n,)
    assert (b[0] > 0) & (b <= 1).all()
    assert (np.diff(b) >= 0).all()


@pytest.mark.parametrize("method", ["exact", "simes", "dkwm"])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 100])
@pytest.mark.parametrize("delta", [0.001, 0.1, 0.6])
def test_keeps_its_promise_for_every_n(method, n, delta):
    spent = violation_probability(boundary(n, delta, method))
    assert spent <= delta * (1 + 1e-9)
    if method != "dkwm":  # these two spend all of it
        assert spent == pytest.approx(delta, rel=1e-5)


@pytest.mark.parametrize("method", ["exact", "simes", "dkwm", "asymptotic"])
def test_tighter_with_more_data_and_with_more_risk(method):
    at = [boundary(n, 0.05, method)[n // 10] for n in (20, 100, 500, 2500)]
    assert (np.diff(at) < 0).all()
    by_delta = np.array([boundary(100, delta, method) for delta in (0.01, 0.05, 0.2)])
    assert (np.diff(by_delta, axis=0) <= 0).all()
    assert (np.diff(by_delta, axis=0)[:, 10] < 0).all()


@pytest.mark.parametrize(("n", "delta", "draws"), [(100, 0.1, 4000), (300, 0.05, 4000)])
def test_monte_carlo_spends_delta_up_to_its_simulation(n, delta, draws):
    b = boundary(n, delta, "monte_carlo", rng=np.random.default_rng(3), draws=draws)
    assert abs(violation_probability(b) - delta) < 4 * math.sqrt(delta * (1 - delta) / draws)
    # d_hat = delta would spend more than delta.
    assert (b >= np.minimum(boundary(n, delta, "simes"), boundary(n, delta, "asymptotic"))).all()


def test_monte_carlo_is_the_simulated_quantile():
    n, delta, draws = 40, 0.1, 500
    b = boundary(n, delta, "monte_carlo", rng=np.random.default_rng(8), draws=draws)
    gaps = np.cumsum(np.random.default_rng(8).standard_exponential((draws, n + 1)), axis=1)  # the same draws
    crossed = (gaps[:, :-1] / gaps[:, -1:] > b).any(axis=1).mean()
    assert delta - 2 / draws <= crossed <= delta


def test_monte_carlo_without_rng_is_reproducible():
    assert (boundary(50, 0.1, "monte_carlo", draws=500) == boundary(50, 0.1, "monte_carlo", draws=500)).all()


def test_boundary_violation_is_that_of_the_boundary():
    for method in ("exact", "simes", "dkwm", "asymptotic"):
        assert boundary_violation(90, 0.1, method) == pytest.approx(
            violation_probability(boundary(90, 0.1, method)), rel=1e-9
        )
    assert math.isnan(boundary_violation(2_000_000, 0.1, "dkwm"))


def test_errors():
    with pytest.raises(InputError, match="method 'asymptotic' needs n of at least 16, got 15. Use 'exact'"):
        boundary(15, 0.1, "asymptotic")
    with pytest.raises(InputError, match="unknown boundary 'simmes'. Did you mean 'simes'"):
        boundary(15, 0.1, "simmes")
    with pytest.raises(InputError, match="delta must be strictly between 0 and 1"):
        boundary(15, 1.0)
    with pytest.raises(InputError, match="n must be a whole number"):
        boundary(0, 0.1)
    with pytest.raises(InputError, match="draws must be at least 1 / delta = 100"):
        boundary(20, 0.01, "monte_carlo", draws=50)
