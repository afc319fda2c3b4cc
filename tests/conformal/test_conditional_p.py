from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, kstest

from caveat.conformal import boundary, conditional_p_values, fpr_law, p_values
from caveat.errors import InputError


def test_by_hand():
    # One calibration score: b_1 = 1 - delta = 0.9 if it is below the test score (k = 0), 1 otherwise.
    assert conditional_p_values(calibration=[0.0], test=[1.0, -1.0], delta=0.1) == pytest.approx([0.9, 1.0], rel=1e-6)


def test_is_the_boundary_at_the_marginal_rank():
    rng = np.random.default_rng(0)
    calibration, test = rng.normal(size=80), rng.normal(size=(7, 3))
    marginal = p_values(calibration=calibration, test=test)
    b = np.append(boundary(80, 0.05, "simes"), 1.0)
    rank = np.round(marginal * 81).astype(int)  # 1 + k
    found = conditional_p_values(calibration=calibration, test=test, delta=0.05, method="simes")
    assert found == pytest.approx(b[rank - 1])
    assert (found > marginal).all()


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_valid_given_the_calibration_set(delta):
    # Uniform scores: P(p <= t | calibration) is 1 - the smallest score whose p-value is <= t. It must not exceed t for
    # any t; the attained p-values are the only t to look at.
    n, trials, rng = 50, 2000, np.random.default_rng(1)
    wrong = marginal_wrong = 0
    for _ in range(trials):
        calibration = np.sort(rng.random(n))
        edges = np.nextafter(calibration, 2)  # the smallest scores with k = n-1, ..., 0
        true = 1 - edges
        wrong += bool((true > conditional_p_values(calibration=calibration, test=edges, delta=delta)).any())
        marginal_wrong += bool((true > p_values(calibration=calibration, test=edges)).any())
    assert abs(wrong / trials - delta) < 4 * np.sqrt(delta * (1 - delta) / trials)
    assert marginal_wrong / trials > 0.8  # marginal p-values promise nothing of the kind


@pytest.mark.parametrize(("n", "t"), [(99, 0.1), (50, 0.3), (9, 0.25)])
def test_beta_law_of_the_false_positive_rate(n, t):
    # Uniform scores: the rule p <= t flags everything above the l-th largest calibration score.
    rng = np.random.default_rng(n)
    a, b = fpr_law(n, t)
    rates = []
    for _ in range(2000):
        calibration = rng.random(n)
        fresh = np.sort(calibration)  # the rule changes only at calibration scores
        flagged = fresh[p_values(calibration=calibration, test=np.nextafter(fresh, 2)) <= t]
        rates.append(1 - flagged.min())
    assert kstest(rates, beta(a, b).cdf).pvalue > 1e-3
    assert kstest(rates, beta(a + 1, b - 1).cdf).pvalue < 1e-6  # one rank off would be seen


def test_fpr_law_counts_exactly():
    assert fpr_law(9, 0.3) == (3, 7)  # 10 * 0.3 is 3, though 0.1 + 0.2 is not 0.3
    assert fpr_law(99, 0.29) == (29, 71)  # 100 * 0.29 is 28.999999999999996 in floats
    with pytest.raises(InputError, match=r"t must be at least 1 / \(n \+ 1\) = 0.1, got 0.05"):
        fpr_law(9, 0.05)
