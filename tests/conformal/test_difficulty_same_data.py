"""Difficulty bins with edges from the calibration data: coverage in every bin, exactly, and with high confidence."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import pytest

from caveat import Outputs
from caveat.conformal import DifficultyIntervals, DifficultySets
from caveat.errors import CaveatWarning, InputError

pytestmark = pytest.mark.filterwarnings("ignore::caveat.errors.CaveatWarning")

# How ease is drawn: all apart; a few values; half of all samples at the upper end, as saturated cosines are.
EASES = {
    "apart": lambda rng, n: rng.random(n),
    "few values": lambda rng, n: rng.integers(0, 6, n) / 6,
    "half saturated": lambda rng, n: np.minimum(2 * rng.random(n), 1.0),
}
# The nonconformity as a function of ease: the worst cases are those that rise or fall with it.
SCORES = {
    "rising": lambda rng, ease: np.exp(3 * ease) + 1e-9 * rng.random(ease.size),
    "falling": lambda rng, ease: np.exp(-3 * ease) + 1e-9 * rng.random(ease.size),
    "unrelated": lambda rng, ease: rng.random(ease.size),
}


def leave_one_out(score, ease, *, alpha, bins, intervals=True):
    """For each sample of a bag: the cell it falls into when all others calibrate, and whether it is covered."""
    cells, covered = [], []
    for i in range(ease.size):
        rest = np.arange(ease.size) != i
        if intervals:
            made = DifficultyIntervals("absolute", alpha=alpha, bins=bins)
            made.calibrate(score[rest], ease=ease[rest], binning="calibration", mean=np.zeros(rest.sum()))
            covered.append(bool(made.predict(ease=ease[[i]], mean=[0.0]).covers(score[[i]])[0]))
        else:
            outputs = Outputs(probs=np.column_stack([1 - score / 30, score / 30]), labels=np.zeros(ease.size, int))
            sets = DifficultySets("lac", alpha=alpha, bins=bins)
            sets.calibrate(outputs[rest], binning="calibration", ease=ease[rest])
            covered.append(bool(sets.predict(outputs[[i]], ease=ease[[i]]).covers([0])[0]))
            made = sets
        edges = made.bins_.edges
        below, above = edges[edges < ease[i]], edges[edges > ease[i]]
        on_edge = bool((edges == ease[i]).any())
        cells.append((below[-1:].tolist(), above[:1].tolist(), on_edge))
    return cells, covered


@pytest.mark.parametrize("ease_kind", EASES)
@pytest.mark.parametrize("score_kind", SCORES)
@pytest.mark.parametrize(
    ("n", "bins", "alpha"), [(20, 20, 0.5), (90, 10, 0.1), (60, 4, 0.3), (30, 1, 0.2), (25, 7, 0.4)]
)
def test_in_every_bag_and_bin_no_more_than_alpha_miss(n, bins, alpha, ease_kind, score_kind):
    """Each of n + 1 samples is the new one in turn: of those that fall into a bin, at most a share alpha is missed."""
    rng = np.random.default_rng(n)
    ease = EASES[ease_kind](rng, n + 1)
    score = SCORES[score_kind](rng, ease)
    found = defaultdict(list)
    for cell, hit in zip(*leave_one_out(score, ease, alpha=alpha, bins=bins), strict=True):
        found[str(cell)].append(hit)
    for hits in found.values():
        assert np.mean(hits) >= 1 - alpha - 1e-12


def test_sets_and_intervals_use_the_same_bins():
    rng = np.random.default_rng(0)
    ease = rng.random(61)
    score = np.exp(3 * ease)
    assert leave_one_out(score, ease, alpha=0.2, bins=5) == leave_one_out(
        score, ease, alpha=0.2, bins=5, intervals=False
    )


@pytest.mark.parametrize(("n", "bins", "alpha"), [(90, 10, 0.1), (20, 20, 0.5), (100, 10, 0.1), (99, 5, 0.2)])
def test_coverage_by_simulation_where_scores_rise_with_ease(n, bins, alpha):
    # When edges counted, 90 samples in 10 bins covered .889 at alpha .1, and 20 in 20 bins .05 at alpha .5.
    rng, trials, missed = np.random.default_rng(1), 400, []
    for _ in range(trials):
        ease, new = rng.random(n), rng.random(50)
        made = DifficultyIntervals("absolute", alpha=alpha, bins=bins)
        made.calibrate(np.exp(3 * ease), ease=ease, binning="calibration", mean=np.zeros(n))
        missed.append(1 - made.predict(ease=new, mean=np.zeros(50)).covers(np.exp(3 * new)).mean())
    spread = 4 * np.std(missed) / np.sqrt(trials)
    assert np.mean(missed) <= alpha + spread
    if n // bins > 1 / alpha - 1:  # enough in each bin without its edge: the promise is kept, not by endless intervals
        assert np.mean(missed) > 0.8 * alpha - spread


@pytest.mark.parametrize("ease_kind", EASES)
def test_with_delta_the_error_in_a_bin_exceeds_alpha_seldom(ease_kind):
    """PAC: scores rise with ease up to a little noise; the error of each bin is counted on many new samples."""
    rng, trials, alpha, delta = np.random.default_rng(2), 250, 0.3, 0.2
    fails = defaultdict(list)
    for _ in range(trials):
        ease, new = EASES[ease_kind](rng, 80), EASES[ease_kind](rng, 4000)
        y, truth = ease + 0.3 * rng.random(80), new + 0.3 * rng.random(4000)
        made = DifficultyIntervals("absolute", alpha=alpha, bins=3, delta=delta)
        made.calibrate(y, ease=ease, binning="calibration", mean=np.zeros(80))
        missed = ~made.predict(ease=new, mean=np.zeros(4000)).covers(truth)
        number = made.bins_.assign(new)
        for b in np.unique(number):
            here = missed[number == b]
            if here.size > 200:  # else the count is too rough
                fails[int(b)].append(here.mean() > alpha + 2 * np.sqrt(alpha * (1 - alpha) / here.size))
    assert sum(len(f) for f in fails.values()) > 300
    for f in fails.values():
        assert np.mean(f) <= delta + 4 * np.sqrt(delta * (1 - delta) / len(f))


def test_bins_without_samples_are_named_and_exclude_nothing():
    ease = np.random.default_rng(0).random(20)
    made = DifficultyIntervals("absolute", alpha=0.5, bins=20)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made.calibrate(np.exp(3 * ease), ease=ease, binning="calibration", mean=np.zeros(20))
    assert any(w.category is CaveatWarning and "19 of 20 difficulty bins" in str(w.message) for w in caught)
    widths = made.predict(ease=np.sort(ease), mean=np.zeros(20)).widths
    assert np.isinf(widths[:19]).all()
    assert np.isfinite(widths[19])


def test_lengths_must_agree():
    with pytest.raises(InputError, match="ease, y and mean must have the same length, got 3, 2 and 3"):
        DifficultyIntervals("absolute", bins=1).calibrate(
            [1.0, 2.0], ease=[0.1, 0.2, 0.3], binning="calibration", mean=[0.0, 0.0, 0.0]
        )
