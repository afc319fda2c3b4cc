"""The page says what the records say, the worst first."""

import copy
import re

import pytest
from page_text import page

SETUP = {
    "date": "2030-01-01 00:00 UTC", "machine": "a processor, 2 cores, 4 GB", "load_start": 0.1, "load_end": 0.9,
    "load_bound": 0.5, "forced": False, "quick": False, "version": "9.9 (abc)", "problems": {"torchcp": "no wheel"},
    "versions": {"caveat": {"python": "3.11"}, "mapie": {"mapie": "1.6.0"}, "river": {"river": "0.26"}},
    "draws": "10 to 20", "minutes": 1.0,
}  # fmt: skip


def time(package, seconds, *, threads=1, method="lac"):
    return {"family": "sets", "method": method, "package": package, "threads": threads, "seconds": seconds,
            "low": 0.99 * seconds, "high": 1.01 * seconds, "first": 0.0, "second": 1.0, "memory_mb": 7.0}  # fmt: skip


def level(package, error, *, family="sets", method="lac", se=0.002, **more):
    return {"family": family, "method": method, "package": package, "error": error, "error_se": se, "size": 2.5,
            "draws": 10, **more}  # fmt: skip


@pytest.fixture
def results():
    times = [time(p, s, threads=t) for t in (1, 2) for p, s in (("caveat", 0.2), ("mapie", 0.1), ("floor", 0.05))]
    return {"setup": copy.deepcopy(SETUP), "times": times, "levels": [level("caveat", 0.1), level("mapie", 0.2)]}


def section(text, title):
    return re.split(r"^## ", text, flags=re.MULTILINE)[[t.split("\n")[0] for t in text.split("\n## ")].index(title)]


def test_slower_tasks_are_the_first_section(results):
    text = page(results)
    assert text.index("## Slower than a peer") < text.index("## Promises") < text.index("## Prediction sets")
    first = section(text, "Slower than a peer, or more than 3 x above the floor")
    assert "mapie 1.6.0: 100 ms, **2.0 x faster**" in first
    assert "4.0 x" in first


def test_a_tie_is_called_a_tie(results):
    results["times"] = [time("caveat", 0.1), time("mapie", 0.105), time("floor", 0.09)]
    text = page(results)
    assert ", tie" in section(text, "Prediction sets")
    assert "None." in section(text, "Slower than a peer, or more than 3 x above the floor")


def test_a_broken_promise_is_listed_and_a_kept_one_is_not(results):
    broken = section(page(results), "Promises that were not kept")
    assert "| mapie 1.6.0 | Prediction sets | lac | 0.1 | 0.200 ± 0.002 |" in broken
    assert "Caveat |" not in broken


def test_our_own_broken_promises_come_first(results):
    results["levels"] = [level("mapie", 0.3), level("caveat", 0.2)]
    broken = section(page(results), "Promises that were not kept")
    assert broken.index("| Caveat |") < broken.index("| mapie 1.6.0 |")


def test_a_method_without_a_promise_breaks_none(results):
    results["levels"].append(level("river", 0.97, family="drift", method="KSWIN"))
    results["times"].append(time("river", 0.1, method="KSWIN") | {"family": "drift"})
    text = page(results)
    assert "KSWIN" not in section(text, "Promises that were not kept")
    assert "no promise" in section(text, "Drift martingales")


def test_forced_and_quick_runs_are_marked(results):
    assert "Forced run" not in page(results)
    results["setup"] |= {"forced": True, "quick": True, "load_start": 7.0}
    text = page(results)
    assert "Forced run on a busy machine" in text
    assert "Quick run" in text


def test_what_could_not_be_measured_is_said(results):
    results["levels"].append({"family": "sets", "package": "mapie", "method": "raps", "problem": "ValueError: too few"})
    text = page(results)
    assert "not measured: torchcp (no wheel)" in text
    assert "raps: not measured (ValueError: too few)" in text


def test_pitfalls_are_told_only_with_their_measurements(results):
    assert "KSWIN" not in page(results)
    results["levels"] += [
        level("river", 0.97, family="drift", method="KSWIN"),
        level("river", 0.07, family="drift", method="KSWIN 0.0001"),
        level("caveat", 0.03, family="drift", method="alarm"),
    ]
    text = page(results)
    assert "0.970 ± 0.002 with the default" in " ".join(text.split())
    assert "Martingales on a fixed calibration set" not in text


def test_answers_against_their_definition_are_counted_and_told_where_they_differ(results):
    exact = {"below": 0.0, "below_se": 0.0}
    results["levels"] += [
        level("caveat", 0.0, family="definitions", method="threshold", **exact),
        level("crepes", 0.076, family="definitions", method="threshold", **exact),
        level("torch_uncertainty", 0.98, family="definitions", method="threshold", **exact | {"below": 0.97}),
        {"family": "definitions", "package": "puncc", "method": "threshold", "problem": "no wheel"},
    ]
    text = " ".join(page(results).split())
    assert "| crepes | rank of the conformal threshold, n = 5 to 100, 7 levels | 7.6 % | 0 % | +2.5 |" in text
    assert "A rank in floating point" in text
    assert "97.0 % of 10 cases" in text
    assert "Swapped arguments" not in text
    assert "puncc, threshold: not measured (no wheel)." in text


def test_a_bound_that_holds_is_not_called_broken(results):
    wsr = [level("mapie", e, family="risk", method=m) for e, m in ((0.1, "wsr"), (0.02, "wsr, alpha on the grid"))]
    results["levels"] += [*wsr, level("caveat", 0.07, family="risk", method="wsr")]
    assert "was not seen to break here" in " ".join(page(results).split())


def test_every_table_row_has_the_cells_of_its_head(results):
    for table in re.findall(r"(?:^\|.*\n)+", page(results), flags=re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1
