from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from caveat import InputError
from caveat.conformal import control_risk, mean_bounds

WITH_CONFIDENCE = ["wsr", "hoeffding_bentkus", "binomial"]
GRID = np.linspace(0, 1, 51)


def test_conformal_risk_control_by_hand():
    # n = 4, B = 1. Sums of losses 2, 1, 0.5, 0; (sum + 1) / 5 = 0.6, 0.4, 0.3, 0.2.
    losses = [[1, 0.5, 0.5, 0], [1, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    lambdas = [1, 2, 3, 4]
    assert [control_risk(losses, lambdas, alpha=a).threshold for a in (0.6, 0.4, 0.39, 0.2)] == [1, 2, 3, 4]
    found = control_risk(losses, lambdas, alpha=0.4)
    assert found.loss == 0.25
    assert (found.coverage.value, found.promise.confidence, found.promise.n) == (0.5, None, 4)
    assert str(found).startswith("Use lambda = 2 (average loss 0.25). The expected loss is at most 0.4, on average")


def test_a_level_is_read_as_it_was_meant():
    zeros = np.zeros((9, 1))
    assert control_risk(zeros, [0.0], alpha=1 - 0.9).threshold == 0.0  # (0 + 1) / 10 <= 1 / 10
    assert control_risk(zeros[:8], [0.0], alpha=1 - 0.9).threshold == math.inf


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.3]), st.sampled_from([0.05, 0.3]))
@settings(max_examples=40)
def test_binomial_equals_the_literal_walk(seed, alpha, delta):
    rng = np.random.default_rng(seed)
    lambdas = np.sort(rng.random(8))
    losses = (rng.random((60, 1)) > lambdas + 0.3) * 1.0
    chosen = math.inf
    for j in range(7, -1, -1):
        if binom.cdf(losses[:, j].sum(), 60, alpha) > delta:
            break
        chosen = lambdas[j]
    assert control_risk(losses, lambdas, alpha=alpha, delta=delta, method="binomial").threshold == chosen


def test_betting_stops_where_the_upper_bound_of_the_loss_passes_alpha():
    rng = np.random.default_rng(0)
    losses = rng.beta(2, 8, size=(400, 1)) * (1 - GRID)
    found = control_risk(losses, GRID, alpha=0.1, delta=0.05, rng=np.random.default_rng(1))
    upper = [mean_bounds(column, delta=0.05, rng=np.random.default_rng(1)).upper for column in losses.T]
    assert found.threshold == GRID[np.argmax(np.array(upper) <= 0.1)]


@pytest.mark.parametrize("method", ["crc", *WITH_CONFIDENCE])
def test_units_and_order_of_lambdas_do_not_matter(method):
    rng = np.random.default_rng(1)
    losses, delta = (rng.random((300, 1)) > GRID) * 1.0, None if method == "crc" else 0.1
    plain = control_risk(losses, GRID, alpha=0.2, delta=delta, method=method)
    large = control_risk(8 * losses, GRID, alpha=1.6, delta=delta, method=method, bound=8)
    mixed = rng.permutation(GRID.size)
    turned = control_risk(losses[:, mixed], GRID[mixed], alpha=0.2, delta=delta, method=method)
    assert plain.threshold == large.threshold == turned.threshold
    assert large.loss == pytest.approx(8 * plain.loss)


def test_defaults_follow_delta():
    losses = np.zeros((300, 1))
    assert control_risk(losses, [0], alpha=0.1).promise.method == "conformal risk control"
    assert "whole path" in control_risk(losses, [0], alpha=0.1, delta=0.1).promise.method
    with pytest.raises(InputError, match="takes no delta"):
        control_risk(losses, [0], alpha=0.1, delta=0.1, method="crc")
    with pytest.raises(InputError, match="'binomial' needs delta"):
        control_risk(losses, [0], alpha=0.1, method="binomial")


@pytest.mark.parametrize("method", ["crc", *WITH_CONFIDENCE])
def test_nothing_is_told_as_infinity_with_the_rows_that_would_do(method):
    delta = None if method == "crc" else 0.05
    found = control_risk(np.zeros((5, 2)), [0.0, 1.0], alpha=0.1, delta=delta, method=method)
    assert found.threshold == math.inf
    assert not found.promise.holds
    assert str(found).startswith("Nothing can be promised about expected loss at 0.1.")
    needed = int(found.promise.remedy.split()[1])
    enough = control_risk(np.zeros((needed, 2)), [0.0, 1.0], alpha=0.1, delta=delta, method=method)
    assert enough.threshold == 0.0
    assert needed < 50
    poor = control_risk(np.ones((50, 2)), [0.0, 1.0], alpha=0.1, delta=delta, method=method)
    assert "Even at the largest lambda the average loss is 1" in poor.promise.remedy


