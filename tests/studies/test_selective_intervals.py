"""The study of intervals of AURC and AUGRC: what its committed table says, and that its simulation says so again."""

from __future__ import annotations

import csv

import numpy as np
import pytest

TEXTS = ("metric", "score")


@pytest.fixture(scope="module")
def table(studies):
    with (studies / "selective_intervals" / "results.csv").open(encoding="utf-8") as stream:
        rows = csv.DictReader(stream)
        return [{k: v if k in TEXTS else float(v or "nan") for k, v in row.items()} for row in rows]


@pytest.fixture(scope="module")
def coverage(study):
    return study("selective_intervals", "coverage")


def test_the_table_has_every_case(table, coverage):
    cases = {(r["metric"], r["score"], r["error_rate"], r["n"]) for r in table}
    assert len(cases) == len(table) == 2 * (len(coverage.SCORES) * len(coverage.RATES) * len(coverage.DRAWS) + 3 + 18)


def test_intervals_without_a_caveat_cover_at_least_93_percent(table):
    quiet = [r for r in table if r["caveat"] < 0.5]
    assert len(quiet) > 80
    assert min(r["coverage"] for r in quiet) >= 0.93
    assert max(r["coverage"] for r in quiet) <= 0.98


def test_no_case_covers_less_than_82_percent(table):
    assert min(r["coverage"] for r in table) >= 0.82
    hard = [r for r in table if r["coverage"] < 0.93]
    assert all(r["caveat"] > 0.7 for r in hard)


def test_the_bootstrap_never_covers_clearly_more_and_often_far_less(table):
    with_bootstrap = [r for r in table if r["bootstrap_draws"] >= 500 and r["error_rate"] * r["n"] >= 1]
    slack = {draws: 4 * np.sqrt(0.05 * 0.95 / draws) for draws in (500, 1000)}
    assert all(r["coverage"] >= r["bootstrap_coverage"] - slack[r["bootstrap_draws"]] for r in with_bootstrap)
    few = [r for r in with_bootstrap if r["error_rate"] * r["n"] <= 10]
    assert np.mean([r["coverage"] - r["bootstrap_coverage"] for r in few]) > 0.05


@pytest.mark.parametrize(("score", "rate", "n"), [("good", 0.05, 300), ("good, rounded", 0.2, 100)])
def test_the_simulation_gives_the_committed_numbers(table, coverage, score, rate, n):
    draws = 300
    for row in coverage.simulate(score, rate, n, draws, 0):
        case = next(r for r in table if all(r[k] == row[k] for k in ("metric", "score", "error_rate", "n")))
        assert float(row["coverage"]) == pytest.approx(case["coverage"], abs=4 * np.sqrt(0.05 * 0.95 / draws))


def test_the_truth_is_the_area_of_a_large_sample(coverage):
    for score in ("good", "good, rounded", *coverage.UNSEEN):
        rows = coverage.draw(score, 0.2, 400_000, np.random.default_rng(0))
        for name, interval in coverage.selective_intervals(**rows, delta=1e-4).items():
            assert interval.lower <= coverage.truth(score, 0.2)[name] <= interval.upper
