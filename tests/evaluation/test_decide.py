"""The promises of a decision hold over many draws, with the score chosen on other rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caveat._internal.ranking import Ranked
from caveat.evaluation.decide import ModelScores, decide
from caveat.evaluation.rank import error_placements, rank_methods
from caveat.evaluation.records import Method
from caveat.metrics import Placements

N, TRIALS, FALSE_ALARM, RISK, DELTA = 300, 150, 0.1, 0.1, 0.1


def draw(rng, n):
    """Doubt is uniform, an answer is wrong with probability doubt / 2; a second score is noise around it."""
    doubt = rng.random(n)
    return {"msp": doubt, "energy": doubt + rng.normal(scale=0.3, size=n)}, rng.random(n) > doubt / 2


@pytest.mark.parametrize("trials", [TRIALS, pytest.param(4000, marks=pytest.mark.slow)])
def test_promises_hold_after_the_choice(trials):
    rng = np.random.default_rng(0)
    future, right = draw(np.random.default_rng(99), 20_000)
    alarms = errors = 0
    for _ in range(trials):
        (inlier, correct), (held, held_correct) = draw(rng, N), draw(rng, N)
        outliers = {name: values + 0.4 for name, values in draw(rng, 100)[0].items()}
        scores = ModelScores(inlier, held, {"far": outliers}, {}, {n: Method(n) for n in inlier},
                             {"inlier": correct, "calibration": held_correct})  # fmt: skip
        ranking = rank_methods({n: Placements.of(inlier=inlier[n], outliers=[outliers[n]]) for n in inlier})
        by_errors = rank_methods({n: error_placements(Ranked.of(inlier[n]), correct) for n in inlier})
        found = decide(scores, ranking, by_errors, None, false_alarm=FALSE_ALARM, risk=RISK, delta=DELTA)
        passed = future[str(found.method)] < found.threshold
        alarms += np.mean(~passed) > FALSE_ALARM
        accepted = passed & (future[str(found.confidence)] < found.accept_below)
        if found.errors.holds:
            errors += np.mean(~right[accepted]) > RISK
    slack = 3 * math.sqrt(DELTA * (1 - DELTA) / trials)
    assert alarms / trials <= DELTA + slack
    assert errors / trials <= DELTA + slack


def test_of_tied_scores_the_cheapest_is_taken():
    rng = np.random.default_rng(1)
    values, held, far = rng.normal(size=200), rng.normal(size=200), rng.normal(3, size=100)
    names = ("knn", "mahalanobis", "energy")
    inlier, calibration, outliers = (dict.fromkeys(names, found) for found in (values, held, far))
    scores = ModelScores(inlier, calibration, {"far": outliers}, {}, {n: Method(n) for n in names})
    ranking = rank_methods({n: Placements.of(inlier=values, outliers=[far]) for n in names})
    found = decide(scores, ranking, None, None)
    assert str(found.method) == "energy"
    assert "cheapest of 3 tied" in found.reason
