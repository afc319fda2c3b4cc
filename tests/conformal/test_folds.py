"""What cross-conformal prediction proves: the level from the sizes of folds and groups."""

import numpy as np
import pytest

from caveat.conformal._folds import allowed_misses, as_folds, cross_caveat, cross_level
from caveat.errors import InputError

ONE_GROUP = np.zeros(100, dtype=int)


@pytest.mark.parametrize(
    ("folds", "alpha", "level"),
    [
        # M = floor(.1 * 101) = 10. Averaging: 1 - 2 (10 + 5 - 1) / 105; theorem 4: .8 - (1 - 5 / 100) / 6 = .642.
        (np.arange(100) % 5, 0.1, 1 - 2 * 14 / 105),
        # K = 50: averaging 1 - 2 (10 + 49) / 150 = .213; theorem 4: .8 - .5 / 51.
        (np.arange(100) % 50, 0.1, 0.8 - 0.5 / 51),
        (np.arange(100), 0.1, 0.8),  # theorem 1
        (np.arange(100), 0.001, 1.0),  # M = 0: nothing is excluded
        (np.arange(100) % 2, 0.49, 1 - 2 * (49 + 1) / 102),
        (np.arange(100) % 2, 0.6, 0.0),  # nothing is proven
    ],
)
def test_level_by_hand(folds, alpha, level):
    assert cross_level(folds, ONE_GROUP, alpha) == pytest.approx(level)


def test_folds_of_several_sizes_are_proven_by_averaging_alone():
    folds = np.arange(100) % 49  # sizes 2 and 3
    assert cross_level(folds, ONE_GROUP, 0.1) == pytest.approx(1 - 2 * (10 + 49 - 1) / (100 + 49))


def test_the_level_is_that_of_the_worst_group():
    # group 0: 80 rows, M = 8; group 1: 20 rows, M = 2; both in 4 folds
    group = (np.arange(100) >= 80).astype(int)
    levels = [1 - 2 * (8 + 3) / 84, 1 - 2 * (2 + 3) / 24]
    assert cross_level(np.arange(100) % 4, group, 0.1) == pytest.approx(min(levels))
    assert cross_level(np.arange(100), group, 0.1) == pytest.approx(0.8)


def test_the_mean_of_p_values_is_proven_where_they_are_as_dependent_as_can_be():
    # Two p-values that are uniform and add up to 2 t as often as possible: P(mean <= t) is 2 t, the factor two is met.
    rng, t = np.random.default_rng(0), 0.1
    first = rng.random(200_000)
    second = np.where(first < 2 * t, 2 * t - first, first)
    assert abs(np.mean(first + second <= 2 * t + 1e-12) - 2 * t) < 4 * np.sqrt(0.16 / 200_000)
    assert abs(np.mean(second < 0.05) - 0.05) < 4 * np.sqrt(0.05 / 200_000)  # still uniform


@pytest.mark.parametrize(("n", "alpha", "count"), [(9, 0.1, 1), (8, 0.1, 0), (19, 0.3, 6), (99, 0.05, 5)])
def test_allowed_misses_are_exact(n, alpha, count):
    assert allowed_misses(n, alpha) == count


def test_folds_are_named_and_at_least_two():
    names, number = as_folds(["b", "a", "b"], 3)
    assert names.tolist() == ["a", "b"]
    assert number.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="at least 2 folds, got 1"):
        as_folds([3, 3, 3], 3)
    with pytest.raises(InputError, match="folds must name one group per row"):
        as_folds([1, 2], 3)


def test_the_caveat_says_what_is_proven_and_what_is_typical():
    assert "0.733 is proven" in cross_caveat(0.733, 0.1)
    assert "0.9 is typical" in cross_caveat(0.733, 0.1)
    assert cross_caveat(1.0, 0.1) == ""
