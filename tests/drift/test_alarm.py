"""The drift alarm keeps its promise on quiet streams, for every size of calibration set, and finds real drift."""

from __future__ import annotations

import json

import numpy as np
import pytest

from caveat import InputError
from caveat.drift import DriftAlarm
from caveat.drift.bettors import default_bettors, log_mean


def rate_over_quiet_streams(n, *, alpha, streams, length, ties=False):
    rung = 0
    for seed in range(streams):
        rng = np.random.default_rng([n, seed])
        scores = rng.normal(size=n + length).round(0 if ties else 9)
        alarm = DriftAlarm(scores[:n], alpha=alpha, seed=seed)
        alarm.update(scores[n:])
        rung += alarm.alarmed
    return rung / streams


def at_most(alpha, streams):
    return alpha + 4 * np.sqrt(alpha * (1 - alpha) / streams)


@pytest.mark.parametrize("n", [50, 100, 1000])
def test_quiet_streams_ring_at_most_as_promised(n):
    # restarts every 1,000 points for n = 50 and 100: three runs share alpha
    assert rate_over_quiet_streams(n, alpha=0.1, streams=150, length=3000) <= at_most(0.1, 150)


@pytest.mark.slow
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 0.1])
@pytest.mark.parametrize("n", [50, 100, 1000])
def test_long_quiet_streams_ring_at_most_as_promised(n, alpha, ties):
    rate = rate_over_quiet_streams(n, alpha=alpha, streams=1000, length=20_000, ties=ties)
    assert rate <= at_most(alpha, 1000)


def test_without_restarts_the_level_is_used_up_better():
    # one run: alarm at 1/alpha, still kept
    rung = 0
    for seed in range(200):
        rng = np.random.default_rng([9, seed])
        alarm = DriftAlarm(rng.normal(size=100), alpha=0.1, seed=seed, restart_after=0)
        alarm.update(rng.normal(size=2000))
        assert alarm.run == 1
        rung += alarm.alarmed
    assert 0.01 < rung / 200 <= at_most(0.1, 200)


def test_martingales_on_a_fixed_calibration_set_break_the_promise():
    # the contrast that the urn exists for: n = 100, alpha = 1 %
    rung = 0
    for seed in range(100):
        rng = np.random.default_rng([7, seed])
        calibration, scores = np.sort(rng.normal(size=100)), rng.normal(size=5000)
        p = (100 - np.searchsorted(calibration, scores) + rng.random(5000)) / 101
        path = log_mean(np.stack([bettor.update(p) for bettor in default_bettors()]))
        rung += path.max() >= np.log(100)
    assert rung / 100 > 0.1


@pytest.mark.parametrize(("shift", "limit"), [(0.25, 1500), (0.5, 300)])
def test_a_shift_is_found_after_a_quiet_start(shift, limit):
    delays = []
    for seed in range(20, 35):
        rng = np.random.default_rng([3, seed])
        alarm = DriftAlarm(rng.normal(size=1000), alpha=0.01, seed=seed)
        alarm.update(rng.normal(size=1000))
        alarm.update(rng.normal(shift, 1, size=4000))
        delays.append((alarm.alarmed_at or 10**9) - 1000)
    assert min(delays) > 0
    assert np.median(delays) < limit


def test_a_new_class_and_a_changed_class_prior_are_found():
    rng = np.random.default_rng(4)
    calibration = rng.normal(size=1000)
    alarm = DriftAlarm(calibration, seed=1)
    alarm.update(np.where(rng.random(3000) < 0.1, rng.normal(4, 1, size=3000), rng.normal(size=3000)))
    assert alarm.alarmed  # 10 % of the stream are of a new class that scores high
    assert alarm.share_small > 0.06

    prior = DriftAlarm(rng.integers(10, size=1000).astype(float), seed=1)  # predicted classes, a tie each
    prior.update(rng.integers(10, size=1000).astype(float))
    assert not prior.alarmed
    prior.update(np.where(rng.random(2000) < 0.3, 4.0, rng.integers(10, size=2000)))
    assert prior.alarmed


def test_the_same_stream_in_any_batches_gives_the_same_evidence():
    rng = np.random.default_rng(5)
    calibration, scores = rng.normal(size=40), rng.normal(size=2500)
    whole, parts = DriftAlarm(calibration, seed=3), DriftAlarm(calibration, seed=3)
    evidence = whole.update(scores)
    cuts = np.sort(rng.integers(0, 2500, size=60))
    assert np.concatenate([parts.update(part) for part in np.split(scores, cuts)]).tolist() == evidence.tolist()
    assert whole.run == parts.run == 3
    assert whole.state()["bettors"] == parts.state()["bettors"]
    assert evidence[-1] == whole.log10_e


def test_a_later_run_needs_more_evidence():
    rng = np.random.default_rng(6)
    alarm = DriftAlarm(rng.normal(size=10), restart_after=100)
    alarm.update(rng.normal(size=101))
    assert alarm.run == 2
    assert alarm.log10_e == pytest.approx(-np.log10(6), abs=0.3)  # capital near 1 after one point, divided by 2 x 3


def test_a_saved_alarm_goes_on_bit_for_bit(tmp_path):
    rng = np.random.default_rng(8)
    calibration, scores = rng.normal(size=60).round(1), rng.normal(0.3, 1, size=800).round(1)
    alarm = DriftAlarm(calibration, alpha=0.05, seed=2)
    alarm.update(scores[:300])
    alarm.save(tmp_path / "state")
    other = DriftAlarm.load(tmp_path / "state")
    assert other.update(scores[300:]).tolist() == alarm.update(scores[300:]).tolist()
    assert repr(other) == repr(alarm)
    other.save(tmp_path / "state")  # replaces what was there
    assert DriftAlarm.load(tmp_path / "state").rows == 800


@pytest.mark.parametrize("change", [{"row": -1}, {"row": "x"}, {"alpha": 2}, {"bettors": []}, {"histogram": ["a"]},
                                    {"bettors": None}, {"restart_after": -1}])  # fmt: skip
def test_a_damaged_state_is_one_sentence(tmp_path, change):
    DriftAlarm([1.0, 2.0, 3.0]).save(tmp_path / "a")
    page = tmp_path / "a" / "drift.json"
    page.write_text(json.dumps(json.loads(page.read_text()) | change))
    with pytest.raises(InputError):
        DriftAlarm.load(tmp_path / "a")


@pytest.mark.parametrize("levels", [None, 4])
def test_blocks_of_every_size_give_the_same_bits(levels):
    # 330 points pass three restarts; with four levels nearly all points tie
    rng = np.random.default_rng(8)
    values = rng.normal(size=370) if levels is None else rng.integers(levels, size=370).astype(float)
    values[200:] += 0.5

    def alarm():
        return DriftAlarm(values[:40], alpha=0.05, seed=3, restart_after=97)

    single = alarm()
    evidence = [single.update(value)[0] for value in values[40:]]
    page = json.dumps(single.state(), default=np.ndarray.tolist)
    for size in [*range(2, 40), 96, 97, 98, 300, 330]:
        blocks = alarm()
        parts = [blocks.update(values[start : start + size]) for start in range(40, 370, size)]
        assert np.concatenate(parts).tolist() == evidence
        assert json.dumps(blocks.state(), default=np.ndarray.tolist) == page
