"""The decision in words, from decisions made by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from caveat.evaluation.decide import Caught, Decision
from caveat.evaluation.records import Method
from caveat.report.first_screen import decision_box
from caveat.report.ranks import MOST_SETS, caught_panel
from caveat.results import Estimate, Promise


def share(value: float, n: int = 100) -> Estimate:
    return Estimate(value, max(0, value - 0.05), min(1, value + 0.05), 0.95, n, "Clopper-Pearson")


PROMISE = Promise("false alarms", 0.05, 0.99, 260, "exact", "exchangeable")
DECISION = Decision(
    Method("knn", (("k", 5),)), 41.7, "It is the best of 31 scores on these outliers.", PROMISE, share(0.031),
    warnings=("Nothing is promised about outliers.",),
)  # fmt: skip


def test_a_promise_stands_with_its_confidence_its_samples_and_what_was_measured():
    box = decision_box(DECISION, 0.01)
    assert (box.method, box.threshold) == ("knn(k=5)", "41.7")
    (line,) = box.promises
    assert line.mark == "✓"
    assert line.text == "At most 5\xa0% of in-distribution inputs are rejected."
    for words in ("99\xa0% confidence", "260 calibration samples", "measured 3.1\xa0%"):
        assert words in line.small


def test_what_cannot_be_promised_says_what_it_would_take():
    cannot = replace(PROMISE, remedy="It takes 460 calibration rows; there are 260.")
    errors = Promise("errors among the accepted", 0.01, 0.99, 260, "m", "a", remedy="460 rows would carry 1 %.")
    decision = replace(DECISION, threshold=math.inf, false_alarms=cannot, errors=errors, ungated_errors=share(0.004),
                       confidence=Method("msp"), accept_below=-math.inf)  # fmt: skip
    first, second = decision_box(decision, 0.01).promises
    assert first.mark == second.mark == "!"
    assert "can be promised" in first.text
    assert "460 calibration rows" in first.small
    assert "nothing can be promised at 1\xa0%" in second.text
    assert "nothing is accepted" in second.small
    assert decision_box(decision, 0.01).headline == "The score knn(k=5) has no threshold: it rejects nothing."
    assert "inf" not in str(decision)


@pytest.mark.parametrize("n", [1, 40])
def test_of_many_outlier_sets_those_caught_least_are_drawn(n):
    caught = [Caught(f"set {i}", "", share(i / n), confirmed=False) for i in range(n)]
    panel = caught_panel(caught)
    assert panel.svg.count('class="track"') == min(n, MOST_SETS)
    assert "set 0 " in panel.description


def test_confirmed_sets_are_marked_and_come_last():
    caught = [Caught("new", "", share(0.5), confirmed=True), Caught("old", "far", share(0.9), confirmed=False)]
    panel = caught_panel(caught)
    assert panel.description.index("old") < panel.description.index("new 50.0\xa0% [45.0, 55.0] (confirmed)")
    assert "caught confirmed" in panel.svg
