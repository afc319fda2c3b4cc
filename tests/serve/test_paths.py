"""Paths in bounded memory: hand-worked points, no peak missed, any batches give the same, states go on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caveat.drift import RiskMonitor
from caveat.serve.paths import PLACES, STRETCHES, PeakPath, SharePath

splits = st.lists(st.integers(1, 400), min_size=1, max_size=8)


def in_batches(values, sizes):
    """The values in batches of these sizes, repeated to the end."""
    start, i = 0, 0
    while start < values.size:
        stop = min(start + sizes[i % len(sizes)], values.size)
        yield start, values[start:stop]
        start, i = stop, i + 1


def test_a_short_path_is_kept_whole():
    path = PeakPath()
    values = np.random.default_rng(0).normal(size=2 * STRETCHES)  # stretches of two rows: both are extremes
    path.add(0, values)
    assert path.points() == (list(range(1, 2 * STRETCHES + 1)), values.tolist())
    assert PeakPath().points() == ([], [])


def test_a_long_path_by_hand():
    path = PeakPath()
    values = np.zeros(4 * STRETCHES)  # stretches of four rows
    values[[5, 7, 10]] = 3.0, -1.0, 2.0
    path.add(0, values)
    rows, kept = path.points()
    # The second stretch is rows 5 to 8: highest at row 6, lowest at row 8. The third, 9 to 12: first zero, peak at 11.
    assert rows[:6] == [1, 6, 8, 9, 11, 13]
    assert kept[:6] == [0.0, 3.0, -1.0, 0.0, 2.0, 0.0]
    assert rows[-1] == 4 * STRETCHES


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 3000), before=st.integers(0, 1000), sizes=splits, seed=st.integers(0, 99))
def test_batches_change_no_path_and_no_peak_is_missed(n, before, sizes, seed):
    values = np.round(np.cumsum(np.random.default_rng(seed).normal(size=n)), 1)  # rounded: equal values are common
    whole, parts = PeakPath(), PeakPath()
    whole.add(before, values)
    for start, batch in in_batches(values, sizes):
        parts.add(before + start, batch)
        parts = PeakPath().restore(json.loads(json.dumps(parts.state())))  # a restart after every batch
    assert whole.points() == parts.points()
    rows, kept = whole.points()
    assert len(rows) <= 2 * STRETCHES + 2
    assert rows == sorted(set(rows))
    assert (rows[0], rows[-1]) == (before + 1, before + n)
    assert kept == values[np.array(rows) - before - 1].tolist()
    assert (max(kept), min(kept)) == (values.max(), values.min())


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 3000), sizes=splits, seed=st.integers(0, 99))
def test_batches_change_no_share(n, sizes, seed):
    hits = np.random.default_rng(seed).random(n) < 0.2
    whole, parts = SharePath(alpha=0.05), SharePath(alpha=0.05)
    whole.add(hits)
    for _, batch in in_batches(hits, sizes):
        parts.add(batch)
        parts = SharePath(alpha=0.05).restore(json.loads(json.dumps(parts.state())))
    assert whole.points() == parts.points()
    labels, counts, lower, upper = whole.points()
    assert len(labels) <= PLACES + 1
    assert labels == sorted(set(labels))
    assert counts == np.cumsum(hits)[np.array(labels) - 1].tolist()
    assert labels[-1] == n
    assert all(0 <= a <= k / m <= b <= 1 for m, k, a, b in zip(labels, counts, lower, upper, strict=True))


def test_the_interval_is_that_of_the_risk_monitor():
    hits = np.random.default_rng(1).random(500) < 0.1
    path, monitor = SharePath(alpha=0.01), RiskMonitor(alpha=0.01)
    for part in np.split(hits, 5):  # looked at on the way: what is kept between must not go stale
        path.add(part)
        monitor.update(part)
        labels, counts, lower, upper = path.points()
        assert (labels[-1], counts[-1]) == (monitor.n, monitor.errors)
        assert (lower[-1], upper[-1]) == monitor.interval


def test_no_labels_are_no_places():
    path = SharePath(alpha=0.05)
    path.add(np.zeros(0, dtype=bool))
    assert path.points() == ([], [], [], [])
    path.add(np.array([True]))
    assert path.points()[:2] == ([1], [1])


@pytest.mark.parametrize("rows", [10_000, 1_000_000])
def test_memory_is_bounded(rows):
    path, share = PeakPath(), SharePath(alpha=0.05)
    rng = np.random.default_rng(2)
    for start in range(0, rows, 5000):
        path.add(start, rng.normal(size=5000))
        share.add(rng.random(5000) < 0.1)
    assert len(json.dumps(path.state())) < 20_000
    assert len(json.dumps(share.state())) < 4_000
