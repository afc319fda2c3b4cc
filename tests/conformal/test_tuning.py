"""Tuning: the chosen setting is the best of its table, and calibration data is never used."""

import numpy as np
import pytest

from caveat import Outputs
from caveat.conformal import SplitSets, tune_difficulty, tune_raps, tune_saps
from caveat.conformal.nonconformity import RAPS, SAPS
from caveat.conformal.tuning import WEIGHTS
from caveat.errors import InputError


def draw(n, rng, classes=12):
    sharp = rng.uniform(0.5, 6, n)
    logits = sharp[:, None] * rng.normal(size=(n, classes))
    return Outputs(logits=logits, labels=np.argmax(logits + rng.gumbel(size=(n, classes)), axis=1)), sharp


def test_weights_are_those_of_the_paper():
    assert WEIGHTS == (0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65)


@pytest.mark.parametrize("criterion", ["sscv", "t_ss"])
@pytest.mark.parametrize("tune", [tune_raps, tune_saps])
def test_the_best_of_the_table_is_chosen(tune, criterion):
    rng = np.random.default_rng(0)
    tuning, easy = draw(2000, rng)
    tuned = tune(tuning, 0.1, rng=rng, criterion=criterion, ease=easy)
    best = min(tuned.table.values()) if criterion == "sscv" else max(tuned.table.values())
    assert tuned.table[tuned.score] == best
    assert isinstance(tuned.score, RAPS if tune is tune_raps else SAPS)
    assert len(set(tuned.table.values())) > 1
    sets = SplitSets(tuned.score, alpha=0.1).calibrate(draw(500, rng)[0])
    assert sets.nonconformity == tuned.score


def test_k_reg_is_the_conformal_quantile_of_the_ranks():
    # 19 rows of rank 1 .. 19 on one fixed row of probabilities: k = ceil(20 * .8) = 16
    probs = np.tile(np.arange(20, 0, -1.0) / 210, (19, 1))
    tuned = tune_raps(Outputs(probs=probs, labels=np.arange(19)), 0.2, rng=np.random.default_rng(0), penalties=[0.1])
    assert tuned.score == RAPS(penalty=0.1, k_reg=16)


def test_difficulty_tuning_prefers_what_measures_difficulty():
    rng = np.random.default_rng(1)
    logits, easy = 3 * rng.normal(size=(3000, 6)), rng.random(3000)
    guess = rng.random(3000) > easy  # an overconfident model: only the ease knows where it guesses
    tuning = Outputs(logits=logits, labels=np.where(guess, rng.integers(6, size=3000), logits.argmax(axis=1)))
    tuned = tune_difficulty(
        tuning, {"noise": rng.random(3000), "true": easy}, 0.1, rng=rng, bins=(5, 10), judged_by=easy
    )
    for key, value in tuned.table.items():
        assert (value > 0.4) == (key[0] == "true")
    assert tuned.ease == "true"
    assert tuned.bins in (5, 10)
    assert len(tuned.table) == 4


def test_candidates_may_come_from_iterators():
    rng = np.random.default_rng(2)
    tuning, easy = draw(400, rng)
    eases = {"a": easy, "b": rng.random(400)}
    tuned = tune_difficulty(tuning, eases, 0.2, rng=rng, bins=iter([2, 4]), scores=iter(["lac", "topk"]))
    assert len(tuned.table) == 8


def test_clear_errors():
    rng = np.random.default_rng(0)
    tuning, easy = draw(100, rng)
    with pytest.raises(InputError, match="tuning by T-SS needs the ease"):
        tune_saps(tuning, 0.1, rng=rng, criterion="t_ss")
    with pytest.raises(InputError, match="unknown criterion 'size'"):
        tune_saps(tuning, 0.1, rng=rng, criterion="size")
    for tune in (tune_raps, tune_saps):
        with pytest.raises(InputError, match="tuning needs tuning.labels, which is None"):
            tune(Outputs(logits=tuning.logits), 0.1, rng=rng)
    with pytest.raises(InputError, match="penalties must be a list with at least one entry"):
        tune_raps(tuning, 0.1, rng=rng, penalties=[])
    with pytest.raises(InputError, match=r"same length, got 100 and 99"):
        tune_difficulty(tuning, {"a": easy[1:]}, 0.1, rng=rng)
