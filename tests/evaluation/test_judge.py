"""What the test rows say about a promise: by hand, and over many draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from caveat import Outputs, evaluate
from caveat.evaluation.judge import LEVEL, judge_coverage, judge_rate, rate_is_high
from caveat.report import render_report
from caveat.results import Promise, proportion_interval

ALARMS = Promise("false alarms", 0.05, 0.95, 1000, "exact", "exchangeable rows")
COVERAGE = Promise("coverage", 0.9, None, 500, "split conformal", "exchangeable rows")


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (8, 100), (11, 100), (60, 1000), (65, 1000), (1000, 1000)])
def test_a_rate_is_high_if_so_many_hits_are_rare_at_the_bound(hits, n):
    assert rate_is_high(hits, n, 0.05) == (binom.sf(hits - 1, n, 0.05) <= LEVEL)


def test_the_outcomes_of_a_rate():
    def outcome(hits, n, promise=ALARMS):
        return judge_rate(proportion_interval(hits, n), promise).outcome

    assert outcome(82, 1000) == "contradicted"
    assert outcome(55, 1000) == "agrees"
    assert outcome(0, 1000) == "agrees"  # better than promised contradicts nothing
    assert outcome(1, 1) == "not judged"  # one row is rejected with probability 0.05: no count of one row is rare
    assert judge_rate(None, ALARMS).outcome == "not judged"
    unmade = Promise("false alarms", 0.05, 0.95, 10, "exact", "", remedy="It takes 59.")
    assert outcome(900, 1000, unmade) == "not promised"


def test_the_outcomes_of_coverage():
    def outcome(hits, n):
        return judge_coverage(proportion_interval(hits, n), COVERAGE, alpha=0.1).outcome

    assert [outcome(hits, 1000) for hits in (865, 866, 930, 1000)] == ["contradicted", "agrees", "agrees", "agrees"]
    assert outcome(0, 1) == "not judged"
    assert judge_coverage(None, COVERAGE, alpha=0.1).outcome == "not judged"


@pytest.mark.parametrize("rate", [0.05, 0.03])
def test_a_promised_rate_that_holds_is_contradicted_in_at_most_a_fortieth_of_the_draws(rate):
    for m in (40, 300, 5000):
        hits = np.random.default_rng(m).binomial(m, rate, size=4000)
        share = np.mean([rate_is_high(int(k), m, 0.05) for k in hits])
        assert share <= LEVEL + 4 * math.sqrt(LEVEL * (1 - LEVEL) / 4000)


def draw(rng, n, shift=0.0):
    labels = rng.integers(3, size=n)
    return Outputs(logits=3.5 * np.eye(3)[labels] + (1 + shift) * rng.normal(size=(n, 3)), labels=labels)


@pytest.mark.parametrize("trials", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_on_rows_of_one_kind_promises_that_hold_are_rarely_contradicted(trials):
    rng = np.random.default_rng(3)
    false = {"false alarms": 0, "errors among the accepted": 0, "coverage": 0}
    future = draw(np.random.default_rng(1), 40_000)
    for _ in range(trials):
        held, test = draw(rng, 400), draw(rng, 400)
        result = evaluate(calibration=held, inlier=test, scores=["msp"], risk=0.06)
        decision = result.decision
        verdicts = result.guard(None, held)(future)
        holds = {
            "false alarms": verdicts.outliers.mean() <= 0.05,
            "errors among the accepted": (~future.correct[verdicts.accepted]).mean() <= 0.06,
            "coverage": True,  # on average over calibration sets, and these are drawn anew
        }
        for promise, judgment in zip(decision.promises, decision.judgments, strict=True):
            false[promise.what] += holds[promise.what] and judgment.outcome == "contradicted"
    most = LEVEL * trials + 3 * math.sqrt(LEVEL * trials)
    assert all(count <= most for count in false.values()), false


@pytest.fixture(scope="module")
def unlike():
    rng = np.random.default_rng(5)
    odd = Outputs(logits=rng.normal(size=(100, 3)))
    return evaluate(calibration=draw(rng, 800), inlier=draw(rng, 800, 1.0), outliers={"odd": odd}, scores=["msp"])


def test_rows_of_another_kind_contradict_every_promise_wherever_it_is_shown(unlike):
    decision = unlike.decision
    assert [judgment.outcome for judgment in decision.judgments] == ["contradicted"] * 3
    assert str(decision).count("✗") == 3
    assert "✓" not in str(decision)
    assert {promise["test"] for promise in decision.to_dict()["promises"]} == {"contradicted"}
    assert unlike._repr_html_().count("✗") == 3
    page = render_report(unlike.findings())[0]
    assert page.count('<li class="bad">') == 3
    assert '<li class="ok">' not in page
    assert page.count("calibration and test are not alike") >= 3


def test_a_promise_without_rows_to_judge_it_has_no_check_mark():
    rng = np.random.default_rng(6)
    held, few = draw(rng, 800), draw(rng, 800)[:1]
    decision = evaluate(calibration=held, inlier=few, scores=["msp"], risk=0.2).decision
    assert {judgment.outcome for judgment in decision.judgments} == {"not judged"}
    assert "✓" not in str(decision)
    assert "too few" in str(decision)
