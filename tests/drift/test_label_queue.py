"""The order of labels: what rings falsely in the order of arrival does not in the order of the answers, or at worst."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caveat import InputError
from caveat.drift import LabelQueue, RiskMonitor


def test_windows_by_hand():
    queue = LabelQueue(window=2, wait=2)
    queue.answered([3, 5, 8, 9])
    queue.labeled({8: True, 9: False, 3: True})
    wrong, has_label = queue.release()  # 3 and 5 are closed: two answers have followed; 8 and 9 have their labels
    assert (wrong.tolist(), has_label.tolist()) == ([True, False, True, False], [True, False, True, True])
    queue.labeled({5: True})  # too late
    queue.answered([10, 11])
    queue.labeled({11: True})
    assert queue.release()[0].size == 0
    queue.labeled({10: False})
    assert queue.release()[0].tolist() == [False, True]


def reference(events, window, wait):
    """What leaves the queue, from the definition: the front window, again and again."""
    answers, labels, out, front = [], {}, [], 0
    for kind, value in events:
        if kind == "answers":
            answers += value
        else:
            labels.update({row: wrong for row, wrong in value.items() if row in answers[front:]})
        while front + window <= len(answers):
            part = answers[front : front + window]
            if not all(row in labels for row in part) and (wait is None or len(answers) - front - window < wait):
                break
            out += [(labels.get(row, False), row in labels) for row in part]
            front += window
    return out


@given(data=st.data(), window=st.integers(1, 4), wait=st.none() | st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_the_queue_is_the_definition_also_after_a_restart(data, window, wait, seed):
    rng = np.random.default_rng(seed)
    queue, events, out, row, open_rows = LabelQueue(window=window, wait=wait), [], [], 0, []
    for _ in range(data.draw(st.integers(1, 15))):
        if rng.random() < 0.5:
            rows = (row + 1 + np.cumsum(rng.integers(0, 3, size=rng.integers(0, 4)) + 0)).tolist()
            rows = sorted(set(rows))
            row = rows[-1] if rows else row
            open_rows += rows
            events.append(("answers", rows))
            queue.answered(rows)
        else:
            some = [r for r in open_rows if rng.random() < 0.4]
            labels = {r: bool(r % 3 == 0) for r in some}
            events.append(("labels", labels))
            queue.labeled(labels)
        wrong, has_label = queue.release()
        out += list(zip(wrong.tolist(), has_label.tolist(), strict=True))
        queue = LabelQueue(window=window, wait=wait).restore(json.loads(json.dumps(queue.state())))
    assert out == reference(events, window, wait)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60))
def test_any_order_of_all_labels_is_the_order_of_the_answers(seed, n):
    rng = np.random.default_rng(seed)
    wrong = rng.random(n) < 0.3
    queue, out = LabelQueue(), []
    queue.answered(range(n))
    for i in rng.permutation(n).tolist():
        queue.labeled({i: bool(wrong[i])})
        out += queue.release()[0].tolist()
    assert out == wrong.tolist()


def rings(labels, *, selective=False, risk=0.05, alpha=0.01):
    """Whether the monitor rings on (wrong, has_label)."""
    monitor = RiskMonitor(risk=risk, alpha=alpha, selective=selective)
    monitor.update(*labels)
    return monitor.alarmed


def arrivals(rng, wrong):
    """Errors are confirmed five times as fast as right answers."""
    return np.argsort(np.arange(wrong.size) + rng.exponential(np.where(wrong, wrong.size / 20, wrong.size / 4)))


def test_errors_first_ring_in_the_order_of_arrival_and_not_in_that_of_the_answers():
    """Error 3 %, risk 5 %, alpha 1 %: no alarm is due. This is why the assumption is stated."""
    rng = np.random.default_rng(0)
    first = in_order = windows = 0
    for _ in range(200):
        wrong = rng.random(1000) < 0.03
        first += rings((np.sort(wrong)[::-1],))
        released = []
        for window in (1, 50):
            queue, parts = LabelQueue(window=window), []
            queue.answered(range(1000))
            for some in np.array_split(np.argsort(~wrong, kind="stable"), 20):
                queue.labeled({int(i): bool(wrong[i]) for i in some})
                parts.append(queue.release())
            released.append(tuple(np.concatenate(part) for part in zip(*parts, strict=True)))
        in_order += rings(released[0])
        windows += rings(released[1])
    assert first / 200 > 0.9
    bound = 0.01 + 4 * math.sqrt(0.01 * 0.99 / 200)
    assert in_order / 200 <= bound
    assert windows / 200 <= bound


@pytest.mark.parametrize("choice", ["errors alone", "errors sooner", "until it rings"])
def test_what_is_chosen_by_the_answers_keeps_the_promise_at_worst(choice):
    """At the promised risk itself, alpha 10 %; labels come as somebody chooses who has seen all answers."""
    rng, risk, alpha, trials, n = np.random.default_rng(1), 0.1, 0.1, 200, 1000
    rung = missed = 0
    for _ in range(trials):
        wrong = rng.random(n) < risk
        queue = LabelQueue(wait=200)
        monitor = RiskMonitor(risk=risk, alpha=alpha, selective=True)
        if choice == "errors alone":
            has_label = wrong
        elif choice == "errors sooner":
            has_label = wrong | (rng.random(n) < 0.3)
        else:  # right answers are hidden where the errors are many
            has_label = wrong | (np.cumsum(wrong - risk) < 2)
        outside = False
        for start in range(0, n, 250):
            rows = range(start, start + 250)
            queue.answered(rows)
            queue.labeled({i: bool(wrong[i]) for i in rows if has_label[i]})
            monitor.update(*queue.release())
            low, high = monitor.interval
            outside |= not low <= risk <= high
        rung += monitor.alarmed
        missed += outside
    bound = alpha + 4 * math.sqrt(alpha * (1 - alpha) / trials)
    assert rung / trials <= bound
    assert missed / trials <= bound


@given(data=st.data(), n=st.integers(1, 80), risk=st.sampled_from([0.01, 0.1, 0.5]))
def test_a_missing_label_never_adds_evidence_and_never_shortens_the_interval(data, n, risk):
    wrong = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    has_label = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    full, part = (RiskMonitor(risk=risk, selective=True) for _ in range(2))
    assert (part.update(wrong, has_label) <= full.update(wrong) + 1e-9).all()
    assert part.interval[0] <= full.interval[0] + 1e-12
    assert part.interval[1] >= full.interval[1] - 1e-12
    again = RiskMonitor(risk=risk, selective=True).restore(json.loads(json.dumps(part.state())))
    assert (again.n, again.missing, again.interval) == (n, int((~has_label).sum()), part.interval)


def test_four_times_the_risk_is_found_though_a_third_of_the_labels_is_missing():
    rng = np.random.default_rng(2)
    wrong, has_label = rng.random(2000) < 0.2, rng.random(2000) < 2 / 3
    assert rings((wrong, has_label), selective=True)


def test_missing_labels_need_a_selective_monitor():
    with pytest.raises(InputError, match="selective=True"):
        RiskMonitor().update([True, False], [True, False])
    with pytest.raises(InputError):
        RiskMonitor(selective=True).update([True, False], [True])
    with pytest.raises(InputError):
        LabelQueue(window=0)


def test_the_assumption_stands_beside_the_number():
    assert "does not depend on whether the answers were wrong" in repr(RiskMonitor())
    assert "Holds whichever labels come" in repr(RiskMonitor(selective=True))
