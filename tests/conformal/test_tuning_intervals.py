"""Tuning of difficulty intervals: it finds the ease that follows the error, and never prefers infinite intervals."""

import numpy as np
import pytest

from caveat.conformal import EaseBins, tune_difficulty_intervals
from caveat.errors import InputError


def draw(n, seed=0):
    """Errors that grow with difficulty; the scale of the model does not know it."""
    rng = np.random.default_rng(seed)
    easy = rng.random(n)
    return rng.normal(size=n) * (1.3 - easy), easy, rng


def test_the_ease_that_follows_the_error_is_chosen():
    y, easy, rng = draw(3000)
    eases = {"noise": rng.random(3000), "true": easy}
    columns = {"mean": np.zeros(3000), "scale": np.ones(3000)}
    tuned = tune_difficulty_intervals(y, eases, 0.1, rng=rng, bins=(5, 10), judged_by=easy, judge_bins=20, **columns)
    assert tuned.ease == "true"
    assert len(tuned.table) == 4
    for (name, _), value in tuned.table.items():
        assert (value > 0.6) == (name == "true")
    assert tuned.table["true", tuned.bins] == max(tuned.table.values())


def test_a_value_of_the_table_by_hand():
    """One candidate, all steps: 100 samples in each half by ease, whose 81st smallest error is the threshold."""
    y, easy, _ = draw(400, seed=3)
    tuned = tune_difficulty_intervals(
        y, {"true": easy}, 0.2, rng=7, score="absolute", bins=[2], judge_bins=4, mean=np.zeros(400)
    )
    order = np.random.default_rng(7).permutation(400)
    fit, new = np.sort(order[:200]), np.sort(order[200:])
    middle = np.sort(easy[fit])[99:101].mean()
    hard, light = (np.sort(np.abs(y[fit][rows]))[80] for rows in (easy[fit] < middle, easy[fit] > middle))
    widths = 2 * np.where(EaseBins.cut(easy[fit], 2).assign(easy[new]) == 0, hard, light)
    bins = np.argsort(np.argsort(easy[new])) // 50
    means = [[v[bins == b].mean() for b in range(4)] for v in (np.abs(y[new]), widths)]
    assert tuned.table["true", 2] == pytest.approx(np.corrcoef(means)[0, 1] ** 2)


def test_bins_too_small_for_the_confidence_are_not_chosen():
    y, easy, rng = draw(400)
    columns = {"score": "absolute", "mean": np.zeros(400)}
    tuned = tune_difficulty_intervals(y, {"true": easy}, 0.2, rng=rng, delta=1e-5, bins=(2, 30), **columns)
    assert np.isnan(tuned.table["true", 30])  # 200 samples in 30 bins: no finite threshold at this confidence
    assert tuned.bins == 2


def test_quantile_regression_takes_the_middle_of_its_quantiles_for_the_error():
    y, easy, rng = draw(2000)
    ends = {"lower": np.full(2000, -1.0), "upper": np.full(2000, 1.0)}
    tuned = tune_difficulty_intervals(y, {"true": easy}, 0.1, rng=rng, score="cqr", bins=(5, 10), judge_bins=20, **ends)
    assert max(tuned.table.values()) > 0.6


def test_clear_errors():
    y, easy, rng = draw(100)
    with pytest.raises(InputError, match="at least 4 samples"):
        tune_difficulty_intervals(y[:3], {"a": easy[:3]}, 0.1, rng=rng, mean=y[:3])
    with pytest.raises(InputError, match="same length"):
        tune_difficulty_intervals(y, {"a": easy[1:]}, 0.1, rng=rng, score="absolute", mean=y)
    with pytest.raises(InputError, match="scale"):
        tune_difficulty_intervals(y, {"a": easy}, 0.1, rng=rng, mean=y)
