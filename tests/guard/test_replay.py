"""A replay: the same evidence in batches of any size, promises beside what was measured, bands that chance keeps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from caveat import InputError, Outputs
from caveat.guard import Guard
from caveat.guard.replay import _extremes, p_histogram, replay

pytestmark = pytest.mark.filterwarnings("ignore:Nothing can be promised")  # small calibration sets keep the tests quick


@pytest.fixture
def guard(calibration):
    return Guard("energy", risk=0.15).calibrate(calibration, date="2026-01-01")


def unlabeled(outputs):
    return Outputs(logits=outputs.logits)


def test_a_quiet_stream_is_sound_and_drift_is_dated(guard, draw):
    rng = np.random.default_rng(21)
    quiet = replay(guard, draw(rng, 1500))
    assert quiet.sentence() == "Sound: no alarm."
    assert all(measured.sound and measured.verdict == "as chance allows" for measured in quiet.measured)
    drifted = replay(guard, draw(rng, 1500, spread=3.0))
    row = drifted.evidence["score"].alarmed_at
    assert {"score", "risk"} <= set(drifted.alarmed)
    assert f"inputs at row {row:,}" in drifted.sentence()
    assert [measured.verdict for measured in drifted.measured] == ["above", "above", "below"]
    assert drifted.histogram.outside.any()


def test_batches_change_nothing(guard, stream):
    whole, parts = (replay(guard, stream, batch=size) for size in (stream.n, 7))
    assert whole.counts == parts.counts
    assert whole.measured == parts.measured
    for name, evidence in whole.evidence.items():
        assert evidence.log10_e.tolist() == parts.evidence[name].log10_e.tolist()
        assert evidence.share_small == parts.evidence[name].share_small
    assert whole.histogram.counts.tolist() == parts.histogram.counts.tolist()
    assert whole.live.lower.tolist() == parts.live.lower.tolist()


def test_a_watch_goes_on_over_several_files(guard, draw):
    rows = draw(np.random.default_rng(22), 900, spread=2.2)
    whole, watch = replay(guard, rows), guard.watch()
    first = replay(guard, rows[:500], watch)
    second = replay(guard, rows[500:], watch)
    assert second.before == 500
    assert second.evidence["score"].rows[[0, -1]].tolist() == [501, 900]
    assert second.evidence["score"].now == whole.evidence["score"].now
    assert second.live.error[-1] == whole.live.error[-1]
    assert second.risk_alarmed_at == whole.risk_alarmed_at
    assert "earlier file" in second.sentence()
    assert first.alarmed


def test_an_error_alarm_of_an_earlier_file_is_remembered_without_labels(guard, draw):
    rng, watch = np.random.default_rng(23), guard.watch()
    replay(guard, draw(rng, 800, spread=3.0), watch)
    later = replay(guard, unlabeled(draw(rng, 50)), watch)
    assert later.live is None
    assert "errors among the accepted at answer" in later.sentence()


def test_shares_are_those_of_the_rows(guard, stream):
    result, verdicts = replay(guard, stream), guard(stream)
    accepted = verdicts.kind == "accept"
    alarms, errors, coverage = result.measured
    assert result.counts == verdicts.counts
    assert alarms.share.value == (verdicts.kind == "outlier").mean()
    assert errors.share.value == (~stream.correct[accepted]).mean()
    assert (errors.share.n, coverage.share.n) == (accepted.sum(), stream.n)
    assert coverage.share.value == verdicts.sets.coverage(stream.labels)
    assert result.live.error[-1] == errors.share.value
    assert result.live.lower[-1] < errors.share.value < result.live.upper[-1]


def test_a_rate_is_above_where_the_binomial_tail_is_small(guard, stream):
    for bound in (0.02, 0.03, 0.05):
        guard.promises_[0] = replace(guard.promises_[0], bound=bound)
        alarms = replay(guard, stream).measured[0]
        hits = round(alarms.share.value * stream.n)
        assert (alarms.verdict == "above") == (stats.binom.sf(hits - 1, stream.n, bound) <= 0.025)


def test_without_labels_sets_or_risk_less_is_measured(guard, calibration, stream):
    bare = replay(guard, unlabeled(stream))
    assert [measured.what for measured in bare.measured] == ["false alarms"]
    assert bare.live is None
    simple = replay(Guard("energy", sets=None).calibrate(calibration), stream)
    assert [measured.what for measured in simple.measured] == ["false alarms", "errors among the accepted"]
    assert simple.measured[1].verdict == ""
    assert simple.live.risk is None
    assert simple.mean_set_size is None


def test_nothing_accepted_and_few_calibration_rows_are_no_error(draw):
    rng = np.random.default_rng(24)
    guard = Guard("energy").calibrate(draw(rng, 10))
    result = replay(guard, draw(rng, 40))
    assert result.measured[0].verdict == ""  # 10 rows promise nothing
    assert result.histogram.counts.size == 11
    strict = Guard("energy").calibrate(draw(rng, 800))
    flat = Outputs(logits=np.zeros((5, 3)), labels=np.zeros(5, dtype=int))
    nothing = replay(strict, flat)
    assert nothing.counts["outlier"] == 5
    assert nothing.measured[1].share is None
    assert nothing.live is None


def test_wrong_calls_get_one_sentence(guard, stream, draw):
    other = Guard("energy").calibrate(draw(np.random.default_rng(25), 100))
    with pytest.raises(InputError, match="another guard"):
        replay(guard, stream, other.watch())
    with pytest.raises(InputError, match="batch"):
        replay(guard, stream, batch=0)
    with pytest.raises(InputError):
        replay(guard, stream.logits)


def test_progress_counts_the_rows(guard, stream):
    steps = []
    replay(guard, stream, batch=200, progress=lambda *step: steps.append(step[1:]))
    assert steps == [(200, 500), (400, 500), (500, 500)]


def test_the_histogram_counts_p_values():
    rng = np.random.default_rng(26)
    calibration, scores = rng.normal(size=199), rng.normal(size=300)
    bars = p_histogram(calibration, scores)
    p = [(1 + (calibration > score).sum()) / 200 for score in scores]
    assert bars.counts.tolist() == np.histogram(np.array(p) - 1e-9, np.linspace(0, 1, 21))[0].tolist()
    law = stats.betabinom(300, 10, 190)
    assert law.cdf(bars.least[0] - 1) <= 0.05 / 40 < law.cdf(bars.least[0])
    assert law.sf(bars.most[0]) <= 0.05 / 40 < law.sf(bars.most[0] - 1)


@pytest.mark.parametrize("digits", [8, 0])  # 0: a handful of different scores
def test_quiet_histograms_leave_their_band_as_rarely_as_promised(digits):
    rng, draws = np.random.default_rng(27), 600
    left = [p_histogram(rng.normal(size=60).round(digits), rng.normal(size=150).round(digits), seed=i).outside.any()
            for i in range(draws)]  # fmt: skip
    assert np.mean(left) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / draws)


def test_a_drawn_path_keeps_its_ends_and_extremes():
    path = np.cumsum(np.random.default_rng(28).normal(size=10_000))
    keep = _extremes(path)
    assert keep.size <= 602
    assert {0, path.size - 1, int(path.argmin()), int(path.argmax())} <= set(keep.tolist())
    assert _extremes(path[:500]).tolist() == list(range(500))
