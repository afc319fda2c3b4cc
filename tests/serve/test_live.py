"""The live view: counts by hand, any batches show the same page, bounded memory, a restart shows the same page."""

from __future__ import annotations

import itertools
import json
import re
import tracemalloc
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import caveat
from caveat import Guard, InputError, Outputs
from caveat.guard.replay import replay
from caveat.serve.audit.content import encode_verdicts
from caveat.serve.audit.record import START, Entry, chained
from caveat.serve.folding import Folding
from caveat.serve.live import MINUTES, RECENT, SHOWN, LiveView


def draw(seed, n, *, spread=1.5, classes=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    return Outputs(logits=3.0 * np.eye(classes)[labels] + spread * rng.normal(size=(n, classes)), labels=labels)


@pytest.fixture(scope="module")
def guard():
    return Guard("energy", risk=0.15).calibrate(draw(1, 800), date="2026-11-02")


class Service:
    """A guard, its watch and the view, fed as the service does it."""

    def __init__(self, guard, *, started_at=0.0, **options):
        self.guard, self.watch = guard, guard.watch()
        self.view = LiveView(guard, self.watch, started_at=started_at, **options)

    def send(self, rows, at=0.0):
        first, verdicts = self.watch.rows, self.guard(rows)
        ids = [f"v{first + i}" for i in range(rows.n)]
        self.view.add(at, first, ids, verdicts, self.watch.update(verdicts))
        return verdicts

    def label(self, rows, verdicts):
        wrong = ~rows.correct[verdicts.accepted]
        if wrong.size and self.watch.risk is not None:
            self.watch.labels(wrong)
        self.view.add_labels(wrong, None if verdicts.sets is None else verdicts.sets.covers(rows.labels))

    def page(self, now=0.0):
        page = self.view.to_dict(now=now)
        assert json.loads(json.dumps(page, allow_nan=False)) == page  # plain values, nothing that JSON cannot say
        return page


def test_an_empty_page_has_promises_and_no_numbers(guard):
    page = Service(guard, name="toy", fields={"logits": 3}).page()
    assert page["rows"] == 0
    assert page["counts"] == {"accept": 0, "abstain": 0, "outlier": 0}
    assert page["minutes"] == {"start": "1970-01-01T00:00:00Z", "accept": [0], "abstain": [0], "outlier": [0]}
    assert (page["p_values"]["n"], sum(page["p_values"]["counts"])) == (0, 0)
    assert page["live"] == {"error": None, "coverage": None}
    assert page["last"] == page["alarms"] == []
    assert [stream["rows"] for stream in page["drift"]["streams"]] == [[], [], []]
    assert [stream["share_small"] for stream in page["drift"]["streams"]] == [None, None, None]
    assert (page["name"], page["fields"], page["calibrated_at"]) == ("toy", {"logits": 3}, "2026-11-02")
    assert (page["fingerprint"], page["version"]) == (guard.fingerprint, caveat.__version__)
    assert [promise["sentence"] for promise in page["promises"]] == [str(promise) for promise in guard.promises]


def test_counts_per_minute_by_hand(guard):
    service = Service(guard, started_at=125.0)  # minute 2
    first = service.send(draw(2, 30), at=130.0)
    second = service.send(draw(3, 12, spread=4.0), at=239.9)  # minute 3
    third = service.send(draw(4, 1), at=300.0)  # minute 5
    page = service.page(now=301.0)
    minutes = page["minutes"]
    assert minutes["start"] == "1970-01-01T00:02:00Z"
    for kind in ("accept", "abstain", "outlier"):
        expected = [batch.counts[kind] for batch in (first, second)] + [0, third.counts[kind]]
        assert minutes[kind] == expected
        assert page["counts"][kind] == sum(expected)
    assert page["counts"]["outlier"] > 0
    assert page["rows"] == 43


def test_minutes_show_the_last_hour_alone_also_when_the_clock_jumps(guard):
    service = Service(guard)
    for minute in (0, 10, 70, 71):
        service.send(draw(minute, 3), at=60.0 * minute)
    page = service.page(now=60 * 71.5)
    assert page["minutes"]["start"] == "1970-01-01T00:12:00Z"
    totals = np.sum([page["minutes"][kind] for kind in page["counts"]], axis=0)
    assert totals.tolist() == [0] * 58 + [3, 3]
    assert page["rows"] == 12
    service.send(draw(5, 4), at=60.0 * 1_000_000)
    service.send(draw(6, 5), at=60.0 * 72)  # the clock was set back
    totals = np.sum([service.page(now=60 * 72)["minutes"][kind] for kind in page["counts"]], axis=0)
    assert totals[-1] == 5
    assert service.page(now=-60.0)["minutes"]["accept"] == []  # before the first minute
    for minute in range(3 * MINUTES):
        service.send(draw(7, 1), at=60.0 * minute)
    assert len(service.view.state()["minutes"]) < 2 * MINUTES


def test_the_page_agrees_with_a_replay_of_the_rows(guard):
    rows = draw(8, 2500, spread=1.9)
    service = Service(guard)
    for start in range(0, rows.n, 300):
        part = rows[start : start + 300]
        service.label(part, service.send(part))
    page, check = service.page(), replay(guard, rows)
    assert page["counts"] == check.counts
    assert page["alarms"] == list(check.alarmed) != []
    for stream in page["drift"]["streams"]:
        evidence = check.evidence[stream["name"]]
        assert (stream["now"], stream["line"]) == (evidence.now, evidence.line)
        assert stream["alarmed_at"] == evidence.alarmed_at
        assert max(stream["log10_e"]) == evidence.highest
        assert stream["highest"] == max(0.0, evidence.highest)  # before the first row the evidence is 0
        assert stream["rows"][-1] == rows.n
        assert stream["log10_e"][-1] == evidence.now
        last = replay(guard, rows[-RECENT:]).evidence[stream["name"]]
        assert stream["share_small"] == last.share_small
    bars = replay(guard, rows[-RECENT:]).histogram
    assert page["p_values"]["n"] == RECENT
    for name in ("edges", "counts", "least", "most"):
        assert page["p_values"][name] == getattr(bars, name).tolist()
    live = page["live"]["error"]
    assert (live["labels"], live["rate"]) == (check.live.answers[-1], check.live.error[-1])
    assert live["alarmed_at"] == check.risk_alarmed_at
    coverage = next(measured for measured in check.measured if measured.what == "coverage")
    assert page["live"]["coverage"]["rate"] == coverage.share.value


def test_live_shares_by_hand(guard):
    service = Service(guard)
    service.view.add_labels(np.array([True, False, False, False]), np.array([True, True, True, False, True]))
    service.view.add_labels(np.zeros(0, dtype=bool), np.array([False]))  # a label of a row that was not accepted
    error, coverage = (service.page()["live"][name] for name in ("error", "coverage"))
    assert (error["labels"], error["errors"], error["rate"], error["promised"]) == (4, 1, 0.25, 0.15)
    assert error["path"]["labels"] == [1, 2, 3, 4]
    assert error["path"]["rate"] == [1.0, 0.5, 1 / 3, 0.25]
    assert (coverage["labels"], coverage["covered"], coverage["rate"]) == (6, 4, 4 / 6)
    assert coverage["promised"] == pytest.approx(0.9)
    assert coverage["path"]["rate"] == [1.0, 1.0, 1.0, 0.75, 0.8, 4 / 6]
    for share in (error, coverage):
        assert share["level"] == 0.99
        assert share["lower"] <= share["rate"] <= share["upper"]
        assert (share["lower"], share["upper"]) == (share["path"]["lower"][-1], share["path"]["upper"][-1])


def test_an_interval_above_the_promise_has_raised_the_alarm(guard):
    rng, service = np.random.default_rng(9), Service(guard)
    for _ in range(60):
        wrong = rng.random(10) < 0.35
        service.watch.labels(wrong)
        service.view.add_labels(wrong)
        if service.page()["live"]["error"]["lower"] > 0.15:
            break
    else:
        pytest.fail("the interval never passed the promise")
    assert service.page()["alarms"] == ["risk"]
    assert service.page()["live"]["error"]["alarmed_at"] == service.watch.risk.alarmed_at


def test_a_guard_without_sets_risk_and_classes():
    features = np.random.default_rng(10).normal(5.0, 1.0, size=(500, 4))
    guard = Guard("knn", sets=None).fit(Outputs(features=features[:200])).calibrate(Outputs(features=features[200:]))
    service = Service(guard)
    service.send(Outputs(features=-features[:5]))
    page = service.page()
    assert [stream["name"] for stream in page["drift"]["streams"]] == ["score"]
    assert page["counts"]["outlier"] == 5
    assert {(row["prediction"], row["set"]) for row in page["last"]} == {(None, None)}
    service.view.add_labels(np.array([False]))
    assert service.page()["live"]["error"]["promised"] is None
    assert service.page()["live"]["coverage"] is None


@pytest.mark.parametrize("sizes", [(1,), (7, 1, 30), (100,)])
def test_the_last_verdicts_are_the_newest_first_with_reasons(guard, sizes):
    rows, service = draw(11, 100, spread=2.5), Service(guard)
    start = 0
    for size in itertools.cycle(sizes):
        if start >= rows.n:
            break
        service.send(rows[start : start + size], at=float(start))
        start += size
    verdicts = guard(rows)
    last = service.page()["last"]
    assert [row["id"] for row in last] == [f"v{i}" for i in range(99, 99 - SHOWN, -1)]
    assert [row["reason"] for row in last] == verdicts.reasons[: -SHOWN - 1 : -1]
    assert [row["kind"] for row in last] == verdicts.kind[: -SHOWN - 1 : -1].tolist()
    assert [row["set"] for row in last] == [verdicts.sets.labels(i).tolist() for i in range(99, 99 - SHOWN, -1)]
    assert [row["p_value"] for row in last] == verdicts.p_values[: -SHOWN - 1 : -1].tolist()
    assert all(re.fullmatch(r"1970-01-01T00:0\d:\d\d\.000Z", row["at"]) for row in last)


@settings(max_examples=12, deadline=None)
@given(n=st.integers(1, 1400), sizes=st.lists(st.integers(20, 600), min_size=1, max_size=5), seed=st.integers(0, 9))
def test_any_batches_show_the_same_page_also_with_restarts(guard, n, sizes, seed):
    rows, times = draw(seed, n, spread=1.8), 5.0 * np.arange(n)  # 12 rows a minute
    whole, parts = Service(guard), Service(guard)
    whole.label(rows, whole.send(rows, times))
    start = 0
    for size in itertools.cycle(sizes):
        if start >= n:
            break
        part = rows[start : start + size]
        parts.label(part, parts.send(part, times[start : start + size]))
        start += size
        later = Service(guard)  # the service stops and starts again
        later.watch.restore(parts.watch.state())
        later.view.restore(json.loads(json.dumps(parts.view.state(), allow_nan=False)))
        parts = later
    assert parts.page(now=times[-1]) == whole.page(now=times[-1])


def test_rows_of_one_batch_count_in_their_own_minutes(guard):
    service, rows = Service(guard), draw(18, 30)
    verdicts = service.send(rows, at=np.repeat([50.0, 70.0, 130.0], [5, 20, 5]))
    page = service.page(now=130.0)
    for kind in page["counts"]:
        parts = verdicts.kind == kind
        assert page["minutes"][kind] == [int(parts[some].sum()) for some in np.split(np.arange(30), [5, 25])]
    assert [row["at"][14:19] for row in page["last"]] == ["02:10"] * 5 + ["01:10"] * 15


def test_records_of_the_audit_trail_give_the_same_page_one_by_one_and_all_at_once(guard):
    records, digest = [], START
    for i, second in enumerate((5, 30, 70, 71, 200)):  # in three minutes
        at = f"2026-11-18T03:0{second // 60}:{second % 60:02}.000Z"
        entry = Entry("verdicts", at, 20 * i, 20, encode_verdicts(guard(draw(i, 20))))
        records.append(chained(entry, seq=i + 1, previous=digest))
        digest = records[-1].digest
    single, whole = (Folding(guard, chain="abcd", alpha=0.01) for _ in range(2))
    for record in records:  # as the service meets them
        single.take([record])
    whole.take(records)  # as it reads them after a crash
    now = datetime(2026, 11, 18, 3, 4, tzinfo=UTC).timestamp()
    page = whole.live.to_dict(now=now)
    assert page == single.live.to_dict(now=now)
    totals = np.sum([page["minutes"][kind] for kind in page["counts"]], axis=0)
    assert totals[-5:].tolist() == [40, 40, 0, 20, 0]


def test_a_restart_keeps_times_too(guard):
    service, later = Service(guard, started_at=50.0), Service(guard, started_at=50.0)
    service.send(draw(12, 40), at=100.0)
    later.watch.restore(service.watch.state())
    later.view.restore(service.view.state())
    assert later.page(now=200.0) == service.page(now=200.0)
    service.send(draw(13, 3), at=150.0)
    later.send(draw(13, 3), at=150.0)
    assert later.page(now=200.0) == service.page(now=200.0)


def test_a_state_of_another_guard_or_a_damaged_one_is_refused(guard):
    service = Service(guard)
    service.send(draw(14, 5))
    state = service.view.state()
    other = Service(Guard("msp", sets=None).calibrate(draw(1, 300)))
    with pytest.raises(InputError, match="another guard"):
        other.view.restore(state)
    with pytest.raises(InputError, match="damaged"):
        Service(guard).view.restore({name: value for name, value in state.items() if name != "minutes"})
    with pytest.raises(InputError, match="same length"):
        service.view.add(0.0, 5, ["one"], guard(draw(15, 2)), {})


def test_infinite_scores_survive_a_restart(guard):
    rows = Outputs(logits=draw(16, 3).logits)
    service, verdicts = Service(guard), guard(rows)
    verdicts.score[1] = np.inf
    service.view.add(0.0, 0, ["a", "b", "c"], verdicts, service.watch.update(verdicts))
    later = Service(guard)
    later.watch.restore(service.watch.state())
    later.view.restore(json.loads(json.dumps(service.view.state(), allow_nan=False)))
    assert later.page() == service.page()


def test_a_large_batch_is_forgotten_and_memory_stays(guard):
    service, rows = Service(guard), draw(17, 50_000)
    verdicts = guard(rows)
    evidence = {name: np.zeros(rows.n) for name in service.watch.alarms}  # the watch is not measured here
    ids = [f"v{i}" for i in range(rows.n)]
    service.view.add(0.0, 0, ids, verdicts, evidence)
    tracemalloc.start()
    try:
        for i in range(1, 4):
            service.view.add(60.0 * i, i * rows.n, ids, guard(rows), evidence)
        service.page()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 500_000  # one batch of verdicts takes 4 MB
    assert len(json.dumps(service.view.state())) < 100_000
    assert service.page()["rows"] == 4 * rows.n
