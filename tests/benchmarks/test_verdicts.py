"""Ties, kept promises, and the order of what is listed first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from verdicts import compare, halves, kept, listed_first

times = st.floats(0.001, 100)


def record(seconds, *, spread=0.01, family="sets", method="lac", package="caveat", threads=1):
    return {"family": family, "method": method, "package": package, "threads": threads, "seconds": seconds,
            "low": seconds * (1 - spread), "high": seconds * (1 + spread)}  # fmt: skip


def test_overlapping_quartiles_are_a_tie():
    assert compare(record(1.0, spread=0.2), record(1.3, spread=0.2)) == "tie"


def test_medians_within_ten_percent_are_a_tie_even_without_spread():
    assert compare(record(1.0, spread=0), record(1.09, spread=0)) == "tie"
    assert compare(record(1.0, spread=0), record(1.11, spread=0)) == "faster"


@given(times, times, st.floats(0, 0.5))
def test_faster_and_slower_are_opposites(a, b, spread):
    opposite = {"tie": "tie", "faster": "slower", "slower": "faster"}
    first, second = record(a, spread=spread), record(b, spread=spread)
    assert compare(second, first) == opposite[compare(first, second)]


@pytest.mark.parametrize(("delivered", "held"), [(0.1, True), (0.129, True), (0.131, False), (0.0, True)])
def test_three_standard_errors_of_doubt(delivered, held):
    assert kept(delivered, 0.01, 0.1) is held


def test_slower_tasks_come_first_then_those_far_above_the_floor():
    records = [
        record(4.0, method="far"), record(1.0, method="far", package="floor"),
        record(2.0, method="slow"), record(1.9, method="slow", package="floor"),
        record(1.0, method="slow", package="p"),
        record(9.0, method="slowest"), record(3.0, method="slowest", package="p"),
        record(1.0, method="fine"), record(0.5, method="fine", package="floor"),
        record(2.0, method="fine", package="p"),
    ]  # fmt: skip
    findings = listed_first(records)
    assert [f.method for f in findings] == ["slowest", "slow", "far"]
    assert [round(f.behind, 6) for f in findings] == [3.0, 2.0, 0.0]
    assert [round(f.above, 2) for f in findings] == [0.0, 1.05, 4.0]


def test_a_tie_with_the_fastest_peer_is_not_slower():
    records = [record(1.05), record(1.0, package="p"), record(9.0, package="q"), record(1.0, package="floor")]
    assert listed_first(records) == []


def test_two_threads_count_only_where_one_thread_shows_nothing():
    both = [record(s, threads=t, package=p) for t in (1, 2) for s, p in ((5.0, "caveat"), (1.0, "peer"))]
    assert [f.threads for f in listed_first(both)] == [1]
    later = [record(1.0), record(1.0, package="peer"), *both[2:]]
    assert [f.threads for f in listed_first(later)] == [2]


def test_a_contender_with_a_problem_is_left_out():
    problem = {"family": "sets", "method": "lac", "package": "p", "threads": 1, "problem": "KeyError"}
    assert listed_first([record(1.0), problem]) == []


def test_fit_and_score_of_an_ood_score_are_two_tasks():
    # the sum is faster than the peer's, the fit is not
    ours = record(5.0, family="ood", method="mahalanobis") | {"first": 4.0, "second": 1.0}
    peer = record(9.0, family="ood", method="mahalanobis", package="p") | {"first": 1.0, "second": 8.0}
    (finding,) = listed_first([ours, peer])
    assert finding.method == "mahalanobis fit"
    assert finding.behind == pytest.approx(4.0)


def test_other_families_are_one_task():
    assert [task["method"] for task in halves(record(1.0) | {"first": 0.5, "second": 0.5})] == ["lac"]
