"""The watch of a guard: three streams share alpha, labels come later, saved state resumes bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from caveat import InputError, Outputs
from caveat.guard import Guard, Watch


@pytest.fixture
def guard(calibration):
    return Guard("energy", risk=0.15).calibrate(calibration, date="2026-01-02")


def test_a_quiet_stream_is_quiet_and_drift_is_named(guard, draw):
    rng = np.random.default_rng(7)
    watch = guard.watch(alpha=0.01)
    watch.update(guard(draw(rng, 1500)))
    assert watch.alarmed == ()
    assert set(watch.log10_e) == {"score", "class", "confidence"}
    watch.update(guard(draw(rng, 1500, spread=3.0)))
    assert "score" in watch.alarmed
    assert "alarm" in repr(watch)


@pytest.mark.filterwarnings("ignore:Nothing can be promised")
def test_quiet_streams_raise_any_of_the_alarms_at_most_as_promised(draw):
    rung = 0
    for seed in range(150):
        rng = np.random.default_rng([21, seed])
        guard = Guard("energy", sets=None).calibrate(draw(rng, 100))
        watch = guard.watch(alpha=0.1)
        watch.update(guard(draw(rng, 800)))
        assert watch.alarmed == tuple(watch.alarmed_at)
        rung += bool(watch.alarmed)
    assert rung / 150 <= 0.1 + 4 * np.sqrt(0.09 / 150)


def test_a_changed_class_prior_is_found_by_the_class_stream(guard, draw):
    rng = np.random.default_rng(8)
    watch = guard.watch()
    rows = draw(rng, 9000)
    rare = (rows.labels == 0) & (rng.random(9000) < 0.8)
    watch.update(guard(rows[~rare]))
    assert "class" in watch.alarmed


def test_labels_that_come_later_raise_the_risk_alarm(guard):
    watch = guard.watch()
    watch.labels(np.random.default_rng(9).random(1000) < 0.3)
    assert watch.alarmed == ("risk",)
    with pytest.raises(InputError, match="risk="):
        Guard("energy").calibrate(_some()).watch().labels([True])


def test_outputs_are_not_verdicts(guard, stream):
    with pytest.raises(InputError, match="Verdicts"):
        guard.watch().update(stream)


def test_a_saved_state_goes_on_bit_for_bit(guard, draw, tmp_path):
    rows = draw(np.random.default_rng(10), 400, spread=2.0)
    watch = guard.watch(alpha=0.05)
    watch.update(guard(rows[:150]))
    watch.labels([False, True, False])
    watch.save(tmp_path / "state")
    other = Watch.load(guard, tmp_path / "state")
    for each in (watch, other):
        each.update(guard(rows[150:]))
    assert watch.log10_e == other.log10_e
    assert watch.risk.state() == other.risk.state()
    assert repr(watch) == repr(other)


def test_the_state_of_another_guard_is_refused(guard, tmp_path):
    guard.watch().save(tmp_path / "state")
    with pytest.raises(InputError, match="another guard"):
        Watch.load(Guard("energy").calibrate(_some()), tmp_path / "state")


def _some():
    rng = np.random.default_rng(11)
    labels = rng.integers(3, size=300)
    return Outputs(logits=3 * np.eye(3)[labels] + rng.normal(size=(300, 3)), labels=labels)


@pytest.mark.parametrize("guard", [np.zeros(3), None, "energy"])
def test_what_is_no_guard_is_not_watched(guard):
    with pytest.raises(InputError, match="guard must be a calibrated Guard"):
        Watch(guard)
