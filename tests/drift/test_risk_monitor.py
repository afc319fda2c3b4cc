"""The risk monitor keeps its alarm promise, covers the error rate at all times, and rings when the risk is passed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

from caveat import InputError
from caveat.drift import RiskMonitor
from caveat.drift.risk_monitor import confidence_sequence


@pytest.mark.parametrize(("k", "n", "risk"), [(0, 5, 0.1), (3, 10, 0.1), (9, 10, 0.3), (2, 400, 0.05)])
def test_the_evidence_is_the_mixture(k, n, risk):
    mixed = quad(lambda q: (q / risk) ** k * ((1 - q) / (1 - risk)) ** (n - k), risk, 1, limit=200)[0] / (1 - risk)
    wrong = np.arange(n) < k
    recent, follows = risk, 1.0
    for label in wrong:
        rate = max(risk, recent)
        follows *= rate / risk if label else (1 - rate) / (1 - risk)
        recent = 0.99 * recent + 0.01 * label
    monitor = RiskMonitor(risk=risk)
    monitor.update(wrong)
    assert 10**monitor.log10_e == pytest.approx((mixed + follows) / 2, rel=1e-6)


def test_a_quiet_stream_rings_at_most_as_promised_also_below_the_risk():
    rng = np.random.default_rng(0)
    rung = 0
    for i in range(400):
        rate = 0.1 if i % 2 else np.where(np.arange(3000) % 500 < 250, 0.1, 0.02)  # at the risk, or moving below it
        monitor = RiskMonitor(risk=0.1, alpha=0.1)
        monitor.update(rng.random(3000) < rate)
        rung += monitor.alarmed
    assert rung / 400 <= 0.1 + 4 * math.sqrt(0.09 / 400)


def test_the_interval_covers_at_all_times():
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(150):
        monitor = RiskMonitor(risk=0.5, alpha=0.2)
        for _ in range(12):  # looked at 12 times on the way
            monitor.update(rng.random(40) < 0.2)
            low, high = monitor.interval
            if not low <= 0.2 <= high:
                missed += 1
                break
    assert missed / 150 <= 0.2 + 4 * math.sqrt(0.16 / 150)


def test_twice_the_risk_is_found():
    rng = np.random.default_rng(2)
    monitor = RiskMonitor(risk=0.05, alpha=0.01)
    monitor.update(rng.random(500) < 0.04)
    assert not monitor.alarmed
    monitor.update(rng.random(1000) < 0.15)
    assert monitor.alarmed
    assert 500 < monitor.alarmed_at < 1000
    assert monitor.interval[0] > 0.05


def test_batches_do_not_matter_and_bad_labels_are_refused():
    wrong = np.random.default_rng(3).random(50) < 0.3
    whole, single = RiskMonitor(), RiskMonitor()
    evidence = whole.update(wrong)
    assert [single.update([label])[0] for label in wrong] == evidence.tolist()
    assert single.state() == whole.state()
    assert whole.error == wrong.mean()
    assert math.isnan(RiskMonitor().error)
    with pytest.raises(InputError, match="wrong"):
        whole.update([2])


def test_intervals_of_many_counts_are_those_of_one_at_a_time():
    n = np.array([0, 1, 7, 40, 40, 40, 3000])
    errors = np.array([0, 1, 2, 0, 11, 40, 150])
    lower, upper = confidence_sequence(errors, n, alpha=0.05)
    monitor = RiskMonitor(alpha=0.05)
    one_by_one = [
        monitor.restore({"n": int(total), "errors": int(k), "alarmed_at": None, "recent": [0.5, 0.0]}).interval
        for k, total in zip(errors, n, strict=True)
    ]
    assert list(zip(lower.tolist(), upper.tolist(), strict=True)) == one_by_one
    assert one_by_one[0] == (0.0, 1.0)  # nothing is known yet
    assert lower[3] == 0  # no errors
    assert upper[5] == 1  # nothing but errors
    rates = errors[1:] / n[1:]
    assert ((lower[1:] <= rates) & (rates <= upper[1:])).all()
    # The end is where the capital reaches 2 / alpha: 11 errors in 40 answers, by numerical integration.
    low = float(lower[4])
    capital = quad(lambda q: (q / low) ** 11 * ((1 - q) / (1 - low)) ** 29, low, 1)[0] / (1 - low)
    assert capital == pytest.approx(2 / 0.05, rel=1e-6)
