"""The promises of the guard, end to end: false alarms, errors among the accepted, and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from caveat import Outputs
from caveat.guard import Guard
from caveat.scores import make

pytestmark = pytest.mark.filterwarnings("ignore:Nothing can be promised")  # small calibration sets keep the tests quick

ROWS = 10_000  # of the population on which true rates are counted


@pytest.fixture(scope="module")
def population():
    """Inliers enough to count the true rates of a guard; each draw of calibration rows comes from the same law."""
    rng = np.random.default_rng(99)
    labels = rng.integers(3, size=ROWS)
    logits = 3.0 * np.eye(3)[labels] + 1.5 * rng.normal(size=(ROWS, 3))
    outputs = Outputs(logits=logits, labels=labels)
    energy, doubt = make("energy").score(outputs), make("msp").score(outputs)
    return outputs, energy, doubt, 1 - outputs.probs


def rates(guard, population):
    """True false-alarm rate, error among the accepted, and coverage of one calibrated guard."""
    outputs, energy, doubt, nonconformity = population
    out = energy >= guard.threshold_
    member = nonconformity <= guard.sets_.threshold_
    accepted = ~out & (doubt < guard.accept_below_) & member.any(axis=1)
    wrong = (~outputs.correct[accepted]).mean() if accepted.any() else 0.0
    return out.mean(), wrong, member[np.arange(outputs.n), outputs.labels].mean()


def test_the_shortcut_counts_what_the_guard_says(population, calibration):
    guard = Guard("energy", risk=0.1).calibrate(calibration)
    verdicts = guard(population[0])
    alarms, wrong, covered = rates(guard, population)
    accepted = verdicts.kind == "accept"
    assert (verdicts.kind == "outlier").mean() == alarms
    assert (~population[0].correct[accepted]).mean() == wrong
    assert verdicts.sets.coverage(population[0].labels) == covered


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("draws", [250, pytest.param(2000, marks=pytest.mark.slow)])
def test_every_promise_holds_as_often_as_promised(n, draws, population, draw):
    rng, delta = np.random.default_rng(n), 0.1
    promised, measured = [], []
    for _ in range(draws):
        guard = Guard("energy", false_alarm=0.05, risk=0.15, alpha=0.1, delta=delta).calibrate(draw(rng, n))
        promised.append([promise.holds for promise in guard.promises])
        measured.append(rates(guard, population))
    alarms, wrong, covered = np.array(measured).T
    holds = np.array(promised)
    assert holds[:, 0].all()
    assert holds[:, 1].mean() > (0.3 if n == 100 else 0.99)
    slack = 4 * math.sqrt(delta * (1 - delta) / draws)
    seen = 0.0045  # two standard errors of a rate of 5 % that is counted on 10,000 rows
    assert (alarms > 0.05 + seen).mean() <= delta + slack
    assert (wrong[holds[:, 1]] > 0.15 + 0.0075).mean() <= delta + slack
    spread = math.sqrt(0.09 / n + 0.09 / ROWS)
    assert abs(covered.mean() - 0.9) < 4 * spread / math.sqrt(draws) + seen + 1 / n
