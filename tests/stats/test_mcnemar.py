from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from caveat import InputError
from caveat.stats import mcnemar


def answers(both, first_only, second_only, neither):
    """Right-or-wrong vectors with these counts."""
    first = [1] * both + [1] * first_only + [0] * second_only + [0] * neither
    second = [1] * both + [0] * first_only + [1] * second_only + [0] * neither
    return {"first": first, "second": second}


def test_by_hand():
    # 5 rows differ, 1 of them for the second: 2 * (1 + 5) / 2^5 = 0.375; accuracies 14 / 20 and 11 / 20
    found = mcnemar(**answers(10, 4, 1, 5))
    assert found.p_value == pytest.approx(0.375, rel=1e-12)
    assert (found.first, found.second) == (0.7, 0.55)
    assert found.difference.value == pytest.approx(0.15)


@pytest.mark.parametrize("counts", [(3, 9, 1, 0), (100, 25, 40, 7), (0, 6, 6, 0), (5, 0, 3, 2), (0, 1, 0, 0)])
def test_agrees_with_scipy_and_statsmodels(counts):
    found = mcnemar(**answers(*counts))
    both, first_only, second_only, neither = counts
    assert found.p_value == pytest.approx(binomtest(first_only, first_only + second_only).pvalue, rel=1e-12)
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    table = [[both, first_only], [second_only, neither]]
    assert found.p_value == pytest.approx(contingency.mcnemar(table, exact=True).pvalue, rel=1e-12)


@pytest.mark.parametrize("delta", [0.01, 0.05, 0.2])
def test_the_interval_excludes_zero_where_the_test_rejects(delta):
    for wins in range(13):
        for losses in range(13):
            if wins + losses:
                found = mcnemar(**answers(3, wins, losses, 2), delta=delta)
                excludes = found.difference.lower > 0 or found.difference.upper < 0
                assert excludes == (found.p_value < delta), (wins, losses)


def test_swapping_the_models_flips_the_difference():
    one, other = mcnemar(**answers(7, 5, 2, 1)), mcnemar(**answers(7, 2, 5, 1))
    assert one.p_value == other.p_value
    assert one.difference.value == -other.difference.value
    assert one.difference.lower == pytest.approx(-other.difference.upper)


def test_models_that_are_right_on_the_same_rows_are_tied_with_doubt():
    found = mcnemar(**answers(90, 0, 0, 10))
    assert (found.difference.value, found.p_value) == (0, 1)
    # at most a share u of rows can differ where none of 100 did: (1 - u)^100 = 0.05
    assert found.difference.upper == pytest.approx(1 - 0.05**0.01)
    assert "same rows" in found.difference.caveat


def test_level_is_kept():
    # promise: at most 5 % where both models are right equally often, on rows that are hard for both
    rng, trials = np.random.default_rng(0), 4000
    rejected = 0
    for _ in range(trials):
        right = rng.random((2, 80)) < np.where(rng.random(80) < 0.3, 0.5, 0.95)
        rejected += mcnemar(first=right[0], second=right[1]).p_value <= 0.05
    assert rejected / trials <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / trials)
    assert rejected / trials > 0.01  # a test that never rejects would pass the line above


def test_bad_input():
    with pytest.raises(InputError, match="same length"):
        mcnemar(first=[1, 0], second=[1])
    with pytest.raises(InputError, match="first must hold booleans"):
        mcnemar(first=[0.3], second=[1])