def uniform_steps(rng, n):
    """A row fails until lambda passes its own point: 0/1 losses, risk 1 - lambda."""
    return (rng.random((n, 1)) > GRID) * 1.0


def beta_slopes(rng, n):
    """Fractions that shrink with lambda: risk 0.4 (1 - lambda)."""
    return rng.beta(0.4, 0.6, size=(n, 1)) * (1 - GRID)


def mixture(rng, n):
    """One row in ten fails as a whole, the others lose a little: risk 0.1 (1 - lambda) + 0.9 * 0.2 (1 - lambda)^2."""
    whole = rng.random((n, 1)) < 0.1
    return np.where(whole, rng.random((n, 1)) > GRID, rng.beta(1, 4, size=(n, 1)) * (1 - GRID) ** 2)


KINDS = {  # losses, their risk, alpha just below a risk on the grid
    "steps": (uniform_steps, lambda t: 1 - t, 0.099),
    "beta": (beta_slopes, lambda t: 0.4 * (1 - t), 0.0799),
    "mixture": (mixture, lambda t: 0.1 * (1 - t) + 0.18 * (1 - t) ** 2, 0.0499),
}
CASES = [(kind, method) for kind in KINDS for method in WITH_CONFIDENCE if method != "binomial" or kind == "steps"]


@pytest.mark.parametrize(("kind", "method"), CASES)
@pytest.mark.parametrize(
    ("n", "delta", "draws"),
    [(100, 0.1, 300), *(pytest.param(n, delta, 2000, marks=pytest.mark.slow)
                        for n in (50, 200, 1000) for delta in (0.1, 0.01))],
)  # fmt: skip
def test_the_promise_with_confidence_holds(kind, method, n, delta, draws):
    draw, risk, alpha = KINDS[kind]
    rng = np.random.default_rng(n)
    thresholds = [control_risk(draw(rng, n), GRID, alpha=alpha, delta=delta, method=method).threshold
                  for _ in range(draws)]  # fmt: skip
    broken = np.mean([t < math.inf and risk(t) > alpha for t in thresholds])
    assert broken <= delta + 4 * math.sqrt(delta * (1 - delta) / draws)
    if n >= 200:
        assert np.isfinite(thresholds).mean() > 0.9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [20, 200])
def test_the_promise_on_average_holds_and_is_not_wasted(kind, n):
    draw, risk, alpha = KINDS[kind]
    rng, draws = np.random.default_rng(n), 1000
    thresholds = [control_risk(draw(rng, n), GRID, alpha=alpha).threshold for _ in range(draws)]
    delivered = [risk(t) if t < math.inf else 0.0 for t in thresholds]
    assert np.mean(delivered) <= alpha + 4 * np.std(delivered) / math.sqrt(draws)
    if n == 200:
        assert np.mean(delivered) > alpha - 0.03  # a step of the grid and B / (n + 1)


def test_the_last_average_below_alpha_breaks_the_promise_in_almost_half_of_all_draws():
    rng, draws, alpha = np.random.default_rng(0), 400, 0.0999
    broken = 0
    for _ in range(draws):
        average = uniform_steps(rng, 200).mean(axis=0)
        broken += 1 - GRID[np.argmax(average <= alpha)] > alpha
    assert broken / draws > 0.4


def test_errors_name_row_and_lambda():
    with pytest.raises(InputError, match="got 0.2 at lambda = 2 and 0.5 at lambda = 3 in row 1"):
        control_risk([[0.5, 0.4, 0.3], [0.9, 0.2, 0.5]], [1, 2, 3], alpha=0.1)
    with pytest.raises(InputError, match="losses must lie between 0 and the bound 1, got 3 at row 0"):
        control_risk([[3.0]], [1], alpha=0.1)
    with pytest.raises(InputError, match="same number of lambdas, got 1 and 2"):
        control_risk([[0.5]], [1, 2], alpha=0.1)
    with pytest.raises(InputError, match="lambdas must differ, got 1 twice"):
        control_risk([[0.5, 0.5]], [1, 1], alpha=0.1)
    with pytest.raises(InputError, match="be 0 or the bound"):
        control_risk([[0.5]], [1], alpha=0.1, delta=0.1, method="binomial")
    with pytest.raises(InputError, match="alpha must be strictly between 0 and 1"):
        control_risk([[0.5]], [1], alpha=1.0)
    with pytest.raises(InputError, match="unknown method 'wrs'. Did you mean 'wsr'"):
        control_risk([[0.5]], [1], alpha=0.1, method="wrs")


def test_rounding_is_not_a_rise():
    losses = np.array([[0.1 + 0.2, 0.3]])[:, ::-1]  # 0.3, then 0.30000000000000004
    assert control_risk(np.repeat(losses, 50, axis=0), [1, 2], alpha=0.4).threshold == 1
